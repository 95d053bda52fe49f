"""Reads the parts of a placement problem from plain data; each fault is one ValueError with its key."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fogmodels.placement.parts import SEPARABLE, Floats, Ints, Operator, Worker

_OPTIONAL = ("rtt_ms", "pinned", "forbidden", "current", "max_moves", "forward")
_REQUIRED = ("operators", "edges", "workers", "slots")
_OPERATOR_KEYS = ("id", "name", "parallelism", "cpu", "io", "net", "outbound")
_WORKER_KEYS = ("name", "slots", "cpu", "io", "net")
_LARGEST = 1e100
_MOST_WORKERS = 10_000


def check_keys(d: Mapping[str, Any]) -> None:
    """Refuse what is missing or misspelt; other keys (notes) are nobody's business."""
    if not isinstance(d, Mapping):
        raise ValueError(f"a placement problem is a mapping, not {type(d).__name__}")
    for key in _REQUIRED[:3]:
        if key not in d:
            raise ValueError(f"{key}: missing from the placement problem")
    _refuse_misspelt(d, (*_REQUIRED, *_OPTIONAL), "")


def _refuse_misspelt(d: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in d:
        near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.75)
        if near and key not in known:
            raise ValueError(f"{where}{key}: unknown key (did you mean {near[0]}?)")


def _number(value: Any, key: str, *, positive: bool = False) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ValueError(f"{key}: {value!r} is not a number")
    number = float(value)
    if not math.isfinite(number) or number < 0 or (positive and number == 0) or number > _LARGEST:
        raise ValueError(
            f"{key}: must be finite and {'above zero' if positive else 'not negative'}, not {value}"
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


def operators(raw: Any) -> tuple[Operator, ...]:
    """The operators, with unique ids."""
    made: list[Operator] = []
    seen: set[str] = set()
    for i, item in enumerate(_list(raw, "operators")):
        key = f"operators[{i}]"
        op = _mapping(item, key)
        _refuse_misspelt(op, _OPERATOR_KEYS, f"{key}.")
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
                cpu=_number(op.get("cpu", 0.0), f"{key}.cpu"),
                io=_number(op.get("io", 0.0), f"{key}.io"),
                net=_number(op.get("net", 0.0), f"{key}.net"),
                outbound=str(op.get("outbound") or "").upper(),
            )
        )
    if not made:
        raise ValueError("operators: at least one is needed")
    return tuple(made)


def edges(raw: Any, index: Mapping[str, int], count: int) -> tuple[tuple[int, int], ...]:
    """Pairs (upstream, downstream) of operator positions, without cycles."""
    found: list[tuple[int, int]] = []
    for k, item in enumerate(_list(raw, "edges")):
        pair = _list(item, f"edges[{k}]")
        if len(pair) != 2:
            raise ValueError(f"edges[{k}]: must name two operators, upstream and downstream")
        for end in pair:
            if str(end) not in index:
                raise ValueError(f"edges[{k}]: unknown operator {end!r}")
        edge = (index[str(pair[0])], index[str(pair[1])])
        if edge in found:
            raise ValueError(f"edges[{k}]: {pair[0]} to {pair[1]} is given twice")
        found.append(edge)
    # Kahn's algorithm: whatever cannot be taken away lies on a cycle.
    left, open_edges = set(range(count)), set(found)
    while free := {i for i in left if not any(down == i for _, down in open_edges)}:
        left -= free
        open_edges = {e for e in open_edges if e[0] not in free}
    if left:
        raise ValueError("edges: the operators form a cycle; a dataflow graph must not")
    return tuple(found)


def workers(raw: Any, slots: Any, tasks: int) -> tuple[Worker, ...]:
    """The workers: a number of identical ones, or one entry each; slots beyond all tasks do not count."""
    if not isinstance(raw, (Sequence, np.ndarray)) or isinstance(raw, (str, bytes)):
        count = _whole(raw, "workers", least=1)
        if count > _MOST_WORKERS:
            raise ValueError(f"workers: {count} are more than the {_MOST_WORKERS} this method is made for")
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
                min(_whole(own, where, least=0), tasks),
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


def task_bounds(
    d: Mapping[str, Any],
    ops: Sequence[Operator],
    machines: Sequence[Worker],
    index: Mapping[str, int],
    row: Mapping[str, int],
) -> tuple[Ints, Ints]:
    """Least and most tasks per worker and operator, from slots, pinned and forbidden."""
    slots = np.array([w.slots for w in machines], dtype=np.int64)
    need = np.array([op.parallelism for op in ops], dtype=np.int64)
    lower = np.zeros((len(machines), len(ops)), dtype=np.int64)
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
            for k in range(len(machines)):
                if k not in allowed:
                    upper[k, op] = 0
    for name, where in _mapping(d.get("forbidden") or {}, "forbidden").items():
        op = _find(index, name, "forbidden", "operator")
        barred = [where] if isinstance(where, str) else _list(where, f"forbidden.{name}")
        for worker in barred:
            upper[_find(row, worker, f"forbidden.{name}", "worker"), op] = 0
    if (lower > upper).any() or (lower.sum(axis=1) > slots).any() or (lower.sum(axis=0) > need).any():
        raise ValueError("pinned: asks for more tasks than the slots, the operator or a forbidden rule allow")
    for i, tasks in enumerate(need.tolist()):
        if int(upper[:, i].sum()) < tasks:
            raise ValueError(f"operator {ops[i].id}: {tasks} tasks do not fit on the workers it may use")
    return lower, upper


def current(
    raw: Any,
    ops: Sequence[Operator],
    machines: Sequence[Worker],
    index: Mapping[str, int],
    row: Mapping[str, int],
) -> Ints | None:
    """The current placement as a workers × operators table."""
    if raw is None:
        return None
    made = np.zeros((len(machines), len(ops)), dtype=np.int64)
    for worker, tasks in _mapping(raw, "current").items():
        k = _find(row, worker, "current", "worker")
        for name, count in _mapping(tasks, f"current.{worker}").items():
            op = _find(index, name, f"current.{worker}", "operator")
            made[k, op] = _whole(count, f"current.{worker}.{name}", least=0)
    return made


def rtt(raw: Any, count: int) -> Floats | None:
    """The matrix of round trips between workers, in ms."""
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


def max_moves(raw: Any, now: Ints | None, tasks: int) -> int | None:
    """The most moves allowed; needs a current placement."""
    if raw is None:
        return None
    most = _whole(raw, "max_moves", least=0)
    if now is None:
        raise ValueError("max_moves: needs the current placement (key current)")
    return min(most, tasks)


def forward(raw: Any) -> str:
    """The rule for FORWARD edges."""
    if raw not in (None, "links", "pairs"):
        raise ValueError(f'forward: must be "links" or "pairs", not {raw!r}')
    return raw or "links"
