"""Who may do what on a testbed's cluster: accounts, roles, and the questions that prove them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fogctl.kube import names
from fogctl.kube.access import Manifest
from fogctl.testbed.model import Testbed

_RBAC = "rbac.authorization.k8s.io"
_LOOK = ("get", "list", "watch")
_CHANGE = ("create", "update", "patch", "delete")


@dataclass(frozen=True, slots=True)
class Rule:
    """What may be done with some resources."""

    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    group: str = ""
    only: tuple[str, ...] = ()
    """Only objects of these names; empty: all."""

    def to_json(self) -> Manifest:
        """As a role holds it."""
        made: Manifest = {
            "apiGroups": [self.group],
            "resources": list(self.resources),
            "verbs": list(self.verbs),
        }
        return made | ({"resourceNames": list(self.only)} if self.only else {})


OPERATOR_RULES = (
    Rule(("pods",), (*_LOOK, "delete")),
    Rule(("pods/log",), ("get",)),
    Rule(("pods/proxy",), ("get", "create")),
    Rule(("pods/resize",), ("get", "patch", "update")),
    Rule(("configmaps", "services", "persistentvolumeclaims"), (*_LOOK, *_CHANGE)),
    Rule(("events",), _LOOK),
    Rule(("secrets",), ("get",), only=(names.SECRET,)),
    Rule(("statefulsets", "statefulsets/scale"), (*_LOOK, *_CHANGE), "apps"),
    Rule(("jobs",), (*_LOOK, "create", "delete"), "batch"),
)
"""In the testbed's namespace, for the command line and the agent."""
DRIVER_RULES = (
    Rule(("pods",), (*_LOOK, *_CHANGE, "deletecollection")),
    Rule(("pods/resize",), ("patch",)),
)
"""In the testbed's namespace, for Spark's drivers: they make their executors, and limit them."""


def operator_node_rules(nodes: Sequence[str]) -> tuple[Rule, ...]:
    """Nodes belong to no namespace: all may be looked at, only the testbed's own may be labelled.

    `nodes/proxy` is not among them on purpose: it lets its holder run commands in every pod of a node.
    """
    return (
        Rule(("nodes",), _LOOK),
        Rule(("nodes",), ("patch",), only=tuple(nodes)),
        Rule(("nodes/metrics", "nodes/stats"), ("get",), only=tuple(nodes)),
    )


def cluster_role_name(testbed: str) -> str:
    """The name of the testbed's only role outside its namespace."""
    return f"{names.namespace(testbed)}-operator"


def manifests(testbed: Testbed) -> list[Manifest]:
    """Accounts, roles and who has them, in the order in which they are made."""
    space = names.namespace(testbed.name)
    whole = cluster_role_name(testbed.name)
    node_rules = operator_node_rules([node.name for node in testbed.nodes])
    return [
        *(_object("v1", "ServiceAccount", name, testbed, space) for name in (names.OPERATOR, names.DRIVER)),
        _role("Role", names.OPERATOR, testbed, space, OPERATOR_RULES),
        _role("Role", names.DRIVER, testbed, space, DRIVER_RULES),
        _binding("RoleBinding", names.OPERATOR, names.OPERATOR, testbed, space),
        _binding("RoleBinding", names.DRIVER, names.DRIVER, testbed, space),
        _role("ClusterRole", whole, testbed, "", node_rules),
        _binding("ClusterRoleBinding", whole, names.OPERATOR, testbed, ""),
    ]


def _object(api: str, kind: str, name: str, testbed: Testbed, space: str) -> Manifest:
    about: Manifest = {"name": name, "labels": names.labels(testbed.name)}
    if space:
        about["namespace"] = space
    return {"apiVersion": api, "kind": kind, "metadata": about}


def _role(kind: str, name: str, testbed: Testbed, space: str, rules: Sequence[Rule]) -> Manifest:
    made = _object(f"{_RBAC}/v1", kind, name, testbed, space)
    return made | {"rules": [rule.to_json() for rule in rules]}


