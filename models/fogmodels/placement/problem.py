"""The placement problem: operators, links, workers and every rule a plan must keep, validated once."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SEPARABLE = ("cpu", "io", "net")
"""The paper's three costs: each worker's load depends on that worker's own tasks alone."""

_OPTIONAL = ("rtt_ms", "pinned", "forbidden", "current", "max_moves", "forward")
_REQUIRED = ("operators", "edges", "workers", "slots")
_WORKER_KEYS = ("name", "slots", "cpu", "io", "net")


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator: `parallelism` identical tasks and what each task costs per dimension."""

    id: str
    name: str
    parallelism: int
    cpu: float
    io: float
    net: float
    outbound: str = ""


@dataclass(frozen=True, slots=True)
class Worker:
    """One machine: task slots and capacities (a load is a sum of task costs divided by the capacity)."""

    name: str
    slots: int
    cpu: float = 1.0
    io: float = 1.0
    net: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """A validated placement problem. `lower` and `upper` bound tasks per worker (rows) and operator (columns)."""

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
        _check_keys(d)
        operators = _operators(d["operators"])
        index = {op.id: i for i, op in enumerate(operators)}
        for i, op in enumerate(operators):
            index.setdefault(op.name, i)
        edges = _edges(d["edges"], index, len(operators))
        workers = _workers(d["workers"], d.get("slots"))
        row = {w.name: k for k, w in enumerate(workers)}
        tasks = sum(op.parallelism for op in operators)
        slots = sum(w.slots for w in workers)
        if tasks > slots:
            raise ValueError(f"{tasks} tasks do not fit in {slots} slots; add workers or slots")
        lower, upper = _bounds(d, operators, workers, index, row)
        current = _current(d.get("current"), operators, workers, index, row)
        forward = d.get("forward", "links")
        if forward not in ("links", "pairs"):
            raise ValueError(f'forward must be "links" or "pairs", not {forward!r}')
        max_moves = d.get("max_moves")
        if max_moves is not None:
            max_moves = _whole(max_moves, "max_moves", least=0)
            if current is None:
                raise ValueError("max_moves needs the current placement (key current)")
            max_moves = min(max_moves, tasks)
        rtt = _rtt(d.get("rtt_ms"), len(workers))
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


def _check_keys(d: Mapping[str, Any]) -> None:
    if not isinstance(d, Mapping):
        raise ValueError(f"a placement problem is a mapping, not {type(d).__name__}")
    for key in _REQUIRED[:3]:
        if key not in d:
            raise ValueError(f"{key}: missing from the placement problem")
    known = (*_REQUIRED, *_OPTIONAL)
    for key in d:
        if key in known or not isinstance(key, str):
            continue
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.75)
        if near:
            raise ValueError(f"{key}: unknown key (did you mean {near[0]}?)")


def _number(value: Any, key: str, *, positive: bool = False) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ValueError(f"{key}: {value!r} is not a number")
    number = float(value)
    if not math.isfinite(number) or number < 0 or (positive and number == 0):
        raise ValueError(
            f"{key}: must be finite and {'above zero' if positive else 'not negative'}, not {number}"
        )
    return number


def _whole(value: Any, key: str, *, least: int) -> int:
    number = _number(value, key)
    if number != int(number) or number < least:
        raise ValueError(f"{key}: must be a whole number of at least {least}, not {value}")
    return int(number)


def _list(value: Any, key: str) -> Sequence[Any]:
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, (Sequence, np.ndarray)):
        raise ValueError(f"{key}: must be a list, not {type(value).__name__}")
    return list(value)


def _mapping(value: Any, key: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{key}: must be a mapping, not {type(value).__name__}")
    return value


def _operators(raw: Any) -> tuple[Operator, ...]:
    made: list[Operator] = []
    seen: set[str] = set()
    for i, item in enumerate(_list(raw, "operators")):
        key = f"operators[{i}]"
        op = _mapping(item, key)
        if "id" not in op and "name" not in op:
            raise ValueError(f"{key}.id: missing")
        ident = str(op.get("id", op.get("name")))
        if ident in seen:
            raise ValueError(f"{key}.id: {ident!r} is used twice")
        seen.add(ident)
        if "parallelism" not in op:
            raise ValueError(f"{key}.parallelism: missing")
        made.append(
            Operator(
                ident,
                str(op.get("name", ident)),
                _whole(op["parallelism"], f"{key}.parallelism", least=1),
                *(_number(op.get(d, 0.0), f"{key}.{d}") for d in SEPARABLE),
                outbound=str(op.get("outbound") or "").upper(),
            )
        )
    if not made:
        raise ValueError("operators: at least one is needed")
    return tuple(made)


def _edges(raw: Any, index: Mapping[str, int], count: int) -> tuple[tuple[int, int], ...]:
    edges: list[tuple[int, int]] = []
    for k, item in enumerate(_list(raw, "edges")):
        pair = _list(item, f"edges[{k}]")
        if len(pair) != 2:
            raise ValueError(f"edges[{k}]: must name two operators, upstream and downstream")
        for end in pair:
            if str(end) not in index:
                raise ValueError(f"edges[{k}]: unknown operator {end!r}")
        edge = (index[str(pair[0])], index[str(pair[1])])
        if edge in edges:
            raise ValueError(f"edges[{k}]: {pair[0]} to {pair[1]} is given twice")
        edges.append(edge)
    # Kahn's algorithm: whatever cannot be taken away lies on a cycle.
    left, open_edges = set(range(count)), set(edges)
    while free := {i for i in left if not any(down == i for _, down in open_edges)}:
        left -= free
        open_edges = {e for e in open_edges if e[0] not in free}
    if left:
        raise ValueError("edges: the operators form a cycle; a dataflow graph must not")
    return tuple(edges)


def _workers(raw: Any, slots: Any) -> tuple[Worker, ...]:
    if not isinstance(raw, (Sequence, np.ndarray)) or isinstance(raw, (str, bytes)):
        count = _whole(raw, "workers", least=1)
        entries: list[Mapping[str, Any]] = [{} for _ in range(count)]
    else:
        entries = [
            _mapping(item, f"workers[{k}]") if not isinstance(item, str) else {"name": item}
            for k, item in enumerate(raw)
        ]
    if not entries:
        raise ValueError("workers: at least one is needed")
    if isinstance(slots, (Sequence, np.ndarray)) and not isinstance(slots, (str, bytes)):
        if len(slots) != len(entries):
            raise ValueError(f"slots: {len(slots)} values for {len(entries)} workers")
        default = list(slots)
    else:
        default = [slots] * len(entries)
    made: list[Worker] = []
    for k, entry in enumerate(entries):
        for key in entry:
            if key not in _WORKER_KEYS:
                raise ValueError(f"workers[{k}].{key}: unknown key (known: {', '.join(_WORKER_KEYS)})")
        own = entry.get("slots", default[k])
        where = f"workers[{k}].slots" if "slots" in entry else "slots"
        if own is None:
            raise ValueError(f"{where}: missing")
        made.append(
            Worker(
                str(entry.get("name", f"w{k + 1}")),
                _whole(own, where, least=0),
                *(_number(entry.get(d, 1.0), f"workers[{k}].{d}", positive=True) for d in SEPARABLE),
            )
        )
    names = [w.name for w in made]
    if len(set(names)) != len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise ValueError(f"workers: the name {twice!r} is used twice")
    return tuple(made)


def _find(known: Mapping[str, int], name: Any, key: str, what: str) -> int:
    if str(name) not in known:
        near = difflib.get_close_matches(str(name), list(known), n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise ValueError(f"{key}: unknown {what} {name!r}{hint}")
    return known[str(name)]


def _bounds(
    d: Mapping[str, Any],
    operators: Sequence[Operator],
    workers: Sequence[Worker],
    index: Mapping[str, int],
    row: Mapping[str, int],
) -> tuple[Ints, Ints]:
    slots = np.array([w.slots for w in workers], dtype=np.int64)
    need = np.array([op.parallelism for op in operators], dtype=np.int64)
    lower = np.zeros((len(workers), len(operators)), dtype=np.int64)
    upper = np.minimum(slots[:, None], need[None, :])
    for name, where in _mapping(d.get("pinned") or {}, "pinned").items():
        key = f"pinned.{name}"
        op = _find(index, name, "pinned", "operator")
        if isinstance(where, Mapping):
            for worker, least in where.items():
                k = _find(row, worker, key, "worker")
                lower[k, op] = _whole(least, f"{key}.{worker}", least=0)
        else:
            wanted = [where] if isinstance(where, str) else _list(where, key)
            allowed = {_find(row, worker, key, "worker") for worker in wanted}
            for k in range(len(workers)):
                if k not in allowed:
                    upper[k, op] = 0
    for name, where in _mapping(d.get("forbidden") or {}, "forbidden").items():
        op = _find(index, name, "forbidden", "operator")
        barred = [where] if isinstance(where, str) else _list(where, f"forbidden.{name}")
        for worker in barred:
            upper[_find(row, worker, f"forbidden.{name}", "worker"), op] = 0
    if (lower > upper).any() or (lower.sum(axis=1) > slots).any() or (lower.sum(axis=0) > need).any():
        raise ValueError("pinned: asks for more tasks than the slots, the operator or a forbidden rule allow")
    for i, op in enumerate(operators):
        if int(upper[:, i].sum()) < op.parallelism:
            raise ValueError(f"operator {op.id}: {op.parallelism} tasks do not fit on the workers it may use")
    return lower, upper


def _current(
    raw: Any,
    operators: Sequence[Operator],
    workers: Sequence[Worker],
    index: Mapping[str, int],
    row: Mapping[str, int],
) -> Ints | None:
    if raw is None:
        return None
    made = np.zeros((len(workers), len(operators)), dtype=np.int64)
    for worker, tasks in _mapping(raw, "current").items():
        k = _find(row, worker, "current", "worker")
        for name, count in _mapping(tasks, f"current.{worker}").items():
            op = _find(index, name, f"current.{worker}", "operator")
            made[k, op] = _whole(count, f"current.{worker}.{name}", least=0)
    return made


def _rtt(raw: Any, count: int) -> Floats | None:
    if raw is None:
        return None
    rows = [_list(line, f"rtt_ms[{i}]") for i, line in enumerate(_list(raw, "rtt_ms"))]
    if len(rows) != count or any(len(line) != count for line in rows):
        raise ValueError(f"rtt_ms: must be a {count} by {count} matrix, one row and column per worker")
    made = np.array(
        [[_number(v, f"rtt_ms[{i}][{j}]") for j, v in enumerate(line)] for i, line in enumerate(rows)]
    )
    if np.diagonal(made).any():
        raise ValueError("rtt_ms: the round trip of a worker to itself must be 0")
    if not np.allclose(made, made.T, rtol=1e-9, atol=0):
        raise ValueError("rtt_ms: must be symmetric; a round trip is the same both ways")
    return made
