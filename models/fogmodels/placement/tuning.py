"""Thresholds: what a user sets, and auto-tuning (CAPSys section 5.2) without its rounding and zero traps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fogmodels.placement.costs import Scale
from fogmodels.placement.exact import Solver
from fogmodels.placement.problem import Floats, Problem

RELAXATION = 1.1
"""The paper's factor by which all thresholds grow together."""
FLOOR = 0.01
"""Where relaxing starts for thresholds below it: 0 times anything stays 0."""

_NAMES = ("cpu", "io", "net", "latency")


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest cost allowed per dimension (thresholds α, 0 to 1; inf: no limit).

    From `tune`: `minimum` is the least threshold of each dimension alone (phase 1), `minimum_bound` what is
    proven of it, `steps` how often all were relaxed by 1.1 together (phase 2), `exact` whether `minimum`
    is proven and no smaller number of steps has a plan.
    """

    cpu: float = math.inf
    io: float = math.inf
    net: float = math.inf
    latency: float = math.inf
    minimum: dict[str, float] = field(default_factory=dict, compare=False)
    minimum_bound: dict[str, float] = field(default_factory=dict, compare=False)
    steps: int = field(default=0, compare=False)
    exact: bool = field(default=True, compare=False)

    def __post_init__(self) -> None:
        for name in _NAMES:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
                raise ValueError(f"limit {name}: {value!r} is not a number")
            if math.isnan(value) or value < 0:
                raise ValueError(f"limit {name}: must be 0 or more, not {value}")

    @classmethod
    def of(cls, limits: Limits | Mapping[str, float] | Sequence[float]) -> Limits:
        """Limits from a mapping by dimension, or a sequence in the order cpu, io, net, latency."""
        if isinstance(limits, Limits):
            return limits
        if isinstance(limits, Mapping):
            unknown = [key for key in limits if key not in _NAMES]
            if unknown:
                raise ValueError(f"limit {unknown[0]}: unknown dimension (known: {', '.join(_NAMES)})")
            limits = [limits.get(name, math.inf) for name in _NAMES]
        if len(limits) > len(_NAMES):
            raise ValueError(f"limits: {len(limits)} values, but the dimensions are {', '.join(_NAMES)}")
        given = [*limits, *[math.inf] * (len(_NAMES) - len(limits))]
        return cls(given[0], given[1], given[2], given[3])

    def __getitem__(self, name: str) -> float:
        if name not in _NAMES:
            raise KeyError(name)
        return float(getattr(self, name))

    @property
    def limited(self) -> tuple[str, ...]:
        """The dimensions that have a limit."""
        return tuple(name for name in _NAMES if not math.isinf(getattr(self, name)))

    def keys(self) -> Iterator[str]:
        """The limited dimensions, so that `dict(limits)` works."""
        return iter(self.limited)

    def vector(self, problem: Problem) -> Floats:
        """Thresholds in the order of the problem's dimensions."""
        if problem.rtt_ms is None and not math.isinf(self.latency):
            raise ValueError("limit latency: the problem has no rtt_ms, so it has no latency cost")
        return np.array([getattr(self, name) for name in problem.dimensions], dtype=float)


def tuned(problem: Problem, solver: Solver) -> Limits:
    """Phase 1: the least threshold of each dimension alone. Phase 2: relax all until a plan exists.

    Thresholds are never rounded. From the first step of phase 2 on, each starts at 0.01 at least, and none
    grows above 1 (Eq. 9), where every plan fits.
    """
    scale, dims = Scale.of(problem), problem.dimensions
    least = [solver.least_load(d) for d in range(len(dims))]
    minimum = scale.costs(np.array([found for found, _ in least]))
    proven = scale.costs(np.array([bound for _, bound in least]))
    steps, certain = _steps(solver, minimum)
    alpha = relaxed(minimum, steps)
    return Limits(
        cpu=float(alpha[0]),
        io=float(alpha[1]),
        net=float(alpha[2]),
        latency=float(alpha[3]) if len(alpha) > 3 else math.inf,
        minimum=dict(zip(dims, map(float, minimum), strict=True)),
        minimum_bound=dict(zip(dims, map(float, proven), strict=True)),
        steps=steps,
        exact=certain and bool((minimum - proven <= 1e-9).all()),
    )


def relaxed(minimum: Floats, steps: int) -> Floats:
    """The thresholds after so many steps of phase 2."""
    return minimum if steps == 0 else np.minimum(1.0, np.maximum(minimum, FLOOR) * RELAXATION**steps)


def _steps(solver: Solver, minimum: Floats) -> tuple[int, bool]:
    """The least number of steps with a plan (found by bisection), and whether it is proven least."""
    if solver.feasible(minimum):
        return 0, True
    low, high = 0, math.ceil(math.log(1 / FLOOR) / math.log(RELAXATION))
    while high - low > 1:  # a plan exists at high, none was found at low
        # Steps are few in practice: look near the low end first.
        middle = low + max(1, min((high - low) // 2, 1 << low.bit_length()))
        if solver.feasible(relaxed(minimum, middle)):
            high = middle
        else:
            low = middle
    return high, solver.feasible(relaxed(minimum, high - 1)) is False
