"""The best parallelism under a budget of tasks (StreamBed's BIDS2), exactly and without a solver."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from fogmodels.checks import finite, finite_vector, whole

# Flink reports busy milliseconds per second: nothing below one in a thousand can be seen.
BUSYNESS_RESOLUTION = 0.001


@dataclass(frozen=True, slots=True)
class Parallelism:
    """Tasks per operator, in the order the operators were given, and the source rate they sustain."""

    tasks: tuple[int, ...]
    source_rate: float

    @property
    def total(self) -> int:
        """All tasks together; less than the budget where more tasks would not raise the rate."""
        return sum(self.tasks)


def true_rate(rate: float, busyness: float, resolution: float = BUSYNESS_RESOLUTION) -> float:
    """The rate one task would process if it were always busy: rate / busyness (StreamBed, section 5).

    A task cannot be busier than always, so busyness above 1 (an artefact of how windows are averaged)
    counts as 1. Busyness below what can be measured counts as `resolution`: the answer is then a
    lower bound, which errs towards more tasks. A task that processed nothing promises nothing: 0.
    """
    rate = finite("rate", rate, at_least=0.0)
    busyness = finite("busyness", busyness, at_least=0.0)
    resolution = finite("resolution", resolution, above=0.0)
    if resolution > 1.0:
        raise ValueError(f"resolution must be at most 1, not {resolution:g}.")
    return rate / min(max(busyness, resolution), 1.0)


def best_parallelism(true_rates: Sequence[float], ratios: Sequence[float], budget: int) -> Parallelism:
    """Tasks per operator that sustain the highest source rate within `budget` tasks (StreamBed, eq. 1-4).

    `true_rates[i]` is what one task of operator i can process, `ratios[i]` its input rate over the
    source's rate. The source rate is min over i of tasks[i] * true_rates[i] / ratios[i]; every operator
    gets at least one task. Of all vectors that reach the optimum the one with the fewest tasks is
    returned; it is unique, and the paper's "exactly the budget" is met whenever each task is of use.
    An operator with ratio 0 sees no input and keeps its one task.

    The result is exact for the given numbers: comparisons are made on fractions, not on rounded floats.
    """
    rates = finite_vector("true_rates", true_rates)
    shares = finite_vector("ratios", ratios)
    if len(rates) != len(shares):
        raise ValueError(f"true_rates has {len(rates)} entries but ratios has {len(shares)}.")
    for position, (rate, share) in enumerate(zip(rates, shares, strict=True)):
        if share < 0:
            raise ValueError(f"ratios[{position}] must not be negative, not {share:g}.")
        if rate < 0 or (rate == 0 and share > 0):
            raise ValueError(f"true_rates[{position}] must be positive, not {rate:g}.")
    budget = whole("budget", budget)
    if budget < len(rates):
        raise ValueError(f"budget is {budget} but {len(rates)} operators need at least one task each.")

    fed = [i for i, share in enumerate(shares) if share > 0]
    if not fed:
        raise ValueError("ratios are all zero, so the source rate has no bound.")
    # The source rate that one task of operator i allows.
    unit = [Fraction(rates[i]) / Fraction(shares[i]) for i in fed]
    tasks, optimum = _fill(unit, budget - (len(rates) - len(fed)))

    everyone = [1] * len(rates)
    for i, count in zip(fed, tasks, strict=True):
        everyone[i] = count
    return Parallelism(tuple(everyone), _as_float(optimum))


def _fill(unit: Sequence[Fraction], budget: int) -> tuple[list[int], Fraction]:
    """The least vector that reaches the highest min_i tasks[i] * unit[i], and that minimum.

    Giving each task to the current bottleneck is optimal. It starts not from one task each but from
    a vector that is certainly no larger than the answer, so about two steps an operator remain.
    """
    tasks = _safe_start(unit, budget)
    queue = [(count * one, i) for i, (count, one) in enumerate(zip(tasks, unit, strict=True))]
    heapq.heapify(queue)
    optimum = queue[0][0]
    for _ in range(budget - sum(tasks)):
        _, i = queue[0]
        tasks[i] += 1
        heapq.heapreplace(queue, (tasks[i] * unit[i], i))
        optimum = queue[0][0]
    # The last tasks may have gone to some of several equal bottlenecks without lifting them all.
    return [max(1, math.ceil(optimum / one)) for one in unit], optimum


def _safe_start(unit: Sequence[Fraction], budget: int) -> list[int]:
    """A vector that is nowhere above the optimal one.

    If sum_i max(1, rate / unit[i]) <= budget - operators, then rounding every term up still fits the
    budget, so that rate is reachable and every optimal vector has at least floor(rate / unit[i]) tasks.
    """
    spendable = budget - len(unit)
    rough = [_rough(one) for one in unit]
    if spendable <= len(unit) or min(rough) in (0.0, math.inf):
        return [1] * len(unit)
    # From the slowest operator to the fastest; the first ones need more than one task, the rest one each.
    demand = rate = 0.0
    for k, one in enumerate(sorted(rough)):
        if 0.0 < rate <= one:
            break
        demand += 1 / one
        rate = (spendable - (len(unit) - k - 1)) / demand
    rate *= 1 - (len(unit) + 8) * 2**-51  # four times what these sums and quotients can have rounded up
    return [max(1, math.floor(rate / one)) for one in rough]


def _rough(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _as_float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        raise ValueError("the source rate is too large for a float: check the units of the rates.") from None
