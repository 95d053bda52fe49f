"""A plan to begin with: whole, within every rule, and as near as possible to a wish."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_matrix

from fogmodels.placement.problem import Floats, Ints, Problem


def nearest_plan(problem: Problem, wish: Floats, noise: Floats | None = None) -> Ints | None:
    """The plan with the fewest tasks above `wish` (workers × operators); None if the rules exclude each other.

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
    ones = np.ones(2 * size)
    price = np.concatenate([np.zeros(size), np.ones(size)])
    if noise is not None:
        price += 1e-3 * np.tile(noise.ravel(), 2)
    found = linprog(
        price,
        A_ub=coo_matrix((ones, (row_of, columns)), shape=(workers, 2 * size)).tocsr(),
        b_ub=problem.slots,
        A_eq=coo_matrix((ones, (column_of, columns)), shape=(ops, 2 * size)).tocsr(),
        b_eq=problem.parallelism,
        bounds=np.column_stack(
            [np.concatenate([lower, 0 * lower]), np.concatenate([wanted, upper - wanted])]
        ),
        method="highs-ds",
    )
    if found.status != 0:
        return None
    plan = np.rint(found.x[:size] + found.x[size:]).astype(np.int64).reshape(workers, ops)
    whole = (plan.sum(axis=0) == problem.parallelism).all() and (plan.sum(axis=1) <= problem.slots).all()
    inside = (plan >= problem.lower).all() and (plan <= problem.upper).all()
    if not (whole and inside):
        raise ArithmeticError("the linear solver returned a plan that is not whole; this is a bug")
    return plan
