"""`fogctl net` on a real testbed: shown, changed, measured, refused."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from fognetem.control import find

pytestmark = [pytest.mark.root, pytest.mark.alone]
Run = Callable[..., CompletedProcess[str]]


@pytest.fixture
def up(fogctl: Run, testbed_file: Callable[..., Path]) -> Run:
    file = testbed_file(pis=2, rtt="30ms")
    with file.open("a") as more:
        more.write("schedule:\n  - {at: 0.2s, between: [pi1, pi2], rtt: 90ms}\n")
        more.write("  - {at: 0.5s, between: [pi1, pi2], rtt: 5ms}\n")
    done = fogctl("up")
    assert done.returncode == 0, done.stderr
    return fogctl


def shown(fogctl: Run) -> dict[tuple[str, str], float]:
    done = fogctl("net", "show", "-o", "json")
    assert done.returncode == 0, done.stderr
    paths = json.loads(done.stdout)["matrix"]["paths"]
    return {(path["between"][0], path["between"][1]): path["rtt_ms"] for path in paths if path["rtt_ms"]}


def test_show_set_schedule_clear_and_apply_follow_each_other(up: Run) -> None:
    own = {("cloud", "pi1"): 30.0, ("cloud", "pi2"): 30.0}
    assert shown(up) == own
    dry = up("net", "set", "pi2", "pi1", "--rtt", "80ms", "--dry-run")
    assert "rtt 0 ms → rtt 80 ms" in dry.stdout
    assert shown(up) == own
    assert up("net", "set", "pi2", "pi1", "--rtt", "80ms", "--loss", "0%").returncode == 0
    assert shown(up) == {**own, ("pi1", "pi2"): 80.0}
    played = up("net", "schedule", "-o", "json")
    assert played.returncode == 0, played.stderr
    assert [change["what"] for change in json.loads(played.stdout)["changes"]] == [
        "pi1–pi2: rtt 80 ms → rtt 90 ms",
        "pi1–pi2: rtt 90 ms → rtt 5 ms",
    ]
    assert shown(up) == {**own, ("pi1", "pi2"): 5.0}
    assert up("net", "clear").returncode == 0
    assert shown(up) == {}
    assert up("net", "apply").returncode == 0
    assert shown(up) == own


def test_verify_passes_plots_and_refuses_with_exit_3(up: Run, tmp_path: Path) -> None:
    plot = tmp_path / "latencies.svg"
    # A wide tolerance: this machine may be busy with anything.
    good = up("net", "verify", "--tolerance", "25ms", "--plot", str(plot), "-o", "json")
    assert good.returncode == 0, good.stderr
    result = json.loads(good.stdout)
    assert result["ok"]
    assert len(result["pairs"]) == 3
    assert plot.read_text().lstrip().startswith("<?xml")
    bad = up("net", "verify", "--tolerance", "0.0001ms")
    assert bad.returncode == 3
    assert bad.stderr.strip().startswith("net verify: ")
    assert "busy" in bad.stderr


BAD = (
    (("set", "pi1", "pi9", "--rtt", "80ms"), "no node pi9"),
    (("set", "pi1", "pi1", "--rtt", "80ms"), "same node"),
    (("set", "pi1", "pi2", "--rtt", "80"), "--rtt: the unit is missing"),
    (("set", "pi1", "pi2", "--rtt", "5ms", "--jitter", "6ms"), "jitter_ms"),
    (("set", "pi1", "pi2"), "nothing to set"),
    (("verify", "--tolerance", "0ms"), "--tolerance"),
    (("apply", "--matrix", "nowhere.csv"), "nowhere.csv"),
)


def test_bad_input_is_one_sentence_and_changes_nothing(up: Run) -> None:
    before = shown(up)
    for arguments, said in BAD:
        done = up("net", *arguments)
        assert done.returncode == 2, arguments
        assert said in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    assert shown(up) == before


def test_killed_delay_line_is_named_and_mended(up: Run, state_dir: Path, name: str) -> None:
    pid = find(str(state_dir / name / "net"))
    if pid is None:
        pytest.skip("the kernel backend has no process that could die")
    os.kill(pid, signal.SIGKILL)
    done = up("net", "verify")
    assert done.returncode == 1
    assert "not all injected" in done.stderr
    assert up("net", "apply").returncode == 0
    assert up("net", "verify", "--tolerance", "25ms").returncode == 0
