"""The fit to single batches of a run, and how far one run is from another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fogctl.sim import StageParameters, Stalls
from fogctl.sim.compare import agreement, compare
from fogctl.sim.fit_batches import SeenBatch, fit_batches

TRUTH = StageParameters(
    tau_s=0.2,
    mu_per_s=90.0,
    beta=0.95,
    k0=3.0,
    k1=1.5,
    theta=1.4,
    noise=0.08,
    start_sigma=0.9,
    reference_cores=0.2,
    cold=0.8,
    warm_cpu_s=6.0,
    driver_s=0.3,
    stalls=Stalls(out_s=3.0, first_trips=10.0, in_s=0.5, first_s=1.0),
)
SETS = [(0.0,), (0.0, 10.0), (0.0, 10.0, 50.0), (0.0, 10.0, 50.0, 120.0, 250.0), (50.0, 250.0)]
PARTITIONS, SLOTS = 8, 4


def took_s(batch: SeenBatch) -> float:
    """What the batch takes by the truth, written down anew: its longest replica, and the driver."""
    each, left = divmod(PARTITIONS, len(batch.replicas))
    longest = 0.0
    for order, (rtt_ms, cpu_s) in enumerate(batch.replicas):
        own = each + (order < left)
        slow = 1.0 + TRUTH.cold * np.exp(-cpu_s / TRUTH.warm_cpu_s)
        work = own * TRUTH.tau_s * batch.share**-0.9
        work += batch.rows / (TRUTH.mu_per_s * batch.share * (PARTITIONS / own) ** TRUTH.beta)
        trips = TRUTH.k0 + TRUTH.k1 * np.ceil(own / SLOTS)
        longest = max(longest, slow * work + trips * 0.1 * (rtt_ms / 100.0) ** TRUTH.theta)
    return TRUTH.driver_s + longest


def run(seed: int = 1, shares: tuple[float, ...] = (1.0,)) -> list[SeenBatch]:
    """Batches of a run through several sets and loads, each replica colder at first."""
    rng = np.random.default_rng(seed)
    found = []
    worked: dict[float, float] = {}
    for number, distances in enumerate(SETS):
        new = [rtt_ms for rtt_ms in distances if rtt_ms not in worked]
        worked = {rtt_ms: worked.get(rtt_ms, 0.0) for rtt_ms in distances}
        for place in range(60):
            share = shares[place * len(shares) // 60]
            batch = SeenBatch(
                float(rng.integers(20, 900)),
                1.0,
                tuple(sorted(worked.items())),
                share,
                new_rtt_ms=max(new, default=0),
            )
            extra = 0.0
            if place == 0:
                kind = "first" if number == 0 else "out" if new else "in"
                extra = {"first": 1.0, "out": 3.0 + 10.0 * batch.new_rtt_ms / 1e3, "in": 0.5}[kind]
                batch = replace(batch, change=kind)
            seconds = took_s(batch) * np.exp(0.08 * rng.standard_normal()) + extra
            found.append(replace(batch, duration_s=float(seconds)))
            worked = {rtt_ms: cpu_s + 0.2 * seconds for rtt_ms, cpu_s in worked.items()}
    return found


def test_batches_of_sets_and_sizes_never_seen_are_foretold() -> None:
    found = fit_batches(run(), PARTITIONS, SLOTS, StageParameters())
    for n, rtt, rows in [(1, 0.0, 300), (2, 20.0, 600), (4, 50.0, 250), (6, 200.0, 800), (8, 150.0, 1200)]:
        expected = TRUTH.batch_s(rows, n, PARTITIONS, rtt, slots=SLOTS)
        assert found.batch_s(rows, n, PARTITIONS, rtt, slots=SLOTS) == pytest.approx(expected, rel=0.10)


def test_how_cold_replicas_begin_and_what_warms_them_is_learned() -> None:
    found = fit_batches(run(), PARTITIONS, SLOTS, StageParameters())
    for cpu_s in (0.0, 3.0, 8.0, 30.0):
        assert found.slowdown(cpu_s) == pytest.approx(TRUTH.slowdown(cpu_s), abs=0.15)
    warm = [replace(b, replicas=tuple((rtt, 1e6) for rtt, _ in b.replicas)) for b in run()]
    warm = [replace(b, duration_s=took_s(b)) for b in warm if not b.change]
    # A run whose replicas were warm from the start cannot tell: what was known before stays.
    assert fit_batches(warm, PARTITIONS, SLOTS, StageParameters()).cold == pytest.approx(1.0, rel=0.05)


def test_noise_and_stalls_are_as_they_were() -> None:
    found = fit_batches(run(), PARTITIONS, SLOTS, StageParameters())
    assert found.noise == pytest.approx(TRUTH.noise, rel=0.25)
    assert found.stalls.first_s == pytest.approx(1.0, abs=1.0)  # one batch tells it
    assert found.stalls.in_s == pytest.approx(0.5, abs=0.5)
    for far_s in (0.01, 0.12, 0.25):
        stall = found.stalls.out_s + found.stalls.first_trips * far_s
        assert stall == pytest.approx(3.0 + 10.0 * far_s, abs=0.8)
    assert found.stalls.lost_s == Stalls().lost_s  # never seen: as before


def test_shares_are_learned_too() -> None:
    found = fit_batches(run(shares=(1.0, 0.7, 0.4)), PARTITIONS, SLOTS, StageParameters())
    assert found.sigma == pytest.approx(1.0, abs=0.1)


def test_one_batch_that_is_far_off_moves_nothing() -> None:
    batches = run()
    spoilt = [replace(b, duration_s=20 * b.duration_s) if n % 40 == 7 else b for n, b in enumerate(batches)]
    one, other = (fit_batches(each, PARTITIONS, SLOTS, StageParameters()) for each in (batches, spoilt))
    for n, rtt in ((2, 10.0), (4, 50.0), (8, 200.0)):
        assert other.mst(n, rtt, 5.0, 8, slots=4) == pytest.approx(one.mst(n, rtt, 5.0, 8, slots=4), rel=0.1)


def test_too_little_to_go_by_is_said() -> None:
    with pytest.raises(ValueError, match="too few"):
        fit_batches(run()[:8], PARTITIONS, SLOTS, StageParameters())


STEPS = st.lists(st.tuples(st.floats(0, 90), st.integers(1, 4)), min_size=1, max_size=6).map(
    lambda steps: sorted(steps, key=lambda step: step[0])
)


@given(STEPS, STEPS)
def test_agreement_is_that_of_a_fine_grid(one, other) -> None:
    at = (np.arange(20_000) + 0.5) * 100.0 / 20_000

    def value(steps):
        index = np.maximum(np.searchsorted([s[0] for s in steps], at, side="right") - 1, 0)
        return np.array([s[1] for s in steps])[index]

    same, near, beyond = agreement(one, other, 0.0, 100.0)
    assert same <= near <= 1.0 + 1e-9
    assert same == pytest.approx(float(np.mean(value(one) == value(other))), abs=2e-3)
    assert beyond == pytest.approx(float(np.mean(value(other) - value(one))), abs=5e-3)


def test_runs_of_different_stages_are_not_compared() -> None:
    with pytest.raises(ValueError, match="same stages"):
        compare({}, {}, {"a": [(0.0, 1)]}, {"b": [(0.0, 1)]}, 10.0)
    with pytest.raises(ValueError, match="length"):
        agreement([(0.0, 1)], [(0.0, 1)], 5.0, 5.0)
