"""Figures of the scalability models: false alarms of the lag trend, experiments that a search runs."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
from fogmodels.scalability import lag_trend, load_capacity, resource_demand
from fogmodels.throughput import Sample, fit
from scipy.stats import linregress

from benchmarks.row import Row

RUNS = 200


def rows() -> Iterator[Row]:
    """Measure on synthetic lag: triggers every 30 s, sampled each second for four minutes."""
    for name, over, target in (
        ("false alarms of the lag trend", 0.7, 5.0),
        ("overload of 10 % missed", 1.1, None),
    ):
        ours = theirs = 0
        for seed in range(RUNS):
            times, lags = _saw_tooth(np.random.default_rng(seed), rate=100.0 * over, capacity=100.0)
            plain = linregress(times, lags)
            ours += (lag_trend(times, lags).verdict == "rising") == (over < 1.0)
            theirs += (plain.pvalue < 0.05 and plain.slope > 0) == (over < 1.0)
        share, peer = 100.0 * ours / RUNS, 100.0 * theirs / RUNS
        yield Row(f"{name}, 8 cycles", share, "%", target=target, peer=peer, peer_name="plain regression")
    times, lags = _saw_tooth(np.random.default_rng(0), rate=70.0, capacity=100.0)
    started = time.process_time()
    for _ in range(200):
        lag_trend(times, lags)
    yield Row("lag trend of 240 samples", 1e3 * (time.process_time() - started) / 200, "CPU ms")
    yield from _searches()


def _searches() -> Iterator[Row]:
    loads, resources = [1500.0 * i for i in range(1, 13)], list(range(1, 41))
    model = fit([Sample(n, 0.0, 1000.0 * n**0.85) for n in (1, 2, 4, 6)], "gesscale")

    def sustains(load: float, amount: float) -> bool:
        return bool(load <= 1030.0 * amount**0.84)

    full = len(loads) * len(resources)
    for strategy in ("linear", "binary"):
        count = resource_demand(loads, resources, sustains, strategy=strategy).count
        yield Row(
            f"experiments, demand of 12 loads, {strategy}", count, "", peer=full, peer_name="full search"
        )
    guided = resource_demand(
        loads, resources, sustains, strategy="guided", guess=lambda load: model.replicas_for(load, [0.0] * 40)
    )
    yield Row("experiments, demand of 12 loads, guided", guided.count, "", peer=full, peer_name="full search")
    count = load_capacity(
        loads, resources, sustains, strategy="guided", guess=lambda n: model.mst(int(n), 0.0)
    ).count
    yield Row("experiments, capacity of 40 amounts, guided", count, "", peer=full, peer_name="full search")


def _saw_tooth(rng: np.random.Generator, *, rate: float, capacity: float) -> tuple[np.ndarray, np.ndarray]:
    trigger_s, length_s = 30.0, 240.0
    fine = np.arange(0.0, length_s + 4 * trigger_s, 0.5)
    arrived = np.cumsum(rng.poisson(rate * 0.5, len(fine)))
    t, done, ends, totals = rng.uniform(0, trigger_s), 0.0, [0.0], [0.0]
    while t < fine[-1]:
        done += min(np.interp(t, fine, arrived) - done, capacity * trigger_s)
        t += trigger_s * float(np.exp(0.1 * rng.normal()))
        ends.append(t)
        totals.append(done)
    times = 3 * trigger_s + np.arange(0.0, length_s)
    processed = np.array(totals)[np.searchsorted(ends, times, side="right") - 1]
    return times, np.maximum(0.0, np.interp(times, fine, arrived) - processed)
