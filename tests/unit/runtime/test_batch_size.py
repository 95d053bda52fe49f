"""The batch size judged by simulated stages: what a batch takes is known here, and hidden from the rule."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fogctl.runtime.batch_size import MEMORY, MOST_ROWS, Batch, after_scaling, first_limit, next_limit

Cost = Callable[[int], float]


class Stage:
    """A stage with an endless backlog, or with so many rows waiting for each batch."""

    def __init__(self, fixed_ms: float, row_ms: float, freshness_ms: float, limit: int = 100) -> None:
        self.fixed_ms, self.row_ms, self.freshness_ms, self.limit = fixed_ms, row_ms, freshness_ms, limit
        self.seen: list[Batch] = []

    def run(self, batches: int, scatter: Callable[[], float] = lambda: 1.0, waiting: int = MOST_ROWS) -> None:
        for _ in range(batches):
            rows = min(self.limit, waiting)
            self.seen.append(Batch(rows, (self.fixed_ms + self.row_ms * rows) * scatter()))
            self.limit = next_limit(self.limit, self.seen[-MEMORY:], self.freshness_ms)

    @property
    def ideal(self) -> float:
        return (self.freshness_ms - self.fixed_ms) / self.row_ms

    @property
    def duration_ms(self) -> float:
        return self.fixed_ms + self.row_ms * self.limit


fixed = st.floats(20, 600)
row = st.floats(0.05, 20)
bound = st.floats(1000, 20000)


@settings(max_examples=40)
@given(fixed, row, bound, st.integers(1, 20000))
def test_a_backlogged_stage_comes_to_use_its_bound_and_keeps_it(
    fixed_ms: float, row_ms: float, freshness_ms: float, limit: int
) -> None:
    stage = Stage(fixed_ms, row_ms, freshness_ms, limit)
    stage.run(40)
    assert stage.duration_ms <= freshness_ms
    assert stage.duration_ms >= 0.8 * freshness_ms - row_ms or stage.limit == MOST_ROWS


@settings(max_examples=40)
@given(fixed, row, bound, st.integers(0, 2**16))
def test_scatter_and_single_slow_batches_do_not_upset_it(
    fixed_ms: float, row_ms: float, freshness_ms: float, seed: int
) -> None:
    chance = random.Random(seed)

    def scatter() -> float:
        return chance.uniform(0.9, 1.1) * (4.0 if chance.random() < 0.08 else 1.0)

    stage = Stage(fixed_ms, row_ms, freshness_ms)
    stage.run(40, scatter)
    limits, over = [], 0
    for _ in range(60):
        stage.run(1, scatter)
        limits.append(stage.limit)
        over += stage.duration_ms > 1.15 * freshness_ms
    # Slow ones may come in a row now and then; apart from that the limit stays near what is right.
    assert over <= 6
    assert sorted(limits)[len(limits) // 2] >= 0.5 * min(stage.ideal, MOST_ROWS) - 1


@settings(max_examples=40)
@given(fixed, row, bound, st.sampled_from([0.2, 0.5, 2.0, 5.0]))
def test_it_follows_a_change_of_the_share(
    fixed_ms: float, row_ms: float, freshness_ms: float, factor: float
) -> None:
    stage = Stage(fixed_ms, row_ms, freshness_ms)
    stage.run(30)
    stage.row_ms *= factor
    stage.run(15)
    assert stage.duration_ms <= 1.05 * freshness_ms
    assert stage.limit >= 0.5 * min(stage.ideal, MOST_ROWS) - 1


@settings(max_examples=40)
@given(fixed, row, bound)
def test_a_bound_smaller_than_the_fixed_time_still_lets_work_be_done(
    fixed_ms: float, row_ms: float, freshness_ms: float
) -> None:
    stage = Stage(fixed_ms + freshness_ms, row_ms, freshness_ms)
    stage.run(60)
    assert stage.limit >= 1
    assert stage.row_ms * stage.limit >= min(0.05 * stage.fixed_ms, stage.row_ms)
    assert stage.duration_ms <= 1.5 * stage.fixed_ms + row_ms


@settings(max_examples=40)
@given(fixed, row, bound, st.integers(1, 40))
def test_a_quiet_stage_keeps_the_bound_it_had(
    fixed_ms: float, row_ms: float, freshness_ms: float, waiting: int
) -> None:
    stage = Stage(fixed_ms, row_ms, freshness_ms)
    stage.run(40)
    before = stage.limit
    if waiting < before / 2 and fixed_ms + row_ms * waiting < freshness_ms:
        stage.run(2 * MEMORY, waiting=waiting)
        assert stage.limit == before


@given(
    st.integers(1, MOST_ROWS),
    st.lists(st.builds(Batch, st.integers(0, 10**6), st.floats(0, 10**6)), max_size=20),
    st.floats(1, 10**6),
)
def test_no_step_is_larger_than_twofold_and_no_bound_out_of_range(
    limit: int, recent: list[Batch], freshness_ms: float
) -> None:
    after = next_limit(limit, recent, freshness_ms)
    assert 1 <= after <= MOST_ROWS
    assert int(limit / 2) <= after <= 2 * limit


def test_replicas_keep_the_work_they_have_each() -> None:
    assert after_scaling(600, 2, 3) == 900
    assert after_scaling(600, 4, 1) == 150
    assert after_scaling(600, 0, 3) == 600
    assert after_scaling(3, 9, 1) == 1
    assert first_limit(4) == 4 * first_limit(1)


def test_a_bound_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 0 ms"):
        next_limit(10, [Batch(1, 1.0)], 0)
