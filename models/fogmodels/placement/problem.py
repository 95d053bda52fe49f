"""The placement problem: operators, links, workers and every rule a plan must keep, validated once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fogmodels.placement import reading
from fogmodels.placement.parts import SEPARABLE, Bools, Floats, Ints, Operator, Worker

__all__ = ["SEPARABLE", "Bools", "Floats", "Ints", "Operator", "Problem", "Worker"]


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """A validated placement problem; `lower` and `upper` bound the tasks per worker (rows) and operator."""

    operators: tuple[Operator, ...]
    edges: tuple[tuple[int, int], ...]
    workers: tuple[Worker, ...]
    lower: Ints = field(repr=False)
    upper: Ints = field(repr=False)
    rtt_ms: Floats | None = field(default=None, repr=False)
    current: Ints | None = field(default=None, repr=False)
    max_moves: int | None = None
    forward: str = "links"

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> Problem:
        """Read a problem from plain data.

        Required: `operators` (id, parallelism, cpu, io, net; optional name, outbound), `edges`
        (pairs upstream, downstream), `workers` (a number, or a list with name, slots, cpu, io, net),
        `slots` (per worker; may be left out where each worker has its own).
        Optional: `rtt_ms` (matrix between workers; adds the latency cost), `pinned` (operator ->
        workers it may use, or worker -> least tasks there), `forbidden` (operator -> workers),
        `current` (worker -> operator -> tasks) with `max_moves`, and `forward`: "links" (Eq. 8 for every
        edge) or "pairs" (a FORWARD edge is one-to-one: only max(0, up - down) tasks send over the network).
        """
        reading.check_keys(d)
        operators = reading.operators(d["operators"])
        index = {op.id: i for i, op in enumerate(operators)}
        for i, op in enumerate(operators):
            index.setdefault(op.name, i)
        edges = reading.edges(d["edges"], index, len(operators))
        tasks = sum(op.parallelism for op in operators)
        workers = reading.workers(d["workers"], d.get("slots"), tasks)
        row = {w.name: k for k, w in enumerate(workers)}
        slots = sum(w.slots for w in workers)
        if tasks > slots:
            raise ValueError(f"slots: {tasks} tasks do not fit in {slots} slots; add workers or slots")
        lower, upper = reading.task_bounds(d, operators, workers, index, row)
        current = reading.current(d.get("current"), operators, workers, index, row)
        max_moves = reading.max_moves(d.get("max_moves"), current, tasks)
        rtt = reading.rtt(d.get("rtt_ms"), len(workers))
        forward = reading.forward(d.get("forward"))
        return cls(operators, edges, workers, lower, upper, rtt, current, max_moves, forward)

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The cost dimensions of this problem: cpu, io, net, and latency where round trips are known."""
        return SEPARABLE if self.rtt_ms is None else (*SEPARABLE, "latency")

    @property
    def parallelism(self) -> Ints:
        """Tasks per operator."""
        return np.array([op.parallelism for op in self.operators], dtype=np.int64)

    @property
    def slots(self) -> Ints:
        """Slots per worker."""
        return np.array([w.slots for w in self.workers], dtype=np.int64)

    @property
    def tasks(self) -> int:
        """All tasks together."""
        return sum(op.parallelism for op in self.operators)

    def unit_costs(self) -> Floats:
        """Cost of one task: a row per dimension (cpu, io, net), a column per operator."""
        return np.array([[getattr(op, d) for op in self.operators] for d in SEPARABLE], dtype=float)

    def capacities(self) -> Floats:
        """Capacity per dimension (rows) and worker (columns)."""
        return np.array([[getattr(w, d) for w in self.workers] for d in SEPARABLE], dtype=float)

    def moves(self, plan: Ints) -> int:
        """How many tasks a plan places where the current placement has none of that operator to spare."""
        if self.current is None:
            return 0
        return int(np.maximum(plan - self.current, 0).sum())
