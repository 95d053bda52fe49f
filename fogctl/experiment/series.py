"""A finished part as series and events: each stage over time beside its ideal, and what was changed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from fogmodels import elasticity
from numpy.typing import NDArray

Vector = NDArray[np.float64]

SMOOTH_S = 15.0
"""The ideal curve follows the mean rate over this long: chance in single seconds is no change of load."""


@dataclass(frozen=True, slots=True)
class StageSeries:
    """A stage over the seconds of a part."""

    at_s: Vector
    offered: Vector
    """Records a second to serve: the schedule's, or what the stages before it pass on."""
    processed: Vector
    lag: Vector
    replicas: Vector
    share: Vector
    cores: Vector
    ideal: Vector | None
    """The least replicas, whole, whose best set sustains what is offered."""
    ideal_cpu: Vector | None
    """The least CPU that would, in nodes at full share: of all replicas at all shares, the cheapest."""
    nodes: tuple[str, ...]

    @property
    def cpu(self) -> Vector:
        """Replicas × share: what they are worth in nodes at full share."""
        return self.replicas * np.nan_to_num(self.share)


def finished(manifest: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The parts that were run to their end."""
    return [entry for entry in manifest["parts"] if entry["state"] == "done"]


def series(
    manifest: Mapping[str, Any], entry: Mapping[str, Any], metrics: pa.Table
) -> dict[str, StageSeries]:
    """Each stage of a part over time, with its ideal curve where the manifest knows what n nodes sustain."""
    mask = pc.and_(
        pc.equal(metrics["policy"], str(entry["policy"])),
        pc.equal(metrics["repetition"], int(entry["repetition"])),
    )
    rows = metrics.filter(pc.and_(mask, pc.equal(metrics["kind"], "stage")))
    found = {}
    for stage in manifest["stages"]:
        own = rows.filter(pc.equal(rows["name"], stage)).sort_by("at_s")
        if own.num_rows == 0:
            continue
        offered = column(own, "offered_rate")
        source = np.where(np.isnan(offered), np.nan_to_num(column(own, "input_rate")), offered)
        sustained = manifest.get("mst", {}).get(stage)
        at_s = column(own, "at_s")
        shares = manifest.get("mst_shares", {}).get(stage)
        load = smoothed(at_s, source)
        ideal = elasticity.ideal_supply(load, sustained).astype(float) if sustained else None
        found[stage] = StageSeries(
            at_s=at_s,
            offered=source,
            processed=np.nan_to_num(column(own, "processed_rate")),
            lag=np.nan_to_num(column(own, "lag")),
            replicas=np.nan_to_num(column(own, "replicas")),
            share=column(own, "share"),
            cores=column(own, "cores"),
            ideal=ideal,
            ideal_cpu=least_cpu(load, shares) if shares else None,
            nodes=tuple(text or "" for text in own["nodes"].to_pylist()),
        )
    return found


def least_cpu(rates: Vector, by_share: Sequence[tuple[float, Sequence[float]]]) -> Vector:
    """For each rate the least n × share that sustains it, from the MST of 1, 2, … nodes at each share."""
    choices = sorted((n * share, mst) for share, msts in by_share for n, mst in enumerate(msts, 1))
    costs = np.array([cost for cost, _ in choices])
    return costs[elasticity.ideal_supply(rates, [mst for _, mst in choices]) - 1]


def smoothed(at_s: Vector, rate: Vector, over_s: float = SMOOTH_S) -> Vector:
    """The mean rate over a window centred on each instant."""
    low = np.searchsorted(at_s, at_s - over_s / 2, side="left")
    high = np.searchsorted(at_s, at_s + over_s / 2, side="right")
    total = np.concatenate([[0.0], np.cumsum(rate)])
    return np.asarray((total[high] - total[low]) / (high - low))


def part_events(events: Iterable[Mapping[str, Any]], entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The events of the attempt that finished a part."""
    return [
        event
        for event in events
        if event.get("part") == entry.get("key") and event.get("attempt") == entry.get("attempt")
    ]


def changes(events: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The decisions that were to change something, and the changes that failed."""
    return [
        e for e in events if e.get("what") == "failed" or (e.get("what") == "decision" and e.get("actions"))
    ]


def reconfigurations(events: Sequence[Mapping[str, Any]]) -> int:
    """Decisions that changed the set of nodes and were carried out; however many nodes, each is one."""
    applied = {e.get("decision") for e in events if e.get("what") == "applied"}
    return sum(
        e.get("direction") in ("out", "in", "move") and e.get("decision") in applied
        for e in events
        if e.get("what") == "decision"
    )


def stalls(events: Sequence[Mapping[str, Any]]) -> list[tuple[float, float]]:
    """When a change was done, and how many seconds of input piled up because of it."""
    ended = {e.get("decision"): float(e["at_s"]) for e in events if e.get("what") == "applied"}
    return [
        (ended[e["decision"]], float(e["stall_s"]))
        for e in events
        if e.get("what") == "observed" and e.get("decision") in ended
    ]


def column(table: pa.Table, name: str) -> Vector:
    """A column as numbers; NaN where there is none."""
    return np.asarray(table[name].to_numpy(zero_copy_only=False), dtype=float)
