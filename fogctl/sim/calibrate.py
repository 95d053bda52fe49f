"""From a live run to the simulator's parameters: batch times, noise, stalls and CPU, as they were seen."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
from fogmodels.throughput import Sample, ThroughputModel, fit

from fogctl.metrics.values import NodeMetrics, StageMetrics
from fogctl.sim.parameters import StageParameters, Stalls

MOST_SAMPLES = 200
"""Beyond so many looks, a spread-out choice of them tells as much."""
FEWEST_LOOKS = 3


@dataclass(frozen=True, slots=True)
class StageRun:
    """What was seen of one stage during a run."""

    looks: Sequence[StageMetrics]
    partitions: int
    """Of its topics, over the slots of a replica."""
    shares: Callable[[float], float] = lambda _at_s: 1.0
    """The share of its replicas at a time."""
    stalls_s: Mapping[str, Sequence[float]] | None = None
    """Measured gaps by kind of change: `out`, `in`, `kill`, `cut`."""
    takes_s: Mapping[str, Sequence[float]] | None = None
    """How long changes took from the wish to the replica: `out`, `in`."""
    nodes: Sequence[Sequence[NodeMetrics]] = ()
    """Looks at the nodes, at about the same times; empty: the CPU is not calibrated."""
    next_input: Sequence[float] = ()
    """Input rates of the stage that reads its output, look by look; empty: as much goes out as comes in."""


def calibrate(
    run: StageRun,
    distance_ms: Callable[[str], float],
    reference_cores: float,
    base: StageParameters | None = None,
) -> StageParameters:
    """The parameters that reproduce the run; what it did not show stays as in `base`.

    `distance_ms` is a node's round trip to driver and broker, `reference_cores` the quota of its nodes.
    """
    base = base or StageParameters()
    looks = settled(run.looks)
    if len(looks) < FEWEST_LOOKS:
        raise ValueError(
            f"{len(looks)} looks at the stage with settled batches are too few; {FEWEST_LOOKS} are needed"
        )
    model = fitted(looks, run, distance_ms)
    parameters = StageParameters.from_model(
        model,
        reference_cores,
        noise=_noise(model, looks),
        startup_cpu=base.startup_cpu,
        service_scv=base.service_scv,
        out_per_in=_passed_on(run) if run.next_input else base.out_per_in,
        stalls=_stalls(run, base.stalls),
    )
    return replace(parameters, startup_cpu=_startup_cpu(parameters, run, looks)) if run.nodes else parameters


def settled(looks: Iterable[StageMetrics]) -> list[StageMetrics]:
    """Looks whose batches all ran on one set of replicas: the same before, at and after the look.

    A window with a change in it mixes two configurations and a stall; one without batches tells nothing.
    """
    seen = list(looks)
    kept = []
    since_s = -math.inf  # when these replicas were first seen
    for place, look in enumerate(seen):
        if place and seen[place - 1].nodes != look.nodes:
            since_s = look.at_s
        stays = place + 1 == len(seen) or seen[place + 1].nodes == look.nodes
        told = bool(look.nodes) and look.batch_rows > 0 and look.batch_ms > 0
        if told and stays and look.at_s - since_s >= look.window_s:
            kept.append(look)
    return kept


def fitted(
    looks: Sequence[StageMetrics], run: StageRun, distance_ms: Callable[[str], float]
) -> ThroughputModel:
    """The batch form through the looks: rows over duration of each window's mean batch."""
    chosen = [looks[i] for i in np.unique(np.linspace(0, len(looks) - 1, MOST_SAMPLES).astype(int))]
    samples = [
        Sample(
            replicas=len(look.nodes),
            rtt_max_ms=max(distance_ms(node) for node in look.nodes),
            mst=1e3 * look.batch_rows / look.batch_ms,
            batch_rows=look.batch_rows,
            # A batch with fewer rows than partitions has fewer tasks.
            partitions=run.partitions,
            share=run.shares(look.at_s),
        )
        for look in chosen
    ]
    return fit(samples, "batch")


def _noise(model: ThroughputModel, looks: Sequence[StageMetrics]) -> float:
    """Of one batch: a window's mean scatters less, by the root of the batches in it."""
    batches = [max(1.0, look.processed_rate * look.window_s / look.batch_rows) for look in looks]
    return min(0.5, model.noise * math.sqrt(median(batches)))


def _passed_on(run: StageRun) -> float:
    ratios = [
        after / look.processed_rate
        for look, after in zip(run.looks, run.next_input, strict=True)
        if look.processed_rate > 0
    ]
    return median(ratios) if ratios else 1.0


def _stalls(run: StageRun, base: Stalls) -> Stalls:
    gaps, takes = run.stalls_s or {}, run.takes_s or {}

    def typical(found: Mapping[str, Sequence[float]], kind: str, otherwise: float) -> float:
        return float(median(found[kind])) if found.get(kind) else otherwise

    return replace(
        base,
        out_s=typical(gaps, "out", base.out_s),
        # What is measured has the first batch's trips in it.
        first_trips=0.0 if gaps.get("out") else base.first_trips,
        in_s=typical(gaps, "in", base.in_s),
        lost_s=typical(gaps, "kill", base.lost_s),
        cut_s=typical(gaps, "cut", base.cut_s),
        add_takes_s=typical(takes, "out", base.add_takes_s),
        remove_takes_s=typical(takes, "in", base.remove_takes_s),
    )


def _startup_cpu(parameters: StageParameters, run: StageRun, looks: Sequence[StageMetrics]) -> float:
    """How much of a task's start-up is CPU: what the nodes used beyond the rows' own work."""
    by_time = {look.at_s: look for look in looks}
    found = []
    for nodes in run.nodes:
        if not nodes:
            continue
        look = by_time.get(min(by_time, key=lambda at_s: abs(at_s - nodes[0].at_s)))
        if look is None or abs(look.at_s - nodes[0].at_s) > max(1.0, look.window_s / 4):
            continue
        part = f"{look.app}-{look.stage}"
        share = run.shares(look.at_s)
        own = [n for n in nodes if n.node in look.nodes and n.cpu_quota_cores]
        if len(own) != len(look.nodes):
            continue
        used = sum(n.cpu_used_by_part.get(part, n.cpu_used_cores) for n in own)
        busy = used / sum((n.cpu_quota_cores or 0.0) * share for n in own)
        n = len(look.nodes)
        batch_s = look.batch_ms / 1e3
        in_batches = min(1.0, look.processed_rate / look.true_rate) if look.true_rate > 0 else 1.0
        speed = share**parameters.sigma
        work_s = look.batch_rows * parameters.per_row_s(n, run.partitions, speed)
        start_s = parameters.start_s(parameters.tasks(n, run.partitions), speed)
        if start_s > 0.02 * batch_s:
            found.append((busy / in_batches * batch_s - work_s) / start_s)
    return min(1.0, max(0.0, median(found))) if found else parameters.startup_cpu
