"""A cluster that is too old to resize pods in place: fogctl sees it, and says what it can do instead."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fogctl.errors import FogError
from fogctl.kube import resize
from fogctl.kube.ground import KubeGround
from fogctl.kube.running import KubeRunning
from tests.kube.agent_bed import APP, STAGE, brought_up, executor, fresh
from tests.kube.cluster_bed import Bed
from tests.kube.control_plane import ControlPlane
from tests.kube.fake_nodes import FakeNodes


@pytest.fixture
def bed(
    control_plane: ControlPlane, fake_nodes: FakeNodes, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bed]:
    with brought_up(control_plane, fake_nodes, tmp_path_factory.mktemp("old")) as found, fresh(found):
        executor(found, "first", "pi1", cpu="4")
        yield found


def test_without_resize_a_share_needs_a_way_to_the_board(bed: Bed) -> None:
    ground = KubeGround.on(KubeRunning.load(bed.name, bed.state_dir))
    assert resize.supported(ground.objects)
    with bed.plane.too_old_to_resize():
        assert not resize.supported(ground.objects)
        with pytest.raises(FogError, match="too old to change the CPU of the replica of copy on pi1") as told:
            ground.limit(APP, STAGE, "pi1", 0.5)
        assert "hosts:" in str(told.value)
        assert bed.answer("status")["state"] == "up", "everything else works there"
    assert resize.supported(ground.objects)
    ground.limit(APP, STAGE, "pi1", 0.5)
