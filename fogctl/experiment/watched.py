"""A stage as the rows of a run tell of it: each batch with what it ran on, and how warm that was. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fogctl.experiment.series import Vector, column
from fogctl.sim.fit_batches import SeenBatch

_LOOK_S = 0.5
"""A look comes half a second after what it sees, on average."""


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
            at_s, used = column(there, "at_s"), column(there, "used_cores")
            at_s, used = at_s[~np.isnan(used)], used[~np.isnan(used)]
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
        if not times.size:  # nobody knows how warm it is
            return np.inf
        moments, so_far = np.concatenate([[0.0], times]), np.concatenate([[0.0], used])
        then, now = np.interp([since_s, until_s], moments, so_far)
        return max(0.0, float(now - then))

    def _host_busy(self, start_s: float, end_s: float) -> float:
        times, busy = self.busy
        within = busy[(times >= start_s) & (times <= end_s)]
        return float(within.mean()) if within.size else float("nan")
