"""Real-time stages: against theory, and against a server that is followed event by event."""

from __future__ import annotations

import numpy as np
import pytest
from fogmodels.arrivals import MAP
from fogmodels.queueing import PhaseType, lindley, solve
from hypothesis import given, settings
from hypothesis import strategies as st

from fogctl.runtime.app import Mode, Stage
from fogctl.sim import StageParameters, Timed
from fogctl.sim.queue_stage import QueueStage
from fogctl.sim.replicas import Pool
from fogctl.sim.wiring import Wiring

STAGE = Stage("work", "work", ("records",), "done", 1, 5000.0, 1 << 28, Mode.real_time, ())
PLAIN = StageParameters(mu_per_s=100.0, beta=1.0, service_scv=1.0, reference_cores=0.2)


def stage(times: np.ndarray, parameters: StageParameters = PLAIN, seed: int = 0) -> QueueStage:
    rng = np.random.default_rng(seed)
    made = QueueStage(Wiring("toy", STAGE, parameters, Timed(times), ("toy.records",), 0.0, rng))
    made.configure(Pool(("e1",), (1.0,), (0.0,)))
    return made


def test_mean_response_time_of_a_poisson_stream_is_that_of_m_m_1() -> None:
    # λ = 70, µ = 100: 1/(µ − λ) = 33.3 ms.
    arrivals = Timed.of_maps([(MAP.poisson(70.0), 4000.0)], seed=1)
    queue = stage(arrivals.at)
    for until in np.arange(10.0, 4010.0, 10.0):
        queue.advance(float(until))
    left, born = queue.output.records
    assert (left - born).mean() == pytest.approx(1 / 30, rel=0.05)
    seen = queue.metrics(4000.0, 2000.0)
    assert seen.busyness == pytest.approx(0.7, rel=0.02)
    assert seen.true_rate == pytest.approx(100.0, rel=0.02)
    assert seen.processed_rate == pytest.approx(70.0, rel=0.02)


def test_response_times_of_a_bursty_stream_are_those_of_the_exact_queue() -> None:
    bursty = MAP([[-30.0, 1.0], [0.2, -2.2]], [[28.9, 0.1], [0.1, 1.9]]).scaled(1 / 50.0)
    arrivals = Timed.of_maps([(bursty, 20_000.0)], seed=5)
    erlang = StageParameters(mu_per_s=100.0, beta=1.0, service_scv=0.5)
    queue = stage(arrivals.at, erlang, seed=2)
    queue.advance(20_100.0)
    left, born = queue.output.records
    exact = solve(bursty, PhaseType.erlang(2, 0.01))
    assert (left - born).mean() == pytest.approx(exact.mean, rel=0.1)
    assert np.quantile(left - born, 0.95) == pytest.approx(exact.percentile(95), rel=0.1)


def test_one_piece_of_time_is_lindleys_recursion_with_the_same_draws() -> None:
    arrivals = np.cumsum(np.random.default_rng(3).exponential(0.02, 500))
    queue = stage(arrivals, seed=9)
    queue.advance(1e4)
    left, born = queue.output.records
    work = PhaseType.exponential(1.0).sample(500, np.random.default_rng(9))
    assert left - born == pytest.approx(lindley(np.diff(arrivals), work / 100.0))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(0.001, 0.3), min_size=2, max_size=60),
    st.lists(st.tuples(st.floats(0.05, 2.0), st.sampled_from([0.0, 0.4, 1.0, 2.0])), min_size=1, max_size=8),
)
def test_changes_of_speed_are_followed_exactly(gaps, pieces) -> None:
    arrivals = np.cumsum(gaps)
    queue = stage(arrivals, StageParameters(mu_per_s=10.0, beta=1.0, service_scv=1.0), seed=1)
    work = iter_work(queue, arrivals, pieces)
    changes, at_s = [], 0.0
    for seconds, speed in [*pieces, (1000.0, 1.0)]:
        queue.configure(Pool(("e1",), (speed,), (0.0,)) if speed else Pool())
        at_s += seconds
        queue.advance(at_s)
        changes.append((at_s, 10.0 * speed))
    left, _ = queue.output.records
    expected, free = [], 0.0
    for arrival, amount in zip(arrivals, work, strict=True):
        free = served(max(arrival, free), amount, changes)
        expected.append(free)
    assert left == pytest.approx(np.array(expected), rel=1e-9, abs=1e-9)
    assert queue.processed == len(arrivals)


def iter_work(queue: QueueStage, arrivals: np.ndarray, pieces: list[tuple[float, float]]) -> list[float]:
    """The work that the stage will draw: as many values a piece as arrivals fall into it."""
    rng, drawn, low = np.random.default_rng(1), [], 0.0
    for seconds, _ in [*pieces, (1000.0, 1.0)]:
        count = int(np.count_nonzero((arrivals > low) & (arrivals <= low + seconds)))
        low += seconds
        if count:
            drawn += PhaseType.exponential(1.0).sample(count, rng).tolist()
    return drawn


def served(start: float, amount: float, changes: list[tuple[float, float]]) -> float:
    """When a server whose speed changes at these times has done that much work."""
    at_s = start
    for end, speed in changes:
        if at_s >= end:
            continue
        if speed > 0 and amount <= (end - at_s) * speed:
            return at_s + amount / speed
        amount -= (end - at_s) * speed
        at_s = end
    raise AssertionError("the last piece is long enough")


def test_a_stall_delays_what_arrives_meanwhile_and_is_no_service() -> None:
    queue = stage(np.array([1.0, 1.1, 5.0]), StageParameters(mu_per_s=1e6, beta=1.0), seed=1)
    queue.stall(0.5, 2.0)
    queue.advance(10.0)
    left, _ = queue.output.records
    assert left == pytest.approx([2.5, 2.5, 5.0], abs=1e-4)


def test_a_far_replica_adds_its_round_trip() -> None:
    queue = stage(np.array([1.0, 2.0]), StageParameters(mu_per_s=1e6, beta=1.0))
    queue.configure(Pool(("e1",), (1.0,), (300.0,)))
    queue.advance(10.0)
    left, born = queue.output.records
    assert left - born == pytest.approx([0.3, 0.3], abs=1e-4)
