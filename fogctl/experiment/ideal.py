"""What the best n nodes sustain, learned from a run's own batches: the ideal curve of a live run. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from fogmodels.throughput import Sample, fit

from fogctl.agent.policies.capacity import sustained

SETTLED_WINDOWS = 2.0
"""After a change of nodes the metric window still holds batches of the old ones, and then of cold ones."""
MOST_SAMPLES = 200
LEAST_ROWS = 5.0
LEAST_SETS = 3
"""A model of fewer node sets than this says nothing about others."""
SHARES: Final = tuple(step / 20 for step in range(2, 21))
"""The CPU shares that an ideal scaler could choose from."""


@dataclass(frozen=True, slots=True)
class Sustained:
    """What the best 1, 2, … nodes sustain at each share, by stage, and where that is known from."""

    by_stage: Mapping[str, Mapping[float, list[float]]]
    source: str

    def facts(self) -> dict[str, Any]:
        """As the manifest has it: at full share under `mst`, at every share under `mst_shares`."""
        return {
            "mst": {stage: rates[1.0] for stage, rates in self.by_stage.items()},
            "mst_shares": {stage: list(map(list, rates.items())) for stage, rates in self.by_stage.items()},
            "mst_from": self.source,
        }


def from_metrics(manifest: Mapping[str, Any], metrics: pa.Table) -> Sustained:
    """By stage the MST of the nearest 1, 2, … nodes, from a batch-time model of every policy's batches."""
    far = distances(manifest)
    found: dict[str, dict[float, list[float]]] = {}
    counts = []
    for stage in manifest["stages"]:
        facts = manifest["stage_facts"][stage]
        # A replica with several slots runs as many tasks at a time: what counts is how often it has to.
        rounds = -(-int(facts["partitions"]) // int(facts.get("slots", 1)))
        samples = samples_of(metrics, stage, rounds, SETTLED_WINDOWS * float(manifest["window_s"]))
        if len({(sample.replicas, sample.rtt_max_ms) for sample in samples}) < LEAST_SETS:
            counts.append(f"{stage}: too few node sets were seen")
            continue
        model = fit(samples, "batch")
        counts.append(f"{stage}: {len(samples)} windows, noise {model.noise:.0%}")
        bound = float(facts["freshness_s"])

        found[stage] = {
            share: [sustained(model, n, rtt_ms, rounds, share, bound) for n, rtt_ms in enumerate(far, 1)]
            for share in SHARES
        }
    said = "; ".join(counts)
    known = f"a batch-time model of this run's batches ({said})" if found else f"not known ({said})"
    return Sustained(found, known)


def distances(manifest: Mapping[str, Any]) -> list[float]:
    """The round trips of the edge nodes to driver and broker, nearest first."""
    return sorted(distances_by_node(manifest).values())


def distances_by_node(manifest: Mapping[str, Any]) -> dict[str, float]:
    """By edge node the longer of its round trips to driver and broker, as asked."""
    network = manifest["network"]
    roles = {node["name"]: node["role"] for node in manifest["testbed"]["nodes"]}
    names = network["nodes"]
    origins = [place for place, name in enumerate(names) if roles.get(name) != "edge"]
    return {
        name: max((network["asked_ms"][origin][place] for origin in origins), default=0.0)
        for place, name in enumerate(names)
        if roles.get(name) == "edge"
    }


def samples_of(metrics: pa.Table, stage: str, partitions: int, settled_s: float) -> list[Sample]:
    """One sample for each settled second of a stage, thinned: rows over duration of the window's batches."""
    rows = metrics.filter(pc.and_(pc.equal(metrics["kind"], "stage"), pc.equal(metrics["name"], stage)))
    samples: list[Sample] = []
    for key in sorted(set(zip(rows["policy"].to_pylist(), rows["repetition"].to_pylist(), strict=True))):
        own = rows.filter(pc.and_(pc.equal(rows["policy"], key[0]), pc.equal(rows["repetition"], key[1])))
        own = own.sort_by("at_s")
        changed_s, before = 0.0, None
        for row in own.select(
            ["at_s", "nodes", "share", "replicas", "rtt_max_ms", "batch_ms", "batch_rows"]
        ).to_pylist():
            placed = (row["nodes"], row["share"])
            if placed != before:
                changed_s, before = row["at_s"], placed
            if row["at_s"] - changed_s < settled_s or not row["batch_ms"] or not row["replicas"]:
                continue
            if (row["batch_rows"] or 0.0) < LEAST_ROWS:
                continue
            samples.append(
                Sample(
                    int(row["replicas"]),
                    float(row["rtt_max_ms"]),
                    float(row["batch_rows"]) / (float(row["batch_ms"]) / 1e3),
                    float(row["batch_rows"]),
                    partitions,
                    share=max(0.01, float(row["share"])),
                )
            )
    if len(samples) > MOST_SAMPLES:
        samples = [samples[int(i)] for i in np.linspace(0, len(samples) - 1, MOST_SAMPLES)]
    return samples
