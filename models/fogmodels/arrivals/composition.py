"""A Kronecker composition as numbers: strengths, decays and shapes, and the space a fit searches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fogmodels.arrivals.components import Pair, compose, correlated_map2, renewal_base

Vector = NDArray[np.float64]

MOST_COMPONENTS = 3

_PHASES_ALONE = 64
_PHASES_COMPOSED = 24
_KAPPA = (1.02, 21.0)


@dataclass(frozen=True, slots=True, eq=False)
class Composition:
    """Correlated MAP(2)s of strengths a_j, per-arrival decays g_j and shapes, on a renewal base.

    With means 1 and reduced moments m_k = E[X^k]/k!, which multiply under composition:
    m_2 = b prod_j (1 + a_j), where b belongs to the base, and 1 + SCV acf(k) = prod_j (1 + a_j g_j^k).
    """

    base: float
    base_kappa: float
    strengths: Vector
    decays: Vector
    kappas: Vector

    @property
    def third(self) -> float:
        """E[X^3], for a base of two branches or one."""
        m2 = self.base * float(np.prod(1 + self.strengths))
        shape = self.base_kappa if self.base > 1 else 1.0
        return 6 * shape * float(np.prod(self.kappas)) * m2 * m2

    def dispersion(self, scv: float, blocks: Vector) -> Vector:
        """Index of dispersion for intervals over the given block lengths, in closed form."""
        terms = [(1.0, 1.0)]
        for strength, decay in zip(self.strengths, self.decays, strict=True):
            terms += [(s * float(strength), d * float(decay)) for s, d in terms]
        total = np.full(blocks.size, max(scv, 1e-6))
        for strength, decay in terms[1:]:
            # sum_{i<k} (1 - i/k) g^i, for each geometric term of the expanded product
            gap = 1.0 - decay
            powers = np.exp(blocks * np.log(decay))
            total += 2 * strength * (decay / gap - decay * (1 - powers) / (blocks * gap * gap))
        return total

    def matrices(self) -> Pair:
        """(D0, D1) with mean 1."""
        most = _PHASES_COMPOSED if self.strengths.size else _PHASES_ALONE
        parts = [
            correlated_map2(float(a), float(g), float(k))
            for a, g, k in zip(self.strengths, self.decays, self.kappas, strict=True)
        ]
        return compose(renewal_base(self.base, self.base_kappa, most), parts)


def most_components(scv: float) -> int:
    """How many correlated factors fit on a base for this SCV without too many phases."""
    if scv < 1.5 / _PHASES_COMPOSED:
        return 0
    if scv < 1:
        return 1 if scv < 0.5 else 2
    return MOST_COMPONENTS


def _room(scv: float) -> float:
    """Log of the reduced second moment left to correlated factors: half of a small SCV, most of a large."""
    phases = 2.0 if scv >= 1 else 4.0
    if scv < 0.5:
        phases = min(max(6.0, float(np.ceil(2 / scv))), float(_PHASES_COMPOSED))
    return float(np.log((1 + scv) / (1 + 1 / phases)))


@dataclass(frozen=True, slots=True)
class Parameters:
    """The unconstrained coordinates of compositions with this many factors and this SCV.

    A vector holds log weights (how the room above the base is shared), log time constants in
    arrivals, and log(kappa - 1) of each factor and last of the base. Any vector within the bounds
    is a valid process with exactly this SCV, and no time constant exceeds `longest`: the lag decay
    is capped by what the window can show.
    """

    components: int
    scv: float
    longest: float

    @property
    def first(self) -> Vector:
        """Where a fit starts: time constants spread evenly, the slowest factor the least skewed."""
        n = self.components
        taus = np.geomspace(2.0, max(self.longest / 2, 4.0), n + 2)[1:-1]
        kappas = np.full(n, np.log(0.5))
        kappas[-1:] = np.log(0.1)
        return np.concatenate([np.full(n, -1.0), np.log(taus), kappas, [np.log(0.5)]])

    @property
    def low(self) -> Vector:
        """Lower bounds."""
        n = self.components
        return np.concatenate(
            [np.full(n, -7.0), np.full(n, np.log(0.3)), np.full(n + 1, np.log(_KAPPA[0] - 1))]
        )

    @property
    def high(self) -> Vector:
        """Upper bounds."""
        n = self.components
        slowest = np.log(max(self.longest, 4.0))
        return np.concatenate([np.full(n, 5.0), np.full(n, slowest), np.full(n + 1, np.log(_KAPPA[1] - 1))])

    def composition(self, x: Vector) -> Composition:
        """The composition at a point."""
        n = self.components
        room = _room(self.scv) if n else 0.0
        weights = np.exp(x[:n])
        used = room * weights / (1 + weights.sum())
        kappas = 1 + np.exp(x[2 * n :])
        return Composition(
            base=(1 + self.scv) / 2 * float(np.exp(-used.sum())),
            base_kappa=float(kappas[-1]),
            strengths=np.expm1(used),
            decays=np.exp(-1 / np.exp(x[n : 2 * n])),
            kappas=kappas[:-1],
        )

    def pack(self, made: Composition) -> Vector:
        """The point of a composition."""
        n = self.components
        x = self.first
        if n:
            used = np.log1p(made.strengths)
            left = _room(self.scv) - used.sum()
            x[:n] = np.log(used / left)
            x[n : 2 * n] = np.log(-1 / np.log(made.decays))
            # The slowest factor starts as the least skewed: it then means long, mild overloads.
            x[2 * n : 3 * n] = np.log(0.5)
            x[2 * n + int(np.argmax(made.decays))] = np.log(0.1)
        return np.clip(x, self.low, self.high)
