"""A plan to begin with: whole, within every rule, and as near as possible to a wish."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from fogmodels.placement.problem import Floats, Ints, Problem


def nearest_plan(problem: Problem, wish: Floats) -> Ints | None:
    """The plan with the fewest tasks above `wish` (workers × operators); None if no plan keeps the rules.

    A transportation problem: its constraint matrix is totally unimodular, so the simplex method ends in
    whole numbers. With the current placement as the wish this is the plan with the fewest moves.
    """
    workers, ops = len(problem.workers), len(problem.operators)
    size = workers * ops
    lower, upper = problem.lower.ravel(), problem.upper.ravel()
    wanted = np.clip(np.floor(wish.ravel() + 1e-9), lower, upper)
    cell = np.arange(size)
    columns = np.concatenate([cell, cell + size])
    row_of, column_of = np.tile(cell // ops, 2), np.tile(cell % ops, 2)
    price = np.concatenate([np.zeros(size), np.ones(size)])
    least = np.concatenate([lower, 0 * lower]).astype(float)
    most = np.concatenate([wanted, upper - wanted]).astype(float)
    found = linprog(
        price,
        A_ub=_matrix(row_of, columns, (workers, 2 * size)),
        b_ub=problem.slots,
        A_eq=_matrix(column_of, columns, (ops, 2 * size)),
        b_eq=problem.parallelism,
        bounds=list(zip(least.tolist(), most.tolist(), strict=True)),
        method="highs-ds",
    )
    if found.status == 2:
        return None
    if found.status != 0 or found.x is None:
        raise ArithmeticError(f"the linear solver failed on a transportation problem: {found.message}")
    plan: Ints = np.rint(found.x[:size] + found.x[size:]).astype(np.int64).reshape(workers, ops)
    whole = (plan.sum(axis=0) == problem.parallelism).all() and (plan.sum(axis=1) <= problem.slots).all()
    inside = (plan >= problem.lower).all() and (plan <= problem.upper).all()
    if not (whole and inside):
        raise ArithmeticError("the linear solver returned a plan that is not whole; this is a bug")
    return plan


def _matrix(rows: Ints, columns: Ints, shape: tuple[int, int]) -> Any:
    return csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
