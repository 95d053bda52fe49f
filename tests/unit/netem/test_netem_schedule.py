"""Latency changes over time: what is due, and a runner that makes each change once."""

from itertools import pairwise

import pytest
from fognetem import LatencyMatrix, Path
from fognetem.schedule import PathChange, matrix_at, next_due_s, run
from hypothesis import given
from hypothesis import strategies as st

START = LatencyMatrix(("a", "b", "c"), (("a", "b", Path(10)),))
CHANGES = (
    PathChange(60, "a", "b", Path(300)),
    PathChange(10, "b", "c", Path(20)),
    PathChange(90, "a", "b", Path(10)),
)


def test_what_holds_at_an_instant() -> None:
    assert matrix_at(START, CHANGES, 0) == START
    assert matrix_at(START, CHANGES, 9.99) == START
    assert matrix_at(START, CHANGES, 10).rtt_ms("b", "c") == 20
    assert matrix_at(START, CHANGES, 60).rtt_ms("a", "b") == 300
    assert matrix_at(START, CHANGES, 1e9).rtt_ms("a", "b") == 10


def test_when_the_next_change_is_due() -> None:
    assert next_due_s(CHANGES, 0) == 10
    assert next_due_s(CHANGES, 10) == 60
    assert next_due_s(CHANGES, 90) is None


class Clock:
    def __init__(self, oversleep: float = 0.0) -> None:
        self.now = 1000.0
        self.oversleep = oversleep

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds + self.oversleep


def test_runner_makes_each_change_when_it_is_due() -> None:
    clock, made = Clock(), []
    last = run(
        START,
        CHANGES,
        lambda old, new: made.append((clock.now - 1000, old, new)),
        clock=clock,
        sleep=clock.sleep,
    )
    assert [at for at, _, _ in made] == [10, 60, 90]
    assert made[0][1] == START
    assert all(before[2] == after[1] for before, after in pairwise(made))
    assert last == made[-1][2] == matrix_at(START, CHANGES, 90)


def test_late_changes_are_made_in_one_go() -> None:
    clock, made = Clock(oversleep=200), []
    run(START, CHANGES, lambda old, new: made.append((old, new)), clock=clock, sleep=clock.sleep)
    assert made == [(START, matrix_at(START, CHANGES, 90))]


def test_unknown_node_is_refused_before_anything_is_changed() -> None:
    made: list[object] = []
    with pytest.raises(ValueError, match='unknown node "x"'):
        run(
            START,
            (*CHANGES, PathChange(1, "a", "x", Path())),
            lambda *both: made.append(both),
            sleep=lambda _: None,
        )
    assert not made


@given(st.lists(st.tuples(st.integers(0, 50), st.sampled_from(["ab", "bc"]), st.integers(0, 300))))
def test_a_change_holds_until_the_next_of_its_pair(raw: list[tuple[int, str, int]]) -> None:
    changes = [PathChange(at, pair[0], pair[1], Path(rtt)) for at, pair, rtt in raw]
    for instant in range(0, 51, 5):
        for a, b in ("ab", "bc"):
            due = [c for c in changes if {c.a, c.b} == {a, b} and c.at_s <= instant]
            latest = max((c.at_s for c in due), default=None)
            expected = [c for c in due if c.at_s == latest][-1].path if due else START.path(a, b)
            assert matrix_at(START, changes, instant).path(a, b) == expected
