"""A stage's metrics against a judge that counts single records of a simulated stage."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fogctl.metrics.batch import Batch
from fogctl.metrics.stage import Executor, Identity, Look, busyness, processed_rate, stage_metrics

WHO = Identity("taxi", "nearest")
PARTITIONS = ("rides-0", "rides-1", "rides-10", "rides-2")


@dataclass(frozen=True)
class Record:
    """One record of the simulated stage and what became of it."""

    partition: str
    arrived_s: float
    batch: int | None
    """The batch that processed it."""


@dataclass(frozen=True)
class World:
    """A simulated stage: each record by itself, and the batches made of them."""

    records: list[Record]
    batches: list[Batch]
    running_from_s: float | None
    """Since when a batch runs that is not over at the end."""


def simulate(seed: int, rate: float, speed: float, end_s: float, limit: int) -> World:
    """Records at random times, batches as Spark makes them: all there is up to a limit, one at a time."""
    rng = random.Random(seed)
    arrivals, t = [], 0.0
    while (t := t + rng.expovariate(rate)) < end_s:
        arrivals.append((t, rng.choice(PARTITIONS)))
    batch_of: dict[int, int] = {}
    batches: list[Batch] = []
    now, done = 0.0, 0
    running = None
    while now < end_s:
        ready = sum(1 for at, _ in arrivals if at <= now)
        if ready == done:
            if done == len(arrivals):
                break
            now = arrivals[done][0]
            continue
        take = min(limit, ready - done)
        took = rng.uniform(0.2, 0.6) + take / speed
        if now + took > end_s:
            running = now
            break
        for number in range(done, done + take):
            batch_of[number] = len(batches)
        done += take
        processed = {p: sum(1 for _, q in arrivals[:done] if q == p) for p in PARTITIONS}
        latest = {p: sum(1 for _, q in arrivals[:ready] if q == p) for p in PARTITIONS}
        split = {"addBatch": took * 900, "walCommit": took * 100}
        batches.append(Batch(now, took, take, split, processed, latest, now, len(batches), 10, None))
        now += took
    records = [Record(p, at, batch_of.get(number)) for number, (at, p) in enumerate(arrivals)]
    return World(records, batches, running)


def looks_of(world: World, times: list[float], blind: bool) -> list[Look]:
    """What the broker and the driver say; a blind broker does not answer."""
    found = []
    for at in times:
        ends = {
            p: sum(1 for record in world.records if record.partition == p and record.arrived_s <= at)
            for p in PARTITIONS
        }
        during = any(batch.started_s <= at < batch.ended_s for batch in world.batches)
        running = world.running_from_s is not None and at >= world.running_from_s
        found.append(Look(at, {}, {} if blind else ends, during or running))
    return found


worlds = st.builds(
    simulate,
    seed=st.integers(0, 10**6),
    rate=st.floats(0.5, 30),
    speed=st.floats(5, 60),
    end_s=st.floats(5, 40),
    limit=st.integers(1, 40),
)


@settings(max_examples=60, deadline=None)
@given(world=worlds, now=st.floats(3, 40), window=st.floats(2, 30))
def test_lag_and_rates_are_what_counting_single_records_gives(
    world: World, now: float, window: float
) -> None:
    times = [now - 0.5 * step for step in range(80, -1, -1) if now - 0.5 * step >= 0]
    found = stage_metrics(
        WHO, world.batches, looks_of(world, times, blind=False), begin={}, max_rows=40, window_s=window
    )
    start = min(at for at in times if at >= now - window)
    over = {n for n, batch in enumerate(world.batches) if batch.ended_s <= now}
    waiting = [r for r in world.records if r.arrived_s <= now and r.batch not in over]
    assert found.lag == len(waiting)
    assert found.lag_by_partition == {p: sum(r.partition == p for r in waiting) for p in PARTITIONS}
    arrived = sum(start < record.arrived_s <= now for record in world.records)
    assert found.input_rate == pytest.approx(arrived / (now - start) if now > start else 0)
    assert (found.at_s, found.window_s) == (now, now - start)
    ended = [b for n, b in enumerate(world.batches) if n in over and b.ended_s > start and b.rows]
    if ended:
        assert found.batch_ms == pytest.approx(sum(b.duration_s for b in ended) / len(ended) * 1000, abs=1e-3)
        assert found.batch_rows == pytest.approx(sum(b.rows for b in ended) / len(ended))
        assert found.true_rate == pytest.approx(sum(b.rows for b in ended) / sum(b.duration_s for b in ended))
        assert sum(found.batch_split_ms.values()) == pytest.approx(found.batch_ms, abs=0.01)


@settings(max_examples=60, deadline=None)
@given(world=worlds, now=st.floats(3, 40), window=st.floats(2, 30))
def test_processed_rate_is_that_of_records_spread_over_their_batches(
    world: World, now: float, window: float
) -> None:
    start = max(0.0, now - window)
    over = [batch for batch in world.batches if batch.ended_s <= now]
    running = any(b.started_s <= now < b.ended_s for b in world.batches) or (
        world.running_from_s is not None and now >= world.running_from_s
    )
    end = over[-1].ended_s if running and over and now - over[-1].ended_s <= (now - start) / 2 else now
    moments = [
        batch.started_s + (place + 0.5) / batch.rows * batch.duration_s
        for batch in over
        for place in range(batch.rows)
    ]
    counted = sum(start <= moment <= end for moment in moments)
    # Only the batch that was cut by the window's start can be off, by less than one record.
    assert processed_rate(over, start, now, in_batch=running) * (end - start) == pytest.approx(counted, abs=1)


@settings(max_examples=40, deadline=None)
@given(world=worlds, now=st.floats(5, 40))
def test_without_the_broker_lag_is_what_spark_last_knew(world: World, now: float) -> None:
    times = [now - step for step in range(5, -1, -1)]
    found = stage_metrics(WHO, world.batches, looks_of(world, times, blind=True), begin={}, max_rows=40)
    over = [batch for batch in world.batches if batch.ended_s <= now]
    known = sum(over[-1].latest.values()) - sum(over[-1].processed.values()) if over else 0
    assert found.lag == known


def test_lag_grows_in_the_middle_of_a_long_batch_and_when_spark_says_nothing() -> None:
    batch = Batch(0, 1, 10, {}, {"a-0": 10}, {"a-0": 10}, 0, 0, 0, None)
    looks = [Look(float(at), {}, {"a-0": 10 + 7 * at}, True) for at in range(2, 20)]
    found = stage_metrics(WHO, [batch], looks, begin={"a-0": 0}, max_rows=10)
    assert (found.lag, found.input_rate) == (7 * 19, pytest.approx(7))
    assert found.lag_trend == pytest.approx(7)
    assert found.newest_batch_at_s == 1
    # All of that is one batch: it may end and take everything with it.
    assert found.lag_trend_low < 0 < found.lag_trend_high


def test_an_idle_stage_has_no_lag_no_rates_and_keeps_what_its_last_batch_told() -> None:
    batch = Batch(0, 2, 10, {"addBatch": 1900.0}, {"a-0": 10}, {"a-0": 10}, 0, 5, 800, 1.0)
    looks = [Look(float(at), {}, {"a-0": 10}, False) for at in range(100, 200)]
    found = stage_metrics(WHO, [batch], looks, begin={}, max_rows=10)
    assert (found.lag, found.input_rate, found.processed_rate, found.lag_trend) == (0, 0, 0, 0)
    assert (found.batch_ms, found.batch_rows, found.true_rate) == (2000, 10, 5)
    assert (found.state_rows, found.state_bytes, found.watermark_delay_s) == (5, 800, 198)


def test_a_query_that_continues_starts_from_its_checkpoint() -> None:
    look = Look(100, {}, {"a-0": 500, "a-1": 40}, True)
    found = stage_metrics(WHO, [], [look], begin={"a-0": 480, "a-1": 40}, max_rows=10)
    assert found.lag_by_partition == {"a-0": 20, "a-1": 0}
    assert found.newest_batch_at_s is None


def test_a_stage_that_falls_behind_for_many_batches_surely_does() -> None:
    batches = [Batch(t, 1, 5, {}, {"a-0": 5 * (t + 1)}, {"a-0": 9 * t}, t, 0, 0, None) for t in range(60)]
    looks = [Look(t + 0.5, {}, {"a-0": int(9 * (t + 0.5))}, True) for t in range(60)]
    found = stage_metrics(WHO, batches, looks, begin={}, max_rows=5)
    assert found.lag_trend == pytest.approx(4, rel=0.05)
    assert 0 < found.lag_trend_low < found.lag_trend < found.lag_trend_high


@st.composite
def pools(draw: st.DrawFn) -> tuple[list[tuple[float, float]], dict[str, tuple[float, float, int]]]:
    """Executors that come and go, each with as many slots, and tasks on them: (busy from, busy until)."""
    executors = {}
    for number in range(draw(st.integers(1, 4))):
        born = draw(st.floats(0, 10))
        executors[str(number)] = (born, born + draw(st.floats(1, 30)), draw(st.integers(1, 4)))
    return draw(st.lists(st.tuples(st.floats(0, 30), st.floats(0, 5)), max_size=30)), executors


@settings(max_examples=60, deadline=None)
@given(pool=pools())
def test_busyness_is_the_share_of_slots_found_busy_by_looking_very_often(
    pool: tuple[list[tuple[float, float]], dict[str, tuple[float, float, int]]],
) -> None:
    tasks, executors = pool
    # One task at a time on each slot, in the order given; those that do not fit are left out.
    placed: list[tuple[str, float, float]] = []
    free = {(name, slot): born for name, (born, _, slots) in executors.items() for slot in range(slots)}
    for number, (start, length) in enumerate(sorted(tasks)):
        name, slot = sorted(free)[number % len(free)]
        begin = max(start, free[name, slot])
        if begin + length <= executors[name][1]:
            placed.append((name, begin, begin + length))
            free[name, slot] = begin + length

    def run_s(name: str, at: float) -> float:
        return sum(max(0.0, min(end, at) - begin) for who, begin, end in placed if who == name)

    def there(at: float) -> dict[str, int]:
        return {name: slots for name, (born, dies, slots) in executors.items() if born < at <= dies}

    times = [float(at) for at in range(41)]
    looks = [
        Look(at, {n: Executor(n, slots, run_s(n, at)) for n, slots in there(at).items()}, {}, False)
        for at in times
    ]
    # The judge looks a hundred times as often, at whoever is there at the next look.
    busy = offered = 0
    for before, after in pairwise(times):
        for name, slots in there(after).items():
            for step in range(100):
                at = before + (step + 0.5) / 100
                busy += sum(1 for who, begin, end in placed if who == name and begin <= at < end)
                offered += slots
    judged = busy / offered if offered else 0.0
    # A task's two ends are each known to the judge to a hundredth of a second.
    assert busyness(looks) == pytest.approx(judged, abs=0.02 * max(1, len(placed)) * 100 / max(offered, 1))


def test_busyness_never_leaves_its_range_even_if_clocks_disagree() -> None:
    looks = [Look(float(at), {"1": Executor("pi1", 1, 2.0 * at)}, {}, True) for at in range(5)]
    assert busyness(looks) == 1.0
    backwards = [replace(look, executors={"1": Executor("pi1", 1, -look.at_s)}) for look in looks]
    assert busyness(backwards) == 0.0
    assert busyness(looks[:1]) == 0.0
