"""The simulator's parameters from a run's folder: the same experiment, simulated as that run showed it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogctl.errors import FogError
from fogctl.experiment import experiment as experiments
from fogctl.experiment.folder import RunFolder
from fogctl.experiment.ideal import distances_by_node
from fogctl.experiment.series import Vector, column, finished, part_events
from fogctl.experiment.sim_plant import parameters_of
from fogctl.sim.fit_batches import FEWEST, SeenBatch, fit_batches
from fogctl.sim.parameters import StageParameters

_LOOK_S = 0.5
"""A look comes half a second after what it sees, on average."""


def parameters_like(folder: RunFolder) -> dict[str, StageParameters]:
    """By stage what all finished parts of a run teach; FogError if they do not teach enough."""
    manifest = folder.manifest()
    table, events = folder.metrics(), folder.events()
    far = distances_by_node(manifest)
    quotas = {node["name"]: node["cores"] for node in manifest["testbed"]["nodes"] if node["role"] == "edge"}
    cores = next((float(quota) for quota in quotas.values() if quota), StageParameters().reference_cores)
    takes = _takes(part_events(events, entry) for entry in finished(manifest))
    app = experiments.of_manifest(manifest).app
    found = {}
    for stage in app.stages:
        known = parameters_of(stage, StageParameters(reference_cores=cores))
        parts = [Watched.of(table, entry, stage.name, quotas) for entry in finished(manifest)]
        registers = [seconds for part in parts for seconds in part.registering_s()]
        stalls = replace(
            known.stalls,
            registers_s=median(registers) if registers else known.stalls.registers_s,
            add_takes_s=median(takes["out"]) if takes.get("out") else known.stalls.add_takes_s,
            remove_takes_s=median(takes["in"]) if takes.get("in") else known.stalls.remove_takes_s,
        )
        batches = [batch for part in parts for batch in part.batches(far)]
        limit = float(manifest["tolerances"]["host_busy"])
        # What a batch takes on a host that has no CPU left says more about the host.
        quiet = [seen for seen, busy in batches if not busy > limit]
        if len(quiet) < FEWEST:
            quiet = [seen for seen, _ in batches]
        try:
            found[stage.name] = fit_batches(
                quiet, stage.partitions, stage.slots, replace(known, stalls=stalls)
            )
        except ValueError as error:
            raise FogError(
                f"run {folder.name} does not teach how stage {stage.name} behaves: {error}",
                hint="a run keeps its batches if it was made by this version of fogctl and was finished",
            ) from error
    return found


@dataclass(frozen=True, slots=True)
class Watched:
    """One stage in one part as its rows tell: where it ran, its batches, and what its nodes computed."""

    at_s: Vector
    placed: tuple[frozenset[str], ...]
    """At each look the nodes that its replicas were placed on."""
    executors: Vector
    """How many of them had registered; NaN where that is not known."""
    share: Vector
    ended_s: Vector
    duration_s: Vector
    rows: Vector
    cpu: Mapping[str, tuple[Vector, Vector]]
    """By node: times, and CPU seconds used until then within its quota."""
    busy: tuple[Vector, Vector]
    """Times, and how busy the host was then."""

    @classmethod
    def of(
        cls, table: pa.Table, entry: Mapping[str, Any], stage: str, quotas: Mapping[str, float | None]
    ) -> Watched:
        """From the run's table."""
        own = table.filter(
            pc.and_(
                pc.equal(table["policy"], str(entry["policy"])),
                pc.equal(table["repetition"], int(entry["repetition"])),
            )
        ).sort_by("at_s")

        def rows(kind: str, name: str) -> pa.Table:
            return own.filter(pc.and_(pc.equal(own["kind"], kind), pc.equal(own["name"], name)))

        looks, batches, host = rows("stage", stage), rows("batch", stage), rows("host", "host")
        cpu = {}
        for node, quota in quotas.items():
            there = rows("node", node)
            at_s, used = column(there, "at_s"), np.nan_to_num(column(there, "used_cores"))
            used = np.minimum(used, quota) if quota else used
            cpu[node] = (at_s, np.cumsum(used * np.diff(at_s, prepend=0.0)))
        return cls(
            column(looks, "at_s"),
            tuple(frozenset(filter(None, str(text or "").split(","))) for text in looks["nodes"].to_pylist()),
            column(looks, "executors"),
            column(looks, "share"),
            column(batches, "at_s"),
            column(batches, "batch_ms") / 1e3,
            column(batches, "batch_rows"),
            cpu,
            (column(host, "at_s"), column(host, "busy")),
        )

    def stays(self) -> list[tuple[str, float, float, float]]:
        """Each stay of a replica on a node: from its placement, from its registration, until it went."""
        found = []
        since: dict[str, tuple[float, float | None]] = {}
        for place, (at_s, nodes) in enumerate(zip(self.at_s.tolist(), self.placed, strict=True)):
            for node in nodes - since.keys():
                since[node] = (at_s, 0.0 if place == 0 else None)
            if not self.executors[place] < len(nodes):
                since = {
                    n: (placed, at_s - _LOOK_S if joined is None else joined)
                    for n, (placed, joined) in since.items()
                }
            for node in since.keys() - nodes:
                placed, joined = since.pop(node)
                if joined is not None:
                    found.append((node, placed, joined, at_s - _LOOK_S))
        found += [(n, placed, joined, np.inf) for n, (placed, joined) in since.items() if joined is not None]
        return found

    def registering_s(self) -> list[float]:
        """How long replicas that were added took until the driver had them."""
        if np.isnan(self.executors).all():
            return []
        return [joined - placed for _, placed, joined, _ in self.stays() if joined > 0.0]

    def batches(self, far: Mapping[str, float]) -> list[tuple[SeenBatch, float]]:
        """Every batch with what it ran on, and how busy the host was meanwhile (NaN: not known)."""
        stays = [(node, self._first_batch_s(at_s), left_s) for node, _, at_s, left_s in self.stays()]
        found = []
        before: frozenset[str] | None = None
        for ended_s, duration_s, rows in zip(self.ended_s, self.duration_s, self.rows, strict=True):
            start_s = float(ended_s - duration_s)
            joined = {node: at_s for node, at_s, left_s in stays if at_s <= start_s < left_s}
            nodes = frozenset(joined)
            if nodes and duration_s > 0 and rows > 0:
                new = nodes - (before or frozenset())
                kind = "first" if before is None else "out" if new else "in" if nodes != before else ""
                place = max(0, int(np.searchsorted(self.at_s, start_s, side="right")) - 1)
                seen = SeenBatch(
                    rows=float(rows),
                    duration_s=float(duration_s),
                    replicas=tuple(
                        sorted(
                            (far[node], self._worked(node, at_s, start_s)) for node, at_s in joined.items()
                        )
                    ),
                    share=max(0.01, float(np.nan_to_num(self.share[place], nan=1.0))),
                    change=kind,
                    new_rtt_ms=max((far[node] for node in new), default=0.0),
                )
                found.append((seen, self._host_busy(start_s, float(ended_s))))
                before = nodes
        return found

    def _first_batch_s(self, joined_s: float) -> float:
        """When the batch began that a new replica was first part of: that which ran when it was seen, if it
        had just begun, or the next. The first one takes seconds longer, so it is the longer of the two."""
        begins = self.ended_s - self.duration_s
        next_one = int(np.searchsorted(begins, joined_s))
        if joined_s <= 0.0 or next_one == 0 or next_one == begins.size:
            return joined_s
        before, after = self.duration_s[next_one - 1], self.duration_s[next_one]
        return float(begins[next_one - 1] if before > after else begins[next_one])

    def _worked(self, node: str, since_s: float, until_s: float) -> float:
        times, used = self.cpu[node]
        if not times.size:
            return 0.0
        moments, so_far = np.concatenate([[0.0], times]), np.concatenate([[0.0], used])
        then, now = np.interp([since_s, until_s], moments, so_far)
        return max(0.0, float(now - then))

    def _host_busy(self, start_s: float, end_s: float) -> float:
        times, busy = self.busy
        within = busy[(times >= start_s) & (times <= end_s)]
        return float(within.mean()) if within.size else float("nan")


def _takes(parts: Iterable[Sequence[Mapping[str, Any]]]) -> dict[str, list[float]]:
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
