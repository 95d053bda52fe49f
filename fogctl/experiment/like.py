"""The simulator's parameters from a run's folder: the same experiment, simulated as that run showed it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fogctl.errors import FogError
from fogctl.experiment.folder import RunFolder
from fogctl.experiment.ideal import distances_by_node
from fogctl.experiment.series import finished, part_events
from fogctl.metrics.values import StageMetrics
from fogctl.sim.calibrate import StageRun, calibrate
from fogctl.sim.parameters import StageParameters

COLD_S = 30.0
"""So long after the start of a part executors are still warming up."""
_APART_S = 1e6
"""Parts are told apart by shifting each so much further."""


def parameters_like(folder: RunFolder) -> dict[str, StageParameters]:
    """By stage what all finished parts of a run teach; FogError if they do not teach enough."""
    manifest = folder.manifest()
    table, events = folder.metrics(), folder.events()
    far = distances_by_node(manifest)
    quotas = [node["cores"] for node in manifest["testbed"]["nodes"] if node["role"] == "edge"]
    cores = next((float(quota) for quota in quotas if quota), StageParameters().reference_cores)
    changes = [part_events(events, entry) for entry in finished(manifest)]
    found = {}
    for stage, facts in manifest["stage_facts"].items():
        looks, shares = _looks(manifest, stage, table)
        run = StageRun(
            looks,
            -(-int(facts["partitions"]) // int(facts.get("slots", 1))),
            shares.__getitem__,
            # Stalls stay as they were measured by themselves: under a varying load they hide in the lag.
            takes_s=_takes(changes),
        )
        try:
            found[stage] = calibrate(run, far.__getitem__, cores)
        except ValueError as error:
            raise FogError(
                f"run {folder.name} does not teach how stage {stage} behaves: {error}",
                hint="its policies must have stayed with some node sets for longer than the metric window",
            ) from error
    return found


def _looks(
    manifest: Mapping[str, Any], stage: str, table: pa.Table
) -> tuple[list[StageMetrics], dict[float, float]]:
    """Every look at a stage with its share, part after part."""
    own = table.filter(pc.and_(pc.equal(table["kind"], "stage"), pc.equal(table["name"], stage)))
    window_s = float(manifest.get("window_s", 15.0))
    looks: list[StageMetrics] = []
    shares: dict[float, float] = {}
    for number, entry in enumerate(finished(manifest)):
        mine = pc.and_(
            pc.equal(own["policy"], entry["policy"]), pc.equal(own["repetition"], entry["repetition"])
        )
        share, changed_s = None, 0.0
        for row in own.filter(mine).sort_by("at_s").to_pylist():
            if row["share"] != share:
                share, changed_s = row["share"], row["at_s"]
            # A window with another share in it mixes two configurations.
            if row["batch_ms"] is None or row["at_s"] < max(COLD_S, changed_s + window_s):
                continue
            look = _look(row, stage, number * _APART_S, window_s)
            looks.append(look)
            shares[look.at_s] = max(0.01, float(row["share"] or 1.0))
    return looks, shares


def _look(row: Mapping[str, Any], stage: str, later_s: float, window_s: float) -> StageMetrics:
    batch_s = float(row["batch_ms"]) / 1e3
    rows = float(row["batch_rows"] or 0.0)
    nodes = tuple(name for name in str(row["nodes"] or "").split(",") if name)
    return StageMetrics(
        app="",
        stage=stage,
        at_s=float(row["at_s"]) + later_s,
        nodes=nodes,
        slots=len(nodes),
        input_rate=float(row["input_rate"] or 0.0),
        processed_rate=float(row["processed_rate"] or 0.0),
        lag=int(row["lag"] or 0),
        lag_by_partition={},
        lag_trend=0.0,
        batch_ms=batch_s * 1e3,
        batch_split_ms={},
        batch_rows=rows,
        max_rows=0,
        busyness=float(row["busyness"] or 0.0),
        true_rate=rows / batch_s if batch_s > 0 else 0.0,
        window_s=window_s,
    )


def _takes(parts: Iterable[Iterable[Mapping[str, Any]]]) -> dict[str, list[float]]:
    """Seconds that changes took, by their direction; replicas that go together take as long as one."""
    found: dict[str, list[float]] = {}
    for part in parts:
        asked = {}
        for event in part:
            if event.get("what") == "decision" and event.get("direction") in ("out", "in"):
                asked[event.get("decision")] = event
            elif event.get("what") == "applied" and (decision := asked.get(event.get("decision"))):
                found.setdefault(str(decision["direction"]), []).append(float(event["seconds"]))
    return found
