"""An experiment on boards begins only when its testbed is up, whole and free; what it found is kept."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.kube.agent_bed import NODES, brought_up, fresh, record
from tests.kube.cluster_bed import Bed
from tests.kube.control_plane import ControlPlane
from tests.kube.fake_nodes import FakeNodes

RUN = ("experiment", "run")
TEXT = """\
name: boards
testbed: {use: testbed.yaml}
app: {use: identity, start: {copy: [pi1]}}
trace: {make: {days: 0.01, rides_per_day: 10000}, speed: 60}
policies: [gesscale]
faults: [{at: 50%, kill: pi2, lasts: 5s}]
"""


@pytest.fixture(scope="module")
def shared(
    control_plane: ControlPlane, fake_nodes: FakeNodes, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bed]:
    with brought_up(control_plane, fake_nodes, tmp_path_factory.mktemp("boards")) as bed:
        yield bed


@pytest.fixture
def bed(shared: Bed) -> Iterator[Bed]:
    """A testbed that is up, and an experiment about it."""
    (shared.folder / "boards.yaml").write_text(TEXT)
    shutil.rmtree(shared.folder / "runs", ignore_errors=True)
    with fresh(shared, deployed=False) as found:
        yield found


def manifest(bed: Bed) -> dict[str, Any]:
    (found,) = (bed.folder / "runs").glob("*/manifest.json")
    told: dict[str, Any] = json.loads(found.read_text())
    return told


def test_a_dry_run_says_the_steps_and_that_the_testbed_stays_up(bed: Bed) -> None:
    for said in bed.at_once(
        (*RUN, "boards.yaml", "--dry-run", "-o", "json"),
        (*RUN, "boards.yaml", "--testbed", "lab", "--dry-run", "-o", "json"),
    ):
        steps = json.loads(said)["steps"]
        assert "use testbed lab (k3s, 4 nodes)" in steps[1]
        assert "take the testbed down" not in steps[-1]
    assert not (bed.folder / "runs").exists()


def test_a_testbed_in_use_is_refused_and_the_boards_are_in_the_manifest(bed: Bed) -> None:
    record(bed, ["pi1"])
    said = bed.fogctl(*RUN, "boards.yaml", code=3)
    assert "app identity is deployed on testbed lab, and the run would replace it" in said
    assert "Traceback" not in said
    told = manifest(bed)
    assert (told["kind"], told["state"]) == ("k3s", "failed")
    assert set(told["boards"]) == set(NODES)
    board = told["boards"]["pi1"]
    assert (board["ready"], board["kernelVersion"], board["cpu_cores"]) == (True, "6.12.0", 4.0)
    assert board["osImage"] == "played by kwok"
    assert bed.state.exists, "the testbed stays up"


def test_a_lost_node_or_an_active_fault_refuses_the_run(
    bed: Bed, lose_node: Callable[[str], None], find_node: Callable[[str], None]
) -> None:
    bed.fogctl("fault", "kill", "pi1")
    assert "refused: node pi1 is down" in bed.fogctl(*RUN, "boards.yaml", "--runs", "broken", code=3)
    bed.fogctl("fault", "restore")
    lose_node("pi2")
    try:
        said = bed.fogctl(*RUN, "boards.yaml", code=3)
        assert "refused: node pi2 does not answer" in said
        assert manifest(bed)["boards"]["pi2"]["ready"] is False
    finally:
        find_node("pi2")


def test_a_testbed_that_is_not_up_or_of_other_nodes_is_refused_with_what_to_do(bed: Bed) -> None:
    (bed.folder / "boards.yaml").write_text(TEXT.replace("[pi1]", "[pi7]"))
    assert "there is no edge node pi7" in bed.fogctl(*RUN, "boards.yaml", "--testbed", "lab", code=2)
    (bed.folder / "boards.yaml").write_text(TEXT)
    bed.fogctl("down")
    by_file, by_name = bed.at_once((*RUN, "boards.yaml"), (*RUN, "boards.yaml", "--testbed", "lab"), code=1)
    assert "testbed lab is not up; an experiment on boards runs on a testbed that is up" in by_file
    assert "testbed lab is not up" in by_name
