"""Who may do what: roles that name what they allow, and questions that prove them."""

from __future__ import annotations

from fognetem.matrix import LatencyMatrix

from fogctl.kube import names, rbac
from fogctl.kube.rbac import Question
from fogctl.testbed.model import Kind, Node, Role, Testbed

BED = Testbed(
    "lab",
    Kind.k3s,
    (
        Node("cloud", Role.control, "main", "host", None, None),
        Node("pi1", Role.edge, "main", "host", None, None),
    ),
    LatencyMatrix(("cloud", "pi1")),
)


def rules_allow(question: Question) -> bool:
    """What a reader of the roles would say, for the testbed's own account."""
    scopes = [(names.namespace("lab"), rbac.OPERATOR_RULES), ("", rbac.operator_node_rules(["cloud", "pi1"]))]
    return any(
        question.verb in rule.verbs
        and question.resource in rule.resources
        and question.group == rule.group
        and (not rule.only or question.name in rule.only)
        for scope, rules in scopes
        for rule in rules
        if scope == question.namespace
    )


def test_no_rule_is_a_wildcard() -> None:
    for manifest in rbac.manifests(BED):
        for rule in manifest.get("rules", []):
            assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"]


def test_all_that_is_asked_for_is_granted_and_nothing_that_must_not_be() -> None:
    assert all(map(rules_allow, rbac.operator_may(BED)))
    assert not [question for question in rbac.operator_may_not(BED, ["other"]) if rules_allow(question)]


def test_only_the_testbeds_own_nodes_may_be_changed() -> None:
    assert rules_allow(Question("patch", "nodes", name="pi1"))
    assert not rules_allow(Question("patch", "nodes", name="pi2"))
    assert not rules_allow(Question("patch", "nodes"))


def test_a_question_in_words_and_as_it_is_asked() -> None:
    question = Question("get", "pods/log", namespace="fog-lab", name="x")
    assert question.describe() == "get pods/log x in fog-lab"
    asked = question.to_json()["spec"]["resourceAttributes"]
    assert (asked["resource"], asked["subresource"], asked["name"]) == ("pods", "log", "x")
    assert Question("create", "namespaces").describe() == "create namespaces"


def test_the_drivers_account_has_a_role_in_its_namespace_only() -> None:
    bindings = [each for each in rbac.manifests(BED) if each["kind"].endswith("Binding")]
    whole = [each for each in bindings if each["kind"] == "ClusterRoleBinding"]
    assert [subject["name"] for each in whole for subject in each["subjects"]] == [names.OPERATOR]
