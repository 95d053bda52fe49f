"""The testbed.yaml that is written for a cluster that is there already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fogctl.config import testbed
from fogctl.errors import FogError
from fogctl.kube.draft import yaml_text
from fogctl.testbed.model import Kind, Role, Testbed


def node(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {key.replace("__", "/"): "" for key in labels}}}


def storage(name: str, default: bool = False) -> dict[str, Any]:
    note = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    return {"metadata": {"name": name, "annotations": note}}


def read(tmp_path: Path, nodes: list[dict[str, Any]], classes: list[dict[str, Any]] | None = None) -> Testbed:
    file = tmp_path / "testbed.yaml"
    file.write_text(yaml_text("lab", Path("/k/config"), "home", nodes, classes or []))
    return testbed.load(file)


def test_the_node_the_cluster_is_run_from_has_the_role_control(tmp_path: Path) -> None:
    control = {"node-role.kubernetes.io/control-plane": "true"}
    nodes = [node("pi1"), {"metadata": {"name": "zeus", "labels": control}}, node("pi0")]
    found = read(tmp_path, nodes)
    assert [(each.name, each.role) for each in found.nodes] == [
        ("zeus", Role.control),
        ("pi0", Role.edge),
        ("pi1", Role.edge),
    ]
    assert (found.kind, found.kube.config, found.kube.context) == (Kind.k3s, "/k/config", "home")


def test_without_one_it_is_the_first_by_name(tmp_path: Path) -> None:
    assert read(tmp_path, [node("b"), node("a")]).nodes[0].name == "a"


def test_or_the_one_where_the_api_server_is() -> None:
    there = {"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.7"}]}}
    text = yaml_text("lab", Path("/k"), None, [node("a"), node("b") | there], [], "https://10.0.0.7:6443")
    assert "{name: b, role: control" in text


@pytest.mark.parametrize(
    ("classes", "chosen"),
    [
        ([], "local-path"),
        ([storage("fast", True), storage("local-path")], "local-path"),
        ([storage("slow"), storage("fast", True)], "fast"),
        ([storage("slow")], "slow"),
    ],
)
def test_the_storage_class_is_one_the_cluster_has(
    tmp_path: Path, classes: list[dict[str, Any]], chosen: str
) -> None:
    assert read(tmp_path, [node("a")], classes).kube.storage_class == chosen


def test_names_that_cannot_be_nodes_are_refused() -> None:
    with pytest.raises(FogError, match=r"ip-10-0-0-1\.internal cannot be a node of a testbed"):
        yaml_text("lab", Path("/k"), None, [node("ip-10-0-0-1.internal")], [])
    with pytest.raises(FogError, match="has no nodes"):
        yaml_text("lab", Path("/k"), None, [], [])
