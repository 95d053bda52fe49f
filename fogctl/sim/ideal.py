"""The ideal curve: at each instant the least number of replicas whose best node set sustains the input."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

import numpy as np
from fogmodels.elasticity import ideal_supply
from fogmodels.throughput import NodeSet
from numpy.typing import ArrayLike, NDArray

from fogctl.runtime.app import Stage
from fogctl.sim.parameters import StageParameters
from fogctl.sim.replicas import common_speed
from fogctl.testbed.model import Role, Testbed


class Sustains(Protocol):
    """A throughput model: records a second of so many replicas, the farthest that far away.

    `speed` is that of equal replicas which would do as much as the set does: 1, unless nodes differ.
    """

    def __call__(self, replicas: int, rtt_max_ms: float, speed: float = 1.0, /) -> float:
        """The rate sustained."""
        ...


def best_sets(
    distances_ms: Sequence[float],
    mst: Sustains,
    speeds: Sequence[float] | None = None,
    partitions: int = 1,
    slots: int = 1,
) -> tuple[list[NodeSet], NDArray[np.float64]]:
    """For n = 1, 2, … the node set of greatest MST, and that MST.

    Nodes alike: the n nearest. Where their speeds differ, the n fastest within each distance compete: of the
    sets whose farthest node is no farther than that, none has better speeds at every place.
    """
    far = np.asarray(distances_ms, dtype=float)
    if far.ndim != 1 or far.size == 0 or not np.isfinite(far).all() or (far < 0).any():
        raise ValueError("distances must be finite and not negative, one for each node, one at least")
    fast = np.ones(far.size) if speeds is None else np.asarray(speeds, dtype=float)
    if fast.shape != far.shape or not np.isfinite(fast).all() or (fast <= 0).any():
        raise ValueError("speeds must be above 0, one for each node")
    if np.ptp(fast) == 0:
        order = np.argsort(far, kind="stable")
        sets = [NodeSet(tuple(sorted(order[:n].tolist())), float(far[order[n - 1]])) for n in _counts(far)]
        msts = [mst(len(s.nodes), s.rtt_max_ms, float(fast[0])) for s in sets]
        return sets, np.array(msts)
    best: list[NodeSet | None] = [None] * far.size
    rates = np.full(far.size, -np.inf)
    for limit in np.unique(far):
        within = np.flatnonzero(far <= limit)
        ordered = within[np.argsort(-fast[within], kind="stable")]
        for n in range(1, within.size + 1):
            chosen = ordered[:n]
            reach = float(far[chosen].max())
            rate = mst(n, reach, common_speed(fast[chosen].tolist(), max(partitions, 1), slots))
            if rate > rates[n - 1]:
                rates[n - 1] = rate
                best[n - 1] = NodeSet(tuple(sorted(chosen.tolist())), reach)
    return [found for found in best if found is not None], rates


def ideal_replicas(
    rates: ArrayLike, distances_ms: Sequence[float], mst: Sustains, *, at_least: int = 1
) -> NDArray[np.int64]:
    """The least n for each rate, of nodes that are alike at these distances from driver and broker."""
    return ideal_supply(rates, best_sets(distances_ms, mst)[1], at_least=at_least)


def ideal_curve(
    testbed: Testbed,
    stage: Stage,
    parameters: StageParameters,
    times_s: ArrayLike,
    rates: ArrayLike,
    start_s: float = 0.0,
) -> NDArray[np.int64]:
    """The ideal replicas of a stage at each time, with the latencies that the testbed's schedule has then."""
    times, wanted = np.asarray(times_s, dtype=float), np.asarray(rates, dtype=float)
    if times.shape != wanted.shape or times.ndim != 1:
        raise ValueError("there must be one rate for each time")
    edge = [node for node in testbed.nodes if node.role is Role.edge]
    origins = [node.name for node in testbed.nodes if node.role is not Role.edge]
    cores = [node.cpu_cores or parameters.reference_cores for node in edge]
    speeds = [core / parameters.reference_cores for core in cores]
    mst = partial(_mst, parameters, stage)
    rtt = {
        (origin, node.name): testbed.latencies.rtt_ms(origin, node.name)
        for origin in origins
        for node in edge
    }
    answer = np.ones(times.size, dtype=np.int64)
    begin = -np.inf
    changes: list[tuple[float, dict[tuple[str, str], float]]] = []
    for change in sorted(testbed.schedule, key=lambda c: c.at_s):
        pairs = {(change.a, change.b): change.path.rtt_ms, (change.b, change.a): change.path.rtt_ms}
        changes.append((start_s + change.at_s, pairs))
    for end, pairs in [*changes, (np.inf, {})]:
        now = (times >= begin) & (times < end)
        if now.any():
            far = [max((rtt[origin, node.name] for origin in origins), default=0.0) for node in edge]
            msts = best_sets(far, mst, speeds, stage.partitions, stage.slots)[1]
            answer[now] = ideal_supply(wanted[now], msts)
        begin = end
        rtt |= {pair: value for pair, value in pairs.items() if pair in rtt}
    return answer


def _mst(
    parameters: StageParameters, stage: Stage, n: int, rtt_max_ms: float, speed: float = 1.0, /
) -> float:
    freshness_s = stage.freshness_ms / 1e3
    return parameters.mst(n, rtt_max_ms, freshness_s, stage.partitions, speed, stage.slots)


def _counts(far: NDArray[np.float64]) -> range:
    return range(1, far.size + 1)
