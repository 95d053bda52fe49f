"""A delay line that a fault keeps down: nobody starts it beside the one who restores it, or despite it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fogctl.runtime import fault_record, faults, supervised
from fogctl.runtime.fault_record import Fault, Kind
from fogctl.runtime.supervisor import Supervisor
from fogctl.testbed.running import Running

DOWN = Fault(Kind.delay_line, (), 1.0)


@pytest.fixture
def running(tmp_path: Path) -> Running:
    """As much of a testbed as is looked at here."""
    found: Any = SimpleNamespace(
        state=SimpleNamespace(folder=tmp_path), record=SimpleNamespace(backend="userspace")
    )
    return cast(Running, found)


def test_a_restored_delay_line_runs_before_its_fault_is_forgotten(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known: list[tuple[Fault, ...]] = []
    monkeypatch.setattr(faults, "start_delay_line", lambda _: known.append(fault_record.read(tmp_path)))
    monkeypatch.setattr(supervised, "wake", lambda _: None)
    fault_record.add(tmp_path, DOWN)
    faults.restore(running, DOWN)
    assert known == [(DOWN,)]
    assert fault_record.read(tmp_path) == ()


def test_a_fault_that_comes_while_the_supervisor_looks_keeps_the_delay_line_down(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed_just_now(_: Running) -> None:
        fault_record.add(tmp_path, DOWN)

    started: list[Running] = []
    monkeypatch.setattr(faults, "delay_line", killed_just_now)
    monkeypatch.setattr(faults, "start_delay_line", started.append)
    supervisor = Supervisor(running)
    assert supervisor._watch_delay_line(100.0) == 0
    assert started == []
