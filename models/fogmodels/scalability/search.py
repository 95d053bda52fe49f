"""Resource demand and load capacity: which experiments to run, and how few suffice.

Demand of a load: the least resources that sustain it; capacity of resources: the greatest load they
sustain (Henning and Hasselbring's metrics, Theodolite thesis section 2.9). Every strategy but `full`
takes for granted that more resources never hurt; the lower-bound restriction, that a larger load never
needs fewer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real
from types import MappingProxyType
from typing import Literal

Strategy = Literal["full", "linear", "binary", "guided"]
Sustains = Callable[[float, float], bool]
"""(load, resources) -> whether the objective was met: one experiment."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment that was run."""

    load: float
    resources: float
    sustained: bool


@dataclass(frozen=True, slots=True)
class Search:
    """The metric as a mapping (None: nothing on offer suffices) and the experiments it took, in order."""

    answers: Mapping[float, float | None]
    experiments: tuple[Experiment, ...]

    @property
    def count(self) -> int:
        """How many experiments were run, repetitions included."""
        return len(self.experiments)


def resource_demand(
    loads: Sequence[float],
    resources: Sequence[float],
    sustains: Sustains,
    *,
    strategy: Strategy = "linear",
    lower_bound: bool = True,
    guess: Callable[[float], float | None] | None = None,
    repetitions: int = 1,
) -> Search:
    """For each load the least of `resources` that sustains it.

    `linear` goes up from the smallest, `binary` halves, `guided` starts at `guess(load)` (a throughput
    model's answer, say; None: more than there is) and walks from there in doubling steps. `lower_bound`
    starts each load at the demand of the load before. `repetitions`: a majority of them decides.
    """
    lab = _Lab(sustains, repetitions)
    return _search(
        _ascending("loads", loads),
        _ascending("resources", resources),
        lambda load, amount: lab.run(load, amount),
        lab,
        strategy,
        lower_bound,
        guess,
        capacity=False,
    )


def load_capacity(
    loads: Sequence[float],
    resources: Sequence[float],
    sustains: Sustains,
    *,
    strategy: Strategy = "linear",
    lower_bound: bool = True,
    guess: Callable[[float], float | None] | None = None,
    repetitions: int = 1,
) -> Search:
    """For each amount of `resources` the greatest of `loads` it sustains; `guess(resources)` is a load.

    `linear` raises the load until it is too much; `lower_bound` starts above the capacity of the amount
    before.
    """
    lab = _Lab(sustains, repetitions)
    return _search(
        _ascending("resources", resources),
        _ascending("loads", loads),
        lambda amount, load: not lab.run(load, amount),
        lab,
        strategy,
        lower_bound,
        guess,
        capacity=True,
    )


class _Lab:
    """Runs experiments, never the same one twice, and keeps the record."""

    def __init__(self, sustains: Sustains, repetitions: int) -> None:
        if isinstance(repetitions, bool) or not isinstance(repetitions, int) or repetitions < 1:
            raise ValueError(f"repetitions must be a whole number of at least 1, not {repetitions!r}.")
        self._sustains = sustains
        self._repetitions = repetitions
        self._known: dict[tuple[float, float], bool] = {}
        self.experiments: list[Experiment] = []

    def run(self, load: float, resources: float) -> bool:
        key = (load, resources)
        if key not in self._known:
            votes = [bool(self._sustains(load, resources)) for _ in range(self._repetitions)]
            self.experiments += [Experiment(load, resources, vote) for vote in votes]
            self._known[key] = 2 * sum(votes) > len(votes)
        return self._known[key]


def _search(
    given: tuple[float, ...],
    choices: tuple[float, ...],
    turned: Callable[[float, float], bool],
    lab: _Lab,
    strategy: Strategy,
    lower_bound: bool,
    guess: Callable[[float], float | None] | None,
    *,
    capacity: bool,
) -> Search:
    """For each given value the first choice at which `turned` holds (for capacity, the one before it)."""
    if strategy not in ("full", "linear", "binary", "guided"):
        raise ValueError(f'strategy must be "full", "linear", "binary" or "guided", not {strategy!r}.')
    if (strategy == "guided") != (guess is not None):
        raise ValueError('guess belongs to strategy "guided", which needs it.')
    answers: dict[float, float | None] = {}
    low = 0
    for value in given:
        test = _at(turned, value, choices)
        if strategy == "full":
            turn = _full(test, len(choices), capacity=capacity)
        elif strategy == "linear":
            turn = next((i for i in range(low, len(choices)) if test(i)), len(choices))
        elif strategy == "binary":
            turn = _between(test, low - 1, len(choices))
        else:
            assert guess is not None
            turn = _guided(test, low, len(choices), _place(guess(value), choices, capacity=capacity))
        found = turn - 1 if capacity else turn
        answers[value] = choices[found] if 0 <= found < len(choices) else None
        low = turn if lower_bound and strategy != "full" else 0
    return Search(MappingProxyType(answers), tuple(lab.experiments))


def _at(
    turned: Callable[[float, float], bool], value: float, choices: tuple[float, ...]
) -> Callable[[int], bool]:
    return lambda i: turned(value, choices[i])


def _full(test: Callable[[int], bool], count: int, *, capacity: bool) -> int:
    """Everything is tried. Capacity: after the last load sustained; demand: the first that suffices."""
    results = [test(i) for i in range(count)]
    if capacity:
        return max((i + 1 for i, turned in enumerate(results) if not turned), default=0)
    return next((i for i, turned in enumerate(results) if turned), count)


def _between(test: Callable[[int], bool], before: int, after: int) -> int:
    """The turn in (before, after], where `before` is known not turned and `after` is known (or beyond)."""
    while after - before > 1:
        middle = (before + after) // 2
        if test(middle):
            after = middle
        else:
            before = middle
    return after


def _guided(test: Callable[[int], bool], low: int, count: int, start: int) -> int:
    """From `start` in doubling steps until the turn is enclosed, then halving: a right guess takes 2."""
    if low >= count:
        return count
    here = min(max(start, low), count - 1)
    step = 1
    if test(here):
        while here > low:
            below = max(low, here - step)
            if not test(below):
                return _between(test, below, here)
            here, step = below, 2 * step
        return here
    while here < count - 1:
        above = min(count - 1, here + step)
        if test(above):
            return _between(test, here, above)
        here, step = above, 2 * step
    return count


def _place(guess: float | None, choices: tuple[float, ...], *, capacity: bool) -> int:
    """Where the turn is expected: the first choice that is enough, or the first load that is too much."""
    if guess is None:
        return len(choices)
    if not math.isfinite(guess):
        raise ValueError(f"guess must give a finite number or None, not {guess}.")
    beyond = (c > guess if capacity else c >= guess for c in choices)
    return next((i for i, is_beyond in enumerate(beyond) if is_beyond), len(choices))


def _ascending(name: str, values: Sequence[float]) -> tuple[float, ...]:
    found = tuple(values)
    if not found:
        raise ValueError(f"{name} must not be empty.")
    for value in found:
        number = isinstance(value, Real) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or value <= 0:
            raise ValueError(f"{name} must be positive finite numbers, not {value!r}.")
    if any(b <= a for a, b in pairwise(found)):
        raise ValueError(f"{name} must ascend.")
    return found
