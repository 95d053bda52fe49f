"""Which n nodes are closest together: exactly, with ties broken in a stated order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fogmodels.throughput import checks

Table = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class NodeSet:
    """Nodes by their position in the caller's list, ascending, and the largest round trip that counts."""

    nodes: tuple[int, ...]
    rtt_max_ms: float


def nearest_set(rtts: Sequence[float] | ArrayLike, n: int) -> NodeSet:
    """The n nodes of least largest round trip to one origin (driver and broker): the n nearest.

    Of nodes equally far the earlier in the list is taken. Costs a sort.
    """
    far = checks.rtt_list("rtts", rtts)
    if far.ndim != 1:
        raise ValueError("nearest_set needs one round trip per node; for a matrix use tightest_set.")
    _check_count(n, len(far))
    chosen = np.argsort(far, kind="stable")[:n]
    return NodeSet(tuple(sorted(int(i) for i in chosen)), float(far[chosen].max()))


def tightest_set(
    rtts: Sequence[Sequence[float]] | ArrayLike, n: int, including: Sequence[int] = ()
) -> NodeSet:
    """The n nodes of least largest round trip *between each other*, `including` those already in use.

    Of sets equally tight, the one that comes first when sets are written as ascending positions. Where the
    two directions of a pair differ, the slower counts; the diagonal is ignored, so one node alone has 0.

    Exact: the answer is one of the matrix' values; a binary search over them asks whether the pairs no
    farther apart hold a clique of n nodes (branch and bound with a colouring bound). Round trips that come
    from places (triangle inequality, clusters) take milliseconds for 100 nodes; in the worst case the
    question is NP-hard and the time grows exponentially with n.
    """
    table = checks.rtt_list("rtts", rtts)
    if table.ndim != 2:
        raise ValueError("tightest_set needs a square matrix of round trips; for one origin use nearest_set.")
    total = table.shape[0]
    _check_count(n, total)
    fixed = sorted({checks.whole("including", i, least=0) for i in including})
    if fixed and fixed[-1] >= total:
        raise ValueError(f"including names node {fixed[-1]}, but there are only {total} nodes.")
    if len(fixed) > n:
        raise ValueError(f"including names {len(fixed)} nodes, more than the {n} asked for.")
    apart = np.maximum(table, table.T)
    np.fill_diagonal(apart, 0.0)

    inner = apart[np.ix_(fixed, fixed)]
    floor = float(inner.max()) if fixed else 0.0
    values = np.unique(apart)
    values = values[values >= floor] if n > 1 else np.array([floor])
    low = 0
    best = _greedy(apart, n, fixed)
    high = int(np.searchsorted(values, _diameter(apart, best)))
    while low < high:
        middle = (low + high) // 2
        found = _first_clique(apart <= values[middle], n, fixed)
        if found is None:
            low = middle + 1
        else:
            high = int(np.searchsorted(values, _diameter(apart, found)))
    answer = _first_clique(apart <= values[low], n, fixed)
    assert answer is not None  # values[low] is the diameter of a set that was found
    return NodeSet(tuple(answer), float(values[low]))


def _check_count(n: int, total: int) -> None:
    if checks.whole("n", n) > total:
        raise ValueError(f"n is {n}, but there are only {total} nodes.")


def _diameter(apart: Table, nodes: Sequence[int]) -> float:
    return float(apart[np.ix_(nodes, nodes)].max())


def _greedy(apart: Table, n: int, fixed: Sequence[int]) -> list[int]:
    """A good set to start from: around every node its n nearest; the tightest of these."""
    if fixed:
        order = np.argsort(apart[fixed].max(axis=0), kind="stable")
        rest = [int(i) for i in order if i not in set(fixed)]
        return sorted([*fixed, *rest[: n - len(fixed)]])
    around = np.argsort(apart, axis=1, kind="stable")[:, :n]
    widths = [_diameter(apart, row) for row in around]
    return sorted(int(i) for i in around[int(np.argmin(widths))])


def _first_clique(close: NDArray[np.bool_], n: int, fixed: Sequence[int]) -> list[int] | None:
    """The first set, by ascending positions, of n nodes that are pairwise close; None if there is none."""
    total = close.shape[0]
    packed = np.packbits(close, axis=1, bitorder="little")
    neighbours = [int.from_bytes(row.tobytes(), "little") & ~(1 << i) for i, row in enumerate(packed)]
    candidates = (1 << total) - 1
    for i in fixed:
        candidates &= neighbours[i] | sum(1 << j for j in fixed)
    for i in fixed:
        candidates &= ~(1 << i)
    missing = n - len(fixed)
    if any(not close[i, j] for i in fixed for j in fixed):
        return None
    candidates = _prune(candidates, neighbours, missing)
    found = _extend(candidates, neighbours, missing)
    # With fixed nodes in every set, the first set is the one whose other nodes come first.
    return None if found is None else sorted([*fixed, *found])


def _prune(candidates: int, neighbours: Sequence[int], size: int) -> int:
    """Drop, again and again, nodes with too few close candidates left to be in a clique of `size`."""
    changed = True
    while changed:
        changed = False
        rest = candidates
        while rest:
            bit = rest & -rest
            rest ^= bit
            if (neighbours[bit.bit_length() - 1] & candidates).bit_count() < size - 1:
                candidates ^= bit
                changed = True
    return candidates


def _extend(candidates: int, neighbours: Sequence[int], size: int) -> list[int] | None:
    """Depth first in ascending order, so the first clique found is the first in order.

    `stack[d]` holds what may still be the d-th node of the clique; a loop, for n may pass Python's limit.
    """
    chosen: list[int] = []
    stack = [candidates]
    back = False
    while len(chosen) < size:
        missing = size - len(chosen)
        here = stack[-1]
        # The bound costs more than a step down, so it is asked only where a branch has failed already.
        if here.bit_count() < missing or (back and not _colourable_bound(here, neighbours, missing)):
            back = True
            stack.pop()
            if not stack:
                return None
            chosen.pop()
            continue
        bit = here & -here
        node = bit.bit_length() - 1
        stack[-1] = here ^ bit
        back = False
        chosen.append(node)
        stack.append(_prune(stack[-1] & neighbours[node], neighbours, missing - 1))
    return chosen


def _colourable_bound(candidates: int, neighbours: Sequence[int], size: int) -> bool:
    """Whether a greedy colouring needs at least `size` colours; fewer proves there is no such clique."""
    colours = 0
    rest = candidates
    while rest:
        colours += 1
        if colours >= size:
            return True
        free = rest
        while free:
            bit = free & -free
            rest ^= bit
            free &= ~bit & ~neighbours[bit.bit_length() - 1]
    return False
