"""Shares on played nodes: given, put off, impossible, and on a cluster that is too old to resize pods."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from fogctl.errors import FogError
from fogctl.kube import names, resize
from fogctl.kube.ground import KubeGround
from fogctl.kube.running import KubeRunning
from tests.kube.agent_bed import APP, NODES, STAGE, brought_up, executor, fresh
from tests.kube.cluster_bed import Bed
from tests.kube.control_plane import ControlPlane
from tests.kube.fake_nodes import FakeNodes

ANSWER = "kube.fogctl.test/resize"


@pytest.fixture(scope="module")
def shared(
    control_plane: ControlPlane, fake_nodes: FakeNodes, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bed]:
    with brought_up(control_plane, fake_nodes, tmp_path_factory.mktemp("shares")) as bed:
        yield bed


@pytest.fixture
def bed(shared: Bed) -> Iterator[Bed]:
    """A testbed with an app on record and its executor, which has the whole node."""
    with fresh(shared) as found:
        executor(found, "first", "pi1", cpu="4")
        yield found


def limit(bed: Bed) -> str:
    """What the executor is to have."""
    (container,) = bed.plane.read("pod", "first", "-n", bed.space)["spec"]["containers"]
    return str(container["resources"]["limits"]["cpu"])


def recorded(bed: Bed) -> list[float]:
    """The shares that fogctl believes the replicas have."""
    found = json.loads((bed.state.folder / "apps" / APP / "deployment.json").read_text())
    return [replica["share"] for stage in found["stages"] for replica in stage["replicas"]]


def test_a_share_that_a_node_puts_off_or_never_can_give_is_refused_and_nothing_changes(bed: Bed) -> None:
    share = ("app", "share", APP, STAGE)
    bed.fogctl(*share, "50%")
    assert (limit(bed), recorded(bed)) == ("2", [0.5])
    for answer, words in {"deferred": "its node has put it off", "infeasible": "it never can"}.items():
        bed.plane.kubectl("annotate", "pod", "first", "-n", bed.space, f"{ANSWER}={answer}", "--overwrite")
        said = " ".join(bed.fogctl(*share, "75%", code=3).split())
        assert f"the replica of {STAGE} on pi1 cannot have 3000m of CPU" in said
        assert words in said
        assert "what had been changed was undone" in said
        assert (limit(bed), recorded(bed)) == ("2", [0.5])


def test_without_resize_a_share_needs_a_way_to_the_board(bed: Bed) -> None:
    """On a cluster that is too old: fogctl sees it, and says what it can do instead."""
    ground = KubeGround.on(KubeRunning.load(bed.name, bed.state_dir))
    assert resize.supported(ground.objects)
    with bed.plane.too_old_to_resize():
        assert not resize.supported(ground.objects)
        with pytest.raises(FogError, match="too old to change the CPU of the replica of copy on pi1") as told:
            ground.limit(APP, STAGE, "pi1", 0.5)
        assert "hosts:" in str(told.value)
        # While the API server was restarted nodes could not report: they and their pods may have been missed.
        ready = ("--for=condition=Ready", "--timeout=120s")
        bed.plane.kubectl("wait", "node", *NODES, *ready)
        bed.plane.kubectl("wait", "pod", f"{names.BROKER}-0", "-n", bed.space, *ready)
        assert bed.answer("status")["state"] == "up", "everything else works there"
    assert resize.supported(ground.objects)
    ground.limit(APP, STAGE, "pi1", 0.5)
