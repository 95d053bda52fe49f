"""The exact Pareto front over load ranks: search the corners that no known plan dominates."""

from __future__ import annotations

import numpy as np

from fogmodels.placement.problem import Ints
from fogmodels.placement.reach import Reach


def least_rank(reach: Reach, ranks: Ints, dimension: int) -> int:
    """The least rank of one dimension with a plan while the other ranks hold (they are feasible)."""
    low, high = 0, int(ranks[dimension])
    trial = ranks.copy()
    while low < high:
        trial[dimension] = middle = (low + high) // 2
        if reach.feasible(trial):
            high = middle
        else:
            low = middle + 1
    return low


def front_ranks(reach: Reach, ranks: Ints) -> list[Ints]:
    """Rank vectors of all Pareto-optimal costs within the given ranks.

    Every unexplored part of the front lies below some corner. A corner without a plan strictly below it is
    done; otherwise minimising one dimension after the other finds a new point of the front, and each
    corner above that point splits into one corner per dimension (Klamroth et al., local upper bounds).
    """
    points: list[Ints] = []
    corners = [ranks + 1]
    while corners:
        corner = corners.pop()
        if not reach.feasible(corner - 1):
            continue
        point = corner - 1
        for d in range(len(point)):
            point[d] = least_rank(reach, point, d)
        points.append(point)
        corners = _split([*corners, corner], point)
    return points


def _split(corners: list[Ints], point: Ints) -> list[Ints]:
    """Corners of what stays unexplored once `point` is known."""
    kept = [u for u in corners if not (point < u).all()]
    fresh: list[Ints] = []
    for corner in corners:
        if (point < corner).all():
            for d in range(len(point)):
                child = corner.copy()
                child[d] = point[d]
                if child[d] > 0:
                    fresh.append(child)
    everything = kept + fresh
    if len(everything) < 2:
        return everything
    table = np.unique(np.array(everything), axis=0)
    covered = np.asarray((table[:, None, :] <= table[None, :, :]).all(axis=2))
    np.fill_diagonal(covered, False)
    return list(table[~covered.any(axis=1)])