def _binding(kind: str, name: str, account: str, testbed: Testbed, space: str) -> Manifest:
    role = kind.removesuffix("Binding")
    return _object(f"{_RBAC}/v1", kind, name, testbed, space) | {
        "roleRef": {"apiGroup": _RBAC, "kind": role, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": names.namespace(testbed.name)}],
    }


@dataclass(frozen=True, slots=True)
class Question:
    """One thing an account may or may not do, as `kubectl auth can-i` asks it."""

    verb: str
    resource: str
    """With its subresource, like pods/log."""
    group: str = ""
    namespace: str = ""
    name: str = ""

    def describe(self) -> str:
        """In words."""
        which = f"{self.resource} {self.name}" if self.name else self.resource
        return f"{self.verb} {which}" + (f" in {self.namespace}" if self.namespace else "")

    def to_json(self) -> Manifest:
        """As the API server is asked."""
        resource, _, sub = self.resource.partition("/")
        return {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {
                "resourceAttributes": {
                    "verb": self.verb,
                    "group": self.group,
                    "resource": resource,
                    "subresource": sub,
                    "namespace": self.namespace,
                    "name": self.name,
                }
            },
        }


def admin_needs(testbed: Testbed) -> list[Question]:
    """What whoever brings the testbed up or takes it down must be allowed."""
    space = names.namespace(testbed.name)
    inside = [
        ("serviceaccounts", ""),
        ("serviceaccounts/token", ""),
        ("secrets", ""),
        ("configmaps", ""),
        ("persistentvolumeclaims", ""),
        ("statefulsets", "apps"),
        ("roles", _RBAC),
        ("rolebindings", _RBAC),
    ]
    return [
        Question("create", "namespaces"),
        Question("delete", "namespaces", name=space),
        Question("create", "clusterroles", _RBAC),
        Question("create", "clusterrolebindings", _RBAC),
        *(Question("patch", "nodes", name=node.name) for node in testbed.nodes[:1]),
        *(Question("create", resource, group, space) for resource, group in inside),
    ]


def operator_may(testbed: Testbed) -> list[Question]:
    """What the testbed's own account must be able to do: everything its rules say."""
    space = names.namespace(testbed.name)
    rules = [(rule, space) for rule in OPERATOR_RULES]
    rules += [(rule, "") for rule in operator_node_rules([node.name for node in testbed.nodes])]
    return [
        Question(verb, resource, rule.group, where, rule.only[0] if rule.only else "")
        for rule, where in rules
        for resource in rule.resources
        for verb in rule.verbs
    ]


def operator_may_not(testbed: Testbed, others: Sequence[str] = ()) -> list[Question]:
    """What the testbed's own account must not be able to do; `others` are nodes outside the testbed."""
    space = names.namespace(testbed.name)
    first = testbed.nodes[0].name
    return [
        Question("get", "secrets", namespace="kube-system"),
        Question("list", "secrets", namespace=space),
        Question("get", "secrets", namespace=space, name="another"),
        Question("list", "pods", namespace="kube-system"),
        Question("delete", "pods", namespace="default"),
        Question("create", "statefulsets", "apps", namespace="default"),
        Question("create", "pods/exec", namespace=space),
        Question("create", "serviceaccounts/token", namespace=space, name=names.DRIVER),
        Question("create", "rolebindings", _RBAC, namespace=space),
        Question("create", "clusterroles", _RBAC),
        Question("create", "clusterrolebindings", _RBAC),
        Question("create", "namespaces"),
        Question("delete", "namespaces", name=space),
        Question("delete", "nodes", name=first),
        Question("get", "nodes/proxy", name=first),
        Question("impersonate", "users"),
        *(Question("patch", "nodes", name=node) for node in (*others[:1], "a-node-of-no-testbed")),
    ]
