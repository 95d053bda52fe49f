"""What testbeds of every kind do alike, seen from the command line: one suite, run on each kind.

A file of tests imports it and has a fixture `subject`: on emulated nodes (`test_kind_virtual.py`), on a real
control plane (`tests/kube/test_kind_k3s.py`). Nothing here needs a kubelet: what apps do on one is tested
where there are some.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from fogctl.runtime import events
from fogctl.testbed.state import StateFolder

PATIENCE_S = 300.0
NODES = ("cloud", "hub", "pi1", "pi2")
"""A control node, a broker, two in the field."""


class Subject(Protocol):
    """A testbed of some kind that is described but not up."""

    @property
    def state(self) -> StateFolder:
        """Where it is remembered."""
        ...

    def describe(self, nodes: Sequence[str]) -> None:
        """Write its testbed.yaml."""
        ...

    def command(self, *arguments: str) -> subprocess.Popen[str]:
        """fogctl in its folder, begun; output and complaints are pipes."""
        ...

    def everything(self) -> object:
        """All that a testbed could leave a trace in."""
        ...


@dataclass(frozen=True)
class Said:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


def fogctl(subject: Subject, *arguments: str, code: int = 0) -> Said:
    """A command that ends with that code and never shows a traceback."""
    (said,) = together(subject, (arguments, code))
    return said


def together(subject: Subject, *commands: tuple[Sequence[str], int]) -> list[Said]:
    """The same for several commands at once, each with its own code."""
    begun = [subject.command(*arguments) for arguments, _ in commands]
    ended = []
    for process, (arguments, code) in zip(begun, commands, strict=True):
        out, err = process.communicate(timeout=PATIENCE_S)
        said = Said(process.returncode, out, err)
        assert said.code == code, f"fogctl {' '.join(arguments)}: {said}"
        assert "Traceback" not in out + err
        ended.append(said)
    return ended


def answer(subject: Subject, *arguments: str, code: int = 0) -> Any:
    """What a command answers as JSON."""
    return json.loads(fogctl(subject, *arguments, "-o", "json", code=code).out)


def eventually(true: Any, what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S:.0f} s: {what}"
        time.sleep(0.2)


def told(subject: Subject) -> list[str]:
    return [event["what"] for event in events.read(subject.state.folder)]


def killed_up(subject: Subject, lines: int) -> None:
    """`up`, killed when its ledger has so many lines."""
    process = subject.command("up")
    recorded(subject, lines, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def recorded(subject: Subject, lines: int, process: subprocess.Popen[str]) -> None:
    while process.poll() is None:
        ledger: Path = subject.state.ledger
        if ledger.exists() and ledger.read_bytes().count(b"\n") >= lines:
            return
        time.sleep(0.001)


# A testbed's life


def test_up_makes_everything_once_and_down_leaves_all_as_it_was(subject: Subject) -> None:
    before = subject.everything()
    planned = answer(subject, "up", "--dry-run")
    assert subject.everything() == before, "a dry run changes nothing"
    made = answer(subject, "up")
    assert made["nodes"] == list(NODES)
    # What the host or the cluster has already (the folder of namespaces, say) is not made, nor undone.
    assert 0 < len(made["made"]) == len(planned["made"]) <= made["steps"]
    status = answer(subject, "status")
    assert (status["state"], [node["name"] for node in status["nodes"]]) == ("up", list(NODES))
    there = subject.everything()
    again = answer(subject, "up")
    assert (again["made"], again["removed"], again["steps"]) == ([], [], made["steps"])
    assert subject.everything() == there, "a second up changes nothing"
    assert answer(subject, "down")["removed"]
    assert subject.everything() == before
    assert not subject.state.exists
    assert answer(subject, "down")["removed"] == []


@pytest.mark.parametrize("lines", [1, 8, 20])
def test_an_up_that_was_killed_is_gone_on_with_and_undone(subject: Subject, lines: int) -> None:
    before = subject.everything()
    killed_up(subject, lines)
    if lines == 8:
        made = answer(subject, "up")
        assert 0 < len(made["made"]) < made["steps"], "what is there already stays"
        assert answer(subject, "status")["state"] == "up"
    fogctl(subject, "down")
    assert subject.everything() == before


def test_a_second_fogctl_is_told_who_changes_the_testbed(subject: Subject) -> None:
    process = subject.command("up")
    recorded(subject, 2, process)
    process.send_signal(signal.SIGSTOP)
    try:
        assert "is being changed by `fogctl up`" in fogctl(subject, "down", code=3).err
    finally:
        process.send_signal(signal.SIGCONT)
    _, complaint = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, complaint


def test_a_node_taken_out_of_the_file_leaves_the_testbed_and_the_rest_stays(subject: Subject) -> None:
    fogctl(subject, "up")
    subject.describe(NODES[:3])
    changes = answer(subject, "up")
    assert any("pi2" in what for what in changes["removed"])
    assert len(changes["made"]) < changes["steps"]
    assert [node["name"] for node in answer(subject, "status")["nodes"]] == list(NODES[:3])


ON_A_RUNNING_ONE = (
    ("status",),
    ("fault", "list"),
    ("app", "deploy", "identity", "--on", "pi1"),
    ("metrics", "show"),
    ("agent", "status"),
    ("net", "show"),
)


def test_what_needs_a_testbed_that_is_up_says_in_one_sentence_that_it_is_not(subject: Subject) -> None:
    for said in together(subject, *((command, 1) for command in ON_A_RUNNING_ONE)):
        assert f"testbed {subject.state.name} is not up" in said.err
        assert len(said.err.strip().splitlines()) <= 2, said.err


# Faults


def test_a_killed_node_is_down_until_it_is_restored_by_name_by_time_or_by_down(subject: Subject) -> None:
    before = subject.everything()
    fogctl(subject, "up")
    assert answer(subject, "fault", "kill", "pi1", "--dry-run")["did"]
    assert answer(subject, "fault", "list")["faults"] == [], "a dry run changes nothing"
    fogctl(subject, "fault", "kill", "pi1")
    assert "node pi1 is down already" in fogctl(subject, "fault", "kill", "pi1", code=2).err
    (fault,) = answer(subject, "fault", "list")["faults"]
    assert (fault["kind"], fault["name"], fault["says"]) == ("node", "pi1", "node pi1 is down")
    fogctl(subject, "fault", "restore", "pi1")
    assert told(subject) == ["fault", "restored"]
    assert "nothing to restore" in fogctl(subject, "fault", "restore", code=2).err
    fogctl(subject, "fault", "kill", "pi2", "--for", "2s")
    eventually(lambda: told(subject).count("restored") == 2, "the fault ends by itself")
    fogctl(subject, "fault", "kill", "pi1")
    fogctl(subject, "down")
    assert subject.everything() == before


NOT_TO_BE_ASKED = (
    (("fault", "kill", "pi9"), 2, "there is no node pi9"),
    (("fault", "slow", "pi1", "--cpu", "150%"), 2, "less than 100 % of its CPU, not 150%"),
    (("app", "deploy", "identity", "--on", "pi9"), 2, "has no node pi9 (its edge nodes: pi1, pi2)"),
    (("app", "deploy", "identity", "--on", "cloud"), 2, "node cloud has the role control"),
    (("app", "scale", "taxi", "nearest", "--nodes", "pi1"), 1, "app taxi is not deployed"),
    (("app", "share", "taxi", "nearest", "50%"), 1, "app taxi is not deployed"),
    (("app", "rm", "taxi"), 1, "app taxi is not deployed"),
    (("audit", "taxi"), 1, "app taxi is not deployed"),
    (("agent", "run", "--app", "taxi", "--policy", "gesscale"), 1, "app taxi is not deployed"),
)


def test_what_cannot_be_done_is_refused_in_the_same_words_and_changes_nothing(subject: Subject) -> None:
    fogctl(subject, "up")
    refused = together(subject, *((command, code) for command, code, _ in NOT_TO_BE_ASKED))
    for said, (command, _, words) in zip(refused, NOT_TO_BE_ASKED, strict=True):
        assert words in " ".join(said.err.split()), (command, said.err)
    assert (
        "replica of copy on pi1"
        in fogctl(subject, "app", "deploy", "identity", "--on", "pi1", "--dry-run").out
    )
    assert not list(subject.state.folder.glob("apps/*/deployment.json"))
    assert answer(subject, "fault", "list")["faults"] == []
    assert answer(subject, "agent", "status") == []
