"""The window that a stage's driver keeps, and the observer that fills it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from fogctl.metrics.batch import Batch, Offsets
from fogctl.metrics.driver import LONGEST_WINDOW_S, StageObserver, StageWindow, checkpoint_offsets
from fogctl.metrics.stage import Executor, Identity, Look

WHO = Identity("taxi", "nearest")


def batch(at_s: float, upto: int, rows: int = 1) -> Batch:
    return Batch(at_s, 0.5, rows, {}, {"a-0": upto}, {"a-0": upto}, at_s, 0, 0, None)


def test_a_window_forgets_what_is_old_and_still_knows_where_the_query_stands() -> None:
    window = StageWindow(WHO, {})
    for second in range(2000):
        window.add_batch(batch(float(second), second + 1))
        window.add_look(Look(second + 0.9, {}, {"a-0": second + 4}, False))
    assert len(window._batches) <= LONGEST_WINDOW_S + 2
    assert len(window._looks) <= LONGEST_WINDOW_S + 2
    found = window.metrics(10)
    assert found is not None
    assert found.lag == 3
    assert found.input_rate == pytest.approx(1)
    assert found.processed_rate == pytest.approx(1, rel=0.05)


def test_a_stage_that_was_idle_for_hours_is_known_by_its_last_batch_with_rows() -> None:
    window = StageWindow(WHO, {"a-0": 3})
    window.add_batch(batch(0.0, 10, rows=7))
    for second in range(1, 10_000, 10):
        window.add_batch(batch(second, 10, rows=0))
        window.add_look(Look(second + 1, {}, {"a-0": 10}, False))
    found = window.metrics(10)
    assert found is not None
    assert (found.lag, found.batch_rows, found.true_rate) == (0, 7, 14)
    assert len(window._batches) < 1200


def test_nothing_is_said_before_the_first_look() -> None:
    assert StageWindow(WHO, {}).metrics(10) is None


class Broker:
    """Topics that take a record a question and sometimes do not answer."""

    def __init__(self) -> None:
        self.asked = 0

    def begins(self) -> Offsets:
        return {"a-0": 100} if self.asked > 1 else {}

    def ends(self) -> Offsets:
        self.asked += 1
        return {} if self.asked == 2 else {"a-0": 100 + self.asked}


class Failing:
    """A driver that fails at its first question."""

    def __init__(self) -> None:
        self.asked = 0

    def executors(self) -> Mapping[str, Executor]:
        self.asked += 1
        if self.asked == 1:
            raise RuntimeError("the context is starting")
        return {"0": Executor("pi1", 4, 0.0)}

    def in_batch(self) -> bool:
        return False


def wait_for(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_an_observer_outlives_a_driver_that_fails_and_a_broker_that_is_silent(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    broker, driver = Broker(), Failing()
    observer = StageObserver(WHO, broker, tmp_path, lambda: 50)
    observer.start(driver)
    try:
        wait_for(lambda: broker.asked >= 3 and observer.metrics() is not None)
        wait_for(lambda: (found := observer.metrics()) is not None and found.lag == broker.asked)
    finally:
        observer.stop()
    found = observer.metrics()
    assert found is not None
    assert (found.nodes, found.slots, found.max_rows) == (("pi1",), 4, 50)
    assert "the context is starting" in capfd.readouterr().err


def test_a_checkpoint_folder_says_where_its_query_stands(tmp_path: Path) -> None:
    assert checkpoint_offsets(tmp_path) is None
    for folder, name, text in (
        ("offsets", "8", 'v1\n{}\n{"a":{"0":80}}'),
        ("offsets", "9", 'v1\n{}\n{"a":{"0":90}}'),
        ("offsets", "10", 'v1\n{}\n{"a":{"0":99}}'),
        ("offsets", ".10.crc", "x"),
        ("commits", "8", "v1\n{}"),
        ("commits", "9", "v1\n{}"),
    ):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_text(text)
    assert checkpoint_offsets(tmp_path) == {"a-0": 90}
    (tmp_path / "offsets" / "9").write_text("v1\n{}\nnot json")
    assert checkpoint_offsets(tmp_path) is None
