"""Nodes of a cluster behave as every kind of testbed does, as far as no kubelet is needed for it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.register_assert_rewrite("tests.integration.kind_suite")

from fogctl.kube.background import stop_all  # noqa: E402
from fogctl.testbed.state import StateFolder  # noqa: E402
from tests.integration.kind_suite import *  # noqa: E402, F403
from tests.integration.kind_suite import NODES  # noqa: E402
from tests.kube.cluster_bed import Bed, everything  # noqa: E402
from tests.kube.control_plane import ControlPlane  # noqa: E402
from tests.kube.fake_nodes import FakeNodes  # noqa: E402
from tests.kube.storage import offer_played  # noqa: E402

VOLUMES = 4


@dataclass(frozen=True)
class OnCluster:
    """A testbed of nodes that kwok plays, on a real control plane."""

    bed: Bed

    @property
    def state(self) -> StateFolder:
        """Where it is remembered."""
        return self.bed.state

    def describe(self, nodes: Sequence[str]) -> None:
        """Write its testbed.yaml."""
        self.bed.nodes = nodes
        self.bed.write()

    def command(self, *arguments: str) -> subprocess.Popen[str]:
        """fogctl in its folder, begun."""
        return self.bed.command(*arguments)

    def everything(self) -> object:
        """All objects of the cluster."""
        return everything(self.bed.plane)


@pytest.fixture(scope="module")
def nodes(fake_nodes: FakeNodes) -> Iterator[None]:
    fake_nodes.add(NODES)
    yield
    fake_nodes.remove(NODES)


@pytest.fixture
def subject(control_plane: ControlPlane, nodes: None, tmp_path: Path) -> Iterator[OnCluster]:
    offer_played(control_plane, VOLUMES)  # a volume is used once
    made = OnCluster(Bed(control_plane, tmp_path, NODES))
    yield made
    if made.state.exists:
        stop_all(made.state.folder)
    made.bed.cluster.down()
