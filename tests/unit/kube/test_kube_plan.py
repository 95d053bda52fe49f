"""What a testbed consists of on a cluster: the same plan every time, all of it labelled, no secret shown."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from fognetem.matrix import LatencyMatrix
from hypothesis import given
from hypothesis import strategies as st

from fogctl.kube import names
from fogctl.kube.credentials import Credentials
from fogctl.kube.ledger import NodeLabel
from fogctl.kube.objects import Ref
from fogctl.kube.plan import Part, outdated, plan, up_to_date
from fogctl.testbed.model import ExternalKafka, Kind, KubeCluster, Node, Role, Testbed

SECRETS = Credentials("kafkapassword", "controltoken")


def bed(*nodes: str, **changes: object) -> Testbed:
    roles = [Role.control, Role.broker, *([Role.edge] * len(nodes))]
    made = tuple(
        Node(name, role, "main", "host", None, None) for name, role in zip(nodes, roles, strict=False)
    )
    return replace(Testbed("lab", Kind.k3s, made, LatencyMatrix(nodes)), **changes)  # type: ignore[arg-type]


def by_ref(parts: list[Part]) -> dict[str, Part]:
    return {part.describe(): part for part in parts}


def test_the_namespace_comes_first_and_everything_carries_our_labels() -> None:
    parts = plan(bed("cloud", "hub", "pi1"), SECRETS)
    assert parts[0].entry == Ref("Namespace", "fog-lab")
    for part in parts:
        if isinstance(part.entry, Ref):
            assert names.is_ours(part.manifest["metadata"]["labels"], "lab")
            assert part.entry.namespace in ("", "fog-lab")
            assert part.entry == Ref.of(part.manifest)


def test_every_node_is_labelled_with_its_testbed() -> None:
    labels = [part.entry for part in plan(bed("cloud", "hub", "pi1"), SECRETS) if not part.manifest]
    assert labels == [NodeLabel(node, names.TESTBED, "lab") for node in ("cloud", "hub", "pi1")]


def test_the_same_testbed_gives_the_same_plan() -> None:
    assert plan(bed("cloud", "pi1"), SECRETS) == plan(bed("cloud", "pi1"), SECRETS)


def test_the_broker_is_on_the_broker_node_as_an_ordinary_user() -> None:
    parts = by_ref(plan(bed("cloud", "hub", "pi1"), SECRETS))
    pod = parts["StatefulSet fog-broker in fog-lab"].manifest["spec"]["template"]["spec"]
    required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required["nodeSelectorTerms"][0]["matchFields"][0]["values"] == ["hub"]
    assert pod["hostNetwork"] is True
    assert pod["securityContext"]["runAsNonRoot"] is True
    for container in (*pod["initContainers"], *pod["containers"]):
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["image"] == names.DEFAULT_IMAGE


def test_passwords_are_in_the_secret_only() -> None:
    for part in plan(bed("cloud", "hub"), SECRETS):
        shown = json.dumps(part.manifest)
        assert SECRETS.kafka_password not in shown
        assert SECRETS.control_token not in shown


def test_a_kafka_elsewhere_needs_no_broker() -> None:
    parts = plan(bed("cloud", "pi1", kafka=ExternalKafka(("kafka:9092",))), SECRETS)
    assert not [part for part in parts if names.BROKER in part.describe()]


def test_another_image_or_storage_class_changes_what_uses_it_only() -> None:
    usual = by_ref(plan(bed("cloud", "hub"), SECRETS))
    cluster = KubeCluster(image="localhost/mine:2", storage_class="fast")
    other = by_ref(plan(bed("cloud", "hub", kube=cluster), SECRETS))
    changed = [each for each in usual if not up_to_date(usual[each].manifest, other[each].manifest)]
    assert changed == [
        "PersistentVolumeClaim fog-state in fog-lab",
        "PersistentVolumeClaim fog-broker in fog-lab",
        "StatefulSet fog-broker in fog-lab",
    ]


def test_a_shared_volume_is_claimed_for_checkpoints_only() -> None:
    parts = by_ref(plan(bed("cloud", "hub", kube=KubeCluster(shared_storage=True)), SECRETS))
    modes = {name: parts[f"PersistentVolumeClaim {name} in fog-lab"].manifest["spec"]["accessModes"]
             for name in ("fog-state", "fog-broker")}  # fmt: skip
    assert modes == {"fog-state": ["ReadWriteMany"], "fog-broker": ["ReadWriteOnce"]}


def test_an_object_that_was_made_by_another_plan_is_not_up_to_date() -> None:
    part = plan(bed("cloud", "hub"), SECRETS)[0]
    assert up_to_date(part.manifest, part.manifest)
    assert not up_to_date({"metadata": {}}, part.manifest)


@given(st.sets(st.sampled_from([f"pi{number}" for number in range(8)]), max_size=8))
def test_what_leaves_the_plan_is_removed_and_nothing_else(left: set[str]) -> None:
    everyone = ("cloud", *(f"pi{number}" for number in range(8)))
    before = [part.entry for part in plan(bed(*everyone), SECRETS)]
    after = plan(bed(*(node for node in everyone if node not in left)), SECRETS)
    gone = outdated(tuple(before), after)
    assert {entry.node for entry in gone if isinstance(entry, NodeLabel)} == left
    assert not [entry for entry in gone if isinstance(entry, Ref)]


@pytest.mark.parametrize("labels", [None, {}, {names.MANAGED_BY: "fogctl"}, {names.TESTBED: "lab"}])
def test_half_of_our_labels_is_not_ours(labels: dict[str, str] | None) -> None:
    assert not names.is_ours(labels, "lab")
