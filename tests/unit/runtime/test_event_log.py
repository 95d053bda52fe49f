from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from fogctl.agent.events import FileLog
from fogctl.agent.events import read as agent_read
from fogctl.runtime import events


def test_a_testbed_and_its_agent_write_and_read_the_same_log(tmp_path: Path) -> None:
    said = events.append(tmp_path, "fault", target=["pi1"])
    log = FileLog(tmp_path / events.FILE)
    log.write({"at_s": 1.5, "what": "decision", "rate": np.float64(0.5), "folder": Path("a")})
    assert list(events.read(tmp_path)) == [
        said,
        {"at_s": 1.5, "what": "decision", "rate": 0.5, "folder": "a"},
    ]
    assert list(agent_read(log.file)) == list(events.read(tmp_path))


def test_what_a_crash_cut_short_is_passed_over_and_what_is_not_there_is_empty(tmp_path: Path) -> None:
    assert list(events.read(tmp_path)) == []
    file = tmp_path / "run" / "events.jsonl"
    events.write(file, {"what": "started", "rate": math.inf})
    file.write_bytes(file.read_bytes() + b'{"what": "dec')
    assert list(events.read_file(file)) == [{"what": "started", "rate": math.inf}]
