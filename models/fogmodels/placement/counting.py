"""Counts distinct plans exactly, without listing them: a knapsack over the count vectors of each class."""

from __future__ import annotations

import numpy as np

from fogmodels.placement.problem import Ints
from fogmodels.placement.vectors import VectorSpace

# Primes under 2**61: the sum of two residues still fits 64 bits.
_PRIMES = (2305843009213693951, 2305843009213693921, 2305843009213693907, 2305843009213693723)
_MOST_STEPS = 3e10

_Shifts = list[tuple[int, Ints]]


class TooLarge(ValueError):  # noqa: N818 - reads as the sentence it is
    """The problem is beyond an exact method's reach; the sentence says by how much and what to do."""


def count_within(space: VectorSpace, ranks: Ints) -> int:
    """Number of plans all of whose workers have loads of at most these ranks.

    Plans that differ only by interchangeable workers are one plan, so the count is the coefficient of
    z^workers x^parallelism in the product over vectors v of 1 / (1 - z x^v), class by class.
    """
    shifts = [(len(c.members), c.steps[(c.ranks <= ranks).all(axis=1)]) for c in space.classes]
    work = sum(float(members) * len(steps) * space.states for members, steps in shifts)
    if work > _MOST_STEPS:
        raise TooLarge(
            f"counting plans of {space.problem.tasks} tasks on {len(space.problem.workers)} workers would "
            f"take {work:.0e} steps; tighter limits or fewer tasks make it possible"
        )
    rough = _coefficient(space, shifts, None)
    residue, modulus = int(_coefficient(space, shifts, 0)), 2**64
    for prime in _PRIMES:
        if rough < modulus / 4:  # the rough number is right to many digits, so the residue is the count
            return residue
        other = int(_coefficient(space, shifts, prime))
        residue += modulus * ((other - residue) * pow(modulus, -1, prime) % prime)
        modulus *= prime
    if rough < modulus / 4:
        return residue
    raise TooLarge(f"there are about {rough:.0e} plans; exact counting stops at 1e92")


def _coefficient(space: VectorSpace, shifts: _Shifts, prime: int | None) -> float | int:
    """The count in floating point (prime None), modulo 2**64 (prime 0) or modulo a prime."""
    extent = space.extent
    ways = np.zeros([n + 1 for n in extent], dtype=np.float64 if prime is None else np.uint64)
    ways[(0,) * len(extent)] = 1
    for members, steps in shifts:
        layers = [ways, *(np.zeros_like(ways) for _ in range(members))]
        for step in steps.tolist():
            target = tuple(slice(n, None) for n in step)
            source = tuple(slice(None, most + 1 - n) for n, most in zip(step, extent, strict=True))
            for k in range(1, members + 1):
                into = layers[k][target]
                np.add(into, layers[k - 1][source], out=into)
                if prime:
                    np.remainder(into, np.uint64(prime), out=into)
        ways = layers[members]
    # Every operator must be placed completely; any number of moves up to the most is fine.
    full = (-1,) * (len(extent) - space.limits_moves)
    last = np.atleast_1d(ways[full])
    if prime is None:
        return float(last.sum())
    return sum(int(x) for x in last) % (prime or 2**64)
