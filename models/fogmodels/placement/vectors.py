"""Every way to fill one worker: count vectors per class of interchangeable workers, with ranked loads."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fogmodels.placement.costs import SAME_LOAD, Scale, worker_loads
from fogmodels.placement.problem import Floats, Ints, Problem


@dataclass(frozen=True, slots=True, eq=False)
class WorkerClass:
    """Workers no rule or cost can tell apart, and the vectors (tasks per operator) each may hold.

    `ranks` numbers the loads per dimension: comparing ranks is comparing loads free of rounding noise.
    `steps` is what a vector adds to the state of a dynamic program (see `VectorSpace.extent`).
    """

    members: tuple[int, ...]
    vectors: Ints
    steps: Ints
    ranks: Ints


@dataclass(frozen=True, slots=True, eq=False)
class VectorSpace:
    """The classes of a problem and, per dimension (cpu, io, net), the sorted distinct loads.

    `extent` is the largest value of each coordinate of a state: tasks placed per operator and idle slots
    (all but the largest of these, which follows from the others because every slot is counted), and, where
    moves are limited, the moves made so far as the last coordinate.
    """

    problem: Problem
    classes: tuple[WorkerClass, ...]
    levels: tuple[Floats, ...]
    extent: tuple[int, ...]

    @property
    def limits_moves(self) -> bool:
        """Whether the last coordinate of a state counts moves."""
        return self.problem.max_moves is not None

    @property
    def states(self) -> int:
        """How many states a dynamic program over this space has."""
        return math.prod(n + 1 for n in self.extent)

    def ranks_within(self, limit_loads: Floats) -> Ints:
        """The highest rank per dimension that keeps the load limits; -1 if none does."""
        slack = 1e-9 * Scale.of(self.problem).worst
        return np.array(
            [
                np.searchsorted(level, limit_loads[d] + slack[d], side="right") - 1
                for d, level in enumerate(self.levels)
            ],
            dtype=np.int64,
        )


def worker_classes(problem: Problem) -> list[tuple[int, ...]]:
    """Group workers that may swap their whole content without changing any cost or rule."""
    groups: list[list[int]] = []
    for k in range(len(problem.workers)):
        for group in groups:
            if _interchangeable(problem, group[0], k):
                group.append(k)
                break
        else:
            groups.append([k])
    return [tuple(group) for group in groups]


def _interchangeable(problem: Problem, a: int, b: int) -> bool:
    one, two = problem.workers[a], problem.workers[b]
    if (one.slots, one.cpu, one.io, one.net) != (two.slots, two.cpu, two.io, two.net):
        return False
    tables = [problem.lower, problem.upper]
    if problem.max_moves is not None and problem.current is not None:
        tables.append(problem.current)
    if any((t[a] != t[b]).any() for t in tables):
        return False
    if problem.rtt_ms is None:
        return True
    if problem.rtt_ms[a, a] != problem.rtt_ms[b, b]:
        return False  # what tasks on one worker pay among themselves
    others = [k for k in range(len(problem.workers)) if k not in (a, b)]
    return bool((problem.rtt_ms[a, others] == problem.rtt_ms[b, others]).all())


def vector_count(problem: Problem) -> int:
    """How many count vectors all classes have together, without listing them."""
    total = 0
    for members in worker_classes(problem):
        k = members[0]
        slots = problem.workers[k].slots
        ways = np.zeros(slots + 1, dtype=object)
        ways[0] = 1
        for low, high in zip(problem.lower[k], problem.upper[k], strict=True):
            step = np.zeros(slots + 1, dtype=object)
            for n in range(int(low), min(int(high), slots) + 1):
                step[n:] += ways[: slots + 1 - n]
            ways = step
        least = slots - (int(problem.slots.sum()) - problem.tasks)
        total += int(ways[max(0, least) :].sum())
    return total


def vector_space(problem: Problem) -> VectorSpace:
    """List all count vectors and rank their loads."""
    scale = Scale.of(problem)
    capacity = problem.capacities()
    kept, extent = state_extent(problem)
    found: list[tuple[tuple[int, ...], Ints, Ints, Floats]] = []
    for members in worker_classes(problem):
        k = members[0]
        vectors = _vectors(problem, k)
        idle = problem.workers[k].slots - vectors.sum(axis=1)
        steps = np.column_stack([vectors, idle])[:, kept]
        if problem.max_moves is not None and problem.current is not None:
            moves = np.maximum(vectors - problem.current[k], 0).sum(axis=1)
            steps = np.column_stack([steps, moves])[moves <= problem.max_moves]
            vectors = vectors[moves <= problem.max_moves]
        found.append((members, vectors, steps, worker_loads(problem, vectors) / capacity[:, k]))
    loads = np.concatenate([f[3] for f in found])
    ranks = np.zeros(loads.shape, dtype=np.int64)
    levels: list[Floats] = []
    for d in range(3):
        level, ranks[:, d] = _rank(loads[:, d], SAME_LOAD * scale.worst[d])
        levels.append(level)
    classes, start = [], 0
    for members, vectors, steps, _ in found:
        classes.append(WorkerClass(members, vectors, steps, ranks[start : start + len(vectors)]))
        start += len(vectors)
    return VectorSpace(problem, tuple(classes), tuple(levels), extent)


def state_extent(problem: Problem) -> tuple[list[int], tuple[int, ...]]:
    """Which of (operators..., idle slots) make up a state, and the extent of a state's coordinates."""
    need = [*map(int, problem.parallelism), int(problem.slots.sum()) - problem.tasks]
    implied = max(range(len(need)), key=need.__getitem__)
    kept = [i for i in range(len(need)) if i != implied]
    moves = () if problem.max_moves is None else (problem.max_moves,)
    return kept, (*(need[i] for i in kept), *moves)


def _vectors(problem: Problem, k: int) -> Ints:
    """All vectors of worker k between its lower and upper bounds, in lexicographic order.

    No worker may leave more slots idle than the whole cluster has to spare.
    """
    slots = problem.workers[k].slots
    spare = int(problem.slots.sum()) - problem.tasks
    low, high = problem.lower[k], problem.upper[k]
    made = np.zeros((1, 0), dtype=np.int64)
    used = np.zeros(1, dtype=np.int64)
    for i in range(len(low)):
        options = np.arange(low[i], high[i] + 1)
        later_low, later_high = int(low[i + 1 :].sum()), int(high[i + 1 :].sum())
        grown = used[:, None] + options[None, :]
        keep = (grown + later_low <= slots) & (grown + later_high >= slots - spare)
        rows, cols = np.nonzero(keep)
        made = np.column_stack([made[rows], options[cols]])
        used = grown[rows, cols]
    return made


def _rank(loads: Floats, same: float) -> tuple[Floats, Ints]:
    """Distinct loads in order, and the rank of each; loads within `same` of their neighbour are one."""
    order = np.argsort(loads, kind="stable")
    ordered = loads[order]
    new = np.concatenate([[True], np.diff(ordered) > same]) if len(ordered) else np.zeros(0, dtype=bool)
    rank = np.empty(len(loads), dtype=np.int64)
    rank[order] = np.cumsum(new) - 1
    return ordered[new], rank
