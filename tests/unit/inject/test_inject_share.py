"""What one injecting process sends, when, and what it writes down; and what all of them make together."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fogctl.cli.trace_inject import DEFAULT_RECORDS, _count, _rate
from fogctl.errors import FogError
from fogctl.inject import Load
from fogctl.inject.flood import Part, Share, send_share, summary
from fogctl.runtime.sent_numbers import SentNumbers


@dataclass
class Recorder:
    """A sender that keeps what it gets."""

    refuses: str | None = None
    blocked_s: float = 0.0
    got: list[tuple[int, bytes]] = field(default_factory=list)

    def send(self, number: int, value: bytes) -> None:
        self.got.append((number, value))

    def flush(self) -> str | None:
        return self.refuses

    def close(self) -> None:
        pass


@pytest.fixture
def numbers(tmp_path: Path) -> SentNumbers:
    return SentNumbers(tmp_path / "sent.jsonl")


@given(st.integers(1, 10_000), st.integers(1, 64), st.integers(0, 10**6))
def test_the_processes_share_every_number_once(records: int, processes: int, first: int) -> None:
    shares = Load(records, None, processes).shares(first)
    assert [number for start, stop in shares for number in range(start, stop)] == list(
        range(first, first + records)
    )
    sizes = [stop - start for start, stop in shares]
    assert max(sizes) - min(sizes) <= 1


def test_values_go_in_turn_under_their_numbers(numbers: SentNumbers) -> None:
    sender = Recorder()
    part = send_share(Share(5, 10, None, [b"a", b"b", b"c"]), sender, numbers)
    assert sender.got == [(5, b"c"), (6, b"a"), (7, b"b"), (8, b"c"), (9, b"a")]
    assert (part.sent, part.late_s, part.failure) == (5, 0.0, None)
    assert numbers.read().sure[5:].all()


def test_a_rate_spreads_the_records_over_time(numbers: SentNumbers) -> None:
    sender = Recorder()
    seen: list[int] = []
    part = send_share(Share(0, 100, 2000.0, [b"x"]), sender, numbers, seen.append)
    assert [number for number, _ in sender.got] == list(range(100))
    assert part.wall_s >= 99 / 2000
    assert len(seen) > 1


def test_one_that_is_stopped_gives_the_rest_back(numbers: SentNumbers) -> None:
    sender = Recorder()
    part = send_share(
        Share(0, 10_000, None, [b"x"]), sender, numbers, stopped=lambda: len(sender.got) >= 2000
    )
    known = numbers.read()
    assert (part.sent, int(known.sure.sum()), int(known.unsure.sum())) == (2000, 2000, 0)


def test_what_was_refused_stays_in_doubt(numbers: SentNumbers) -> None:
    part = send_share(Share(0, 10, None, [b"x"]), Recorder(refuses="disk full"), numbers)
    assert part.failure == "disk full"
    assert int(numbers.read().unsure.sum()) == 10


@pytest.mark.parametrize(
    ("rate", "late_s", "blocked_s", "limit", "kept_up"),
    [
        (None, 0.0, 0.0, "injector", True),
        (None, 0.0, 5.0, "broker", True),
        (1000.0, 0.05, 5.0, None, True),
        (1000.0, 3.0, 5.0, "broker", False),
        (1000.0, 3.0, 0.1, "injector", False),
    ],
)
def test_the_limit_is_named(
    rate: float | None, late_s: float, blocked_s: float, limit: str | None, kept_up: bool
) -> None:
    load = Load(2000, rate, 2)
    done = summary(load, [Part(1000, 10.0, 1.0, blocked_s, late_s), Part(1000, 9.0, 1.0, blocked_s, 0.0)])
    assert (done.limited_by, done.kept_up) == (limit, kept_up)
    assert (done.records_per_s, done.cpu_us_per_record) == (200.0, 1000.0)


@pytest.mark.parametrize(
    "options", [{"records": 0}, {"records": 1, "rate_per_s": 0.0}, {"records": 1, "processes": 65}]
)
def test_impossible_loads_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"must be|at least one|between"):
        Load(**options)  # type: ignore[arg-type]


def test_rates_and_durations_are_read_or_refused_in_a_sentence() -> None:
    assert _rate("20000/s") == _rate(" 20000 ") == 20_000
    assert _count(20_000, "30s", None) == 600_000
    assert _count(None, None, None) == DEFAULT_RECORDS
    assert _count(None, None, 7) == 7
    for text in ("fast", "0/s", "-1", "10/min"):
        with pytest.raises(FogError, match="is no rate"):
            _rate(text)
    for rate, records in ((None, None), (5.0, 7)):
        with pytest.raises(FogError, match="only together with a rate"):
            _count(rate, "30s", records)
    with pytest.raises(FogError, match="--for"):
        _count(5.0, "30", None)
