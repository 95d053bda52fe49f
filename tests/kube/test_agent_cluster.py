"""An agent on a real control plane: it advises, learns what happens there, and outlives its API server."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fogctl.kube.background import Jobs
from tests.kube.agent_bed import APP, STAGE, brought_up, executor, fresh, told
from tests.kube.cluster_bed import Bed
from tests.kube.control_plane import ControlPlane, until
from tests.kube.fake_nodes import FakeNodes

AGENT = ("agent", "run", "--app", APP, "--policy", "gesscale", "--every", "1s")


@pytest.fixture(scope="module")
def shared(
    control_plane: ControlPlane, fake_nodes: FakeNodes, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bed]:
    with brought_up(control_plane, fake_nodes, tmp_path_factory.mktemp("agent")) as bed:
        yield bed


@pytest.fixture
def bed(shared: Bed) -> Iterator[Bed]:
    """A testbed that is up, with an app on record: one stage, one replica."""
    with fresh(shared) as found:
        yield found


def decisions(bed: Bed) -> int:
    return len(told(bed, "decision"))


def test_advice_changes_nothing_and_is_kept_nowhere(bed: Bed) -> None:
    before = bed.plane.read("nodes")["items"]
    said = bed.fogctl(*AGENT, "--dry-run", "--for", "3s", "-o", "json")
    advised = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert [event["what"] for event in advised[:2]] == ["agent started", "decision"]
    assert advised[0]["dry_run"] is True
    reasons = [event["reason"] for event in advised if event["what"] == "decision"]
    assert all(f"{STAGE}: no metrics" in reason for reason in reasons), reasons
    assert advised[-1]["what"] == "agent stopped"
    assert not told(bed, "agent started", "decision")
    after = bed.plane.read("nodes")["items"]
    assert [node["metadata"]["labels"] for node in after] == [node["metadata"]["labels"] for node in before]


def test_in_the_background_it_learns_of_lost_nodes_and_evicted_executors(
    bed: Bed, lose_node: Callable[[str], None], find_node: Callable[[str], None]
) -> None:
    executor(bed, "first", "pi1")
    started = bed.answer(*AGENT, "--background")
    until(lambda: decisions(bed) > 1, "the agent decides", otherwise=Path(started["log"]).read_text)
    (shown,) = bed.answer("agent", "status")
    assert (shown["app"], shown["state"], shown["service"]) == (APP, "running", True)

    lose_node("pi2")
    until(lambda: told(bed, "node not ready"), "the lost node is in the event log")
    (lost,) = told(bed, "node not ready")
    assert (lost["node"], lost["app"]) == ("pi2", APP)
    assert "Kubelet stopped posting node status" in lost["reason"]
    find_node("pi2")
    until(lambda: [event["node"] for event in told(bed, "node ready again")] == ["pi2"], "it is back")

    why = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
    patch = json.dumps({"status": why})
    bed.plane.kubectl(
        "patch", "pod", "first", "-n", bed.space, "--subresource=status", "--type=merge", "-p", patch
    )
    until(lambda: told(bed, "lost"), "the evicted executor is in the event log")
    (evicted,) = told(bed, "lost")
    assert evicted["service"] == f"{APP}.{STAGE}.executor.pi1"
    assert evicted["reason"] == "Evicted: The node was low on resource: memory."
    bed.plane.kubectl("delete", "pod", "first", "-n", bed.space, "--force")
    executor(bed, "second", "pi1")
    until(lambda: told(bed, "restarted"), "its successor is in the event log")
    assert [event["service"] for event in told(bed, "restarted")] == [f"{APP}.{STAGE}.executor.pi1"]

    bed.fogctl("agent", "stop", APP)
    assert told(bed, "agent stopped")
    (shown,) = bed.answer("agent", "status")
    assert (shown["state"], shown["service"]) == ("stopped", False)


def test_it_outlives_its_api_server_and_decides_again_when_that_is_back(
    bed: Bed, tell: Callable[[str], None]
) -> None:
    started = bed.answer(*AGENT, "--background")
    until(lambda: decisions(bed) > 1, "the agent decides", otherwise=Path(started["log"]).read_text)
    pid = started["pid"]
    bed.plane.stop_api()
    try:
        until(lambda: told(bed, "no answer"), "the agent says that nobody answers")
        shown = bed.answer("watch", "--once")
        assert any("cannot be reached" in note for note in shown["notes"]), shown["notes"]
        quiet = decisions(bed)
    finally:
        bed.plane.start_api()
    back = time.monotonic()
    until(lambda: told(bed, "answers again"), "the agent says that somebody answers again")
    until(lambda: decisions(bed) > quiet, "it decides again")
    tell(f"agent: the first decision {time.monotonic() - back:.1f} s after the API server was back")
    assert Jobs(bed.state.folder).pid(f"agent.{APP}") == pid, "the same agent"
    assert len(told(bed, "agent started")) == 1


def test_an_agent_of_an_app_that_is_not_deployed_is_refused_in_one_sentence(bed: Bed) -> None:
    said = bed.fogctl("agent", "run", "--app", "taxi", "--policy", "gesscale", "--background", code=1)
    assert "app taxi is not deployed" in said
    assert "Traceback" not in said
    assert [each.name for each in (bed.state.folder / "apps").iterdir()] == [APP]


def test_down_ends_the_agent_too(bed: Bed) -> None:
    pid = bed.answer(*AGENT, "--background")["pid"]
    bed.fogctl("down")
    until(lambda: not Path(f"/proc/{pid}").exists() or _is_zombie(pid), "the agent's keeper is gone")
    assert not bed.state.exists


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
