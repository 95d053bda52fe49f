"""How many slots for a rate: the chosen regression, what else the data allow, and an interval over both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from fogmodels.capacity.regression import (
    FAMILIES,
    Family,
    Observation,
    Regression,
    Vector,
    feature_rank,
    leave_one_out,
    observed,
    regress,
)
from fogmodels.checks import finite, whole

HEADROOM = 0.10
CONFIDENCE = 0.90
MAX_SLOTS = 5000
SLOTS_LIMIT = 1_000_000

# A family is ruled out when its leave-one-out errors are worse than the best one's at this confidence.
RULED_OUT_AT = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """Lower and upper bound of a throughput, in the unit of the observations."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class SlotsInterval:
    """Fewest and most task slots that a rate may need; None: not reached within the limit asked for."""

    low: int | None
    high: int | None


@dataclass(frozen=True, slots=True, eq=False)
class CapacityModel:
    """Throughput as a function of task slots and memory (StreamBed, section 6)."""

    observations: tuple[Observation, ...]
    family: Family
    regressions: dict[Family, Regression]
    errors: dict[Family, float]
    plausible: tuple[Family, ...]
    verdict: str

    @property
    def decided(self) -> bool:
        """Whether the data rule out all families but one."""
        return len(self.plausible) == 1

    @property
    def coefficients(self) -> tuple[float, float, float]:
        """a (memory), b (task slots) and c (intercept) of the chosen family, as in the paper's Table 4."""
        chosen = self.regressions[self.family]
        return chosen.a, chosen.b, chosen.c

    def mst(self, task_slots: float, memory_mb: float | None = None) -> float:
        """The throughput expected of the chosen family; never below zero."""
        slots = finite("task_slots", task_slots, above=0.0)
        return max(0.0, float(self.regressions[self.family].mst(slots, self._memory(memory_mb))))

    def interval(
        self, task_slots: float, memory_mb: float | None = None, confidence: float = CONFIDENCE
    ) -> Interval:
        """Where one new measurement would fall: the union of the plausible families' intervals."""
        slots = finite("task_slots", task_slots, above=0.0)
        bounds = [
            _bounds(regression, slots, self._memory(memory_mb), confidence)
            for regression in self._considered()
        ]
        low = min(float(low) for low, _ in bounds)
        high = max(float(high) for _, high in bounds)
        return Interval(max(0.0, low), max(0.0, high))

    def slots_for(
        self,
        rate: float,
        memory_mb: float | None = None,
        *,
        headroom: float = HEADROOM,
        min_slots: int = 1,
        max_slots: int = MAX_SLOTS,
        family: Family | None = None,
    ) -> int | None:
        """The fewest slots predicted to sustain `rate` plus headroom; None if `max_slots` do not.

        The paper asks the model for 110 % of the requested rate and adds slots until it is reached.
        `family` answers with another of the three regressions, to see how much hangs on the choice.
        """
        wanted, slots = _question(rate, headroom, min_slots, max_slots)
        regression = self.regressions[_known(family) if family else self.family]
        return _first(slots, regression.mst(slots, self._memory(memory_mb)) >= wanted)

    def slots_interval(
        self,
        rate: float,
        memory_mb: float | None = None,
        *,
        headroom: float = HEADROOM,
        confidence: float = CONFIDENCE,
        min_slots: int = 1,
        max_slots: int = MAX_SLOTS,
    ) -> SlotsInterval:
        """From the fewest slots any plausible family hopes for to the most that any of them fears."""
        wanted, slots = _question(rate, headroom, min_slots, max_slots)
        memory = self._memory(memory_mb)
        hopes: list[int | None] = []
        fears: list[int | None] = []
        for regression in self._considered():
            low, high = _bounds(regression, slots, memory, confidence)
            # The upper bound also rises towards few slots, far below the data: only its last rise counts.
            short = np.flatnonzero(high < wanted)
            hopes.append(_at(slots, short[-1] + 1 if short.size else 0))
            fears.append(_first(slots, low >= wanted))
        hoped = [slots for slots in hopes if slots is not None]
        feared = [slots for slots in fears if slots is not None]
        return SlotsInterval(
            min(hoped) if hoped else None, max(feared) if len(feared) == len(fears) else None
        )

    def _considered(self) -> list[Regression]:
        names = self.plausible if self.family in self.plausible else (*self.plausible, self.family)
        return [self.regressions[name] for name in names]

    def _memory(self, memory_mb: float | None) -> float:
        seen = {row.memory_mb for row in self.observations}
        if memory_mb is None:
            if len(seen) > 1:
                raise ValueError("memory_mb is missing: the observations have more than one memory size.")
            return seen.pop()
        memory = finite("memory_mb", memory_mb, above=0.0)
        if len(seen) == 1 and memory not in seen:
            raise ValueError(
                f"memory_mb is {memory:g} but every observation has {seen.pop():g}: "
                "nothing is known about another memory size."
            )
        return memory


def fit_capacity(observations: Iterable[Observation], family: Family | None = None) -> CapacityModel:
    """Fit the three regressions and choose the one with the least leave-one-out mean absolute error.

    `family` fixes the choice. Whatever is chosen, `plausible` lists the families that the data cannot
    rule out; intervals cover them all, and `verdict` says so in a sentence.
    """
    rows = observed(observations)
    _require_teachable(rows)
    misses = {name: np.abs(leave_one_out(rows, name)) for name in FAMILIES}
    errors = {name: float(misses[name].mean()) for name in FAMILIES}
    # Families that differ by rounding alone are equal; the order of FAMILIES settles it.
    least = min(errors.values())
    scale = max(row.mst for row in rows)
    best = next(name for name in FAMILIES if errors[name] <= least + 1e-9 * scale)
    plausible = tuple(
        name for name in FAMILIES if not _ruled_out(misses[name], misses[best], rows, 1e-9 * scale)
    )
    chosen = best if family is None else _known(family)
    regressions = {name: regress(rows, name) for name in FAMILIES}
    verdict = _verdict(rows, chosen, regressions, errors, plausible)
    return CapacityModel(rows, chosen, regressions, errors, plausible, verdict)


def _require_teachable(rows: tuple[Observation, ...]) -> None:
    """Refuse observations from which the effect of slots cannot be learnt at all."""
    if len({row.task_slots for row in rows}) < 2:
        raise ValueError(
            f"every observation has {rows[0].task_slots} task slots: measure at least two sizes."
        )
    memories = {row.memory_mb for row in rows}
    needed = 3 if len(memories) == 1 else 4
    if len(rows) < needed:
        raise ValueError(
            f"{len(rows)} observations are too few: {needed} are needed "
            f"{'with one memory size' if needed == 3 else 'when memory varies'}."
        )
    if len(memories) > 1 and feature_rank(rows) < 2:
        raise ValueError(
            "task_slots and memory_mb change together in the observations, "
            "so their effects cannot be told apart: vary one with the other held."
        )


def _ruled_out(misses: Vector, best: Vector, rows: tuple[Observation, ...], rounding: float) -> bool:
    """Whether a family's leave-one-out errors are clearly worse than the best one's (paired, one-sided t)."""
    if len({row.task_slots for row in rows}) < 3:
        return False  # any curve passes through two points
    worse = misses - best
    if worse.mean() <= rounding:
        return False
    standard_error = float(worse.std(ddof=1)) / np.sqrt(len(rows))
    return bool(worse.mean() > special.stdtrit(len(rows) - 1, RULED_OUT_AT) * standard_error)


def _verdict(
    rows: tuple[Observation, ...],
    chosen: Family,
    regressions: dict[Family, Regression],
    errors: dict[Family, float],
    plausible: tuple[Family, ...],
) -> str:
    scores = ", ".join(f"{name} {errors[name]:.4g}" for name in FAMILIES)
    if regressions[chosen].b <= 0:
        return f"Throughput does not grow with task slots in these observations ({chosen} regression)."
    if len(plausible) == 1:
        text = f"The data point to {plausible[0]} scaling (leave-one-out errors: {scores})."
        if chosen != plausible[0]:
            text += f" The {chosen} regression asked for is not the one they support."
        return text
    names = " from ".join(plausible) if len(plausible) == 2 else "linear, sqrt and log apart"
    slot_counts = sorted({row.task_slots for row in rows})
    if len(slot_counts) == 2:
        reason = f"only {slot_counts[0]} and {slot_counts[1]} task slots were measured"
    else:
        reason = f"leave-one-out errors: {scores}"
    telling = _most_telling(rows, [regressions[name] for name in plausible])
    return (
        f"The data cannot tell {names} ({reason}), and far beyond {slot_counts[-1]} task slots the answer "
        f"hangs on it: use the interval, or measure at {telling} and above {slot_counts[-1]} slots."
    )


def _most_telling(rows: tuple[Observation, ...], regressions: list[Regression]) -> int:
    """The number of slots inside the measured range at which the regressions disagree most."""
    counts = [row.task_slots for row in rows]
    slots = np.unique(np.linspace(min(counts), max(counts), 200).round())
    memory = float(np.median([row.memory_mb for row in rows]))
    curves = np.array([regression.mst(slots, memory) for regression in regressions])
    return int(slots[np.argmax(np.ptp(curves, axis=0))])


def _bounds(regression: Regression, slots: Any, memory: float, confidence: float) -> tuple[Any, Any]:
    level = finite("confidence", confidence, above=0.0)
    if level >= 1:
        raise ValueError(f"confidence must be below 1, not {level:g}.")
    half = special.stdtrit(regression.degrees_of_freedom, 0.5 + level / 2)
    half = half * regression.prediction_sd(slots, memory)
    middle = regression.mst(slots, memory)
    return middle - half, middle + half


def _question(rate: float, headroom: float, min_slots: int, max_slots: int) -> tuple[float, Vector]:
    rate = finite("rate", rate, above=0.0)
    headroom = finite("headroom", headroom, at_least=0.0)
    least = whole("min_slots", min_slots)
    most = whole("max_slots", max_slots, at_least=least)
    if most > SLOTS_LIMIT:
        raise ValueError(f"max_slots must be at most {SLOTS_LIMIT}, not {most}.")
    # 10,000 * 1.1 is a hair above 11,000: rounding must not cost a slot.
    return rate * (1 + headroom) * (1 - 1e-9), np.arange(least, most + 1, dtype=float)


def _first(slots: Vector, enough: Any) -> int | None:
    hits = np.flatnonzero(enough)
    return int(slots[hits[0]]) if hits.size else None


def _at(slots: Vector, position: int) -> int | None:
    return int(slots[position]) if position < len(slots) else None


def _known(family: str) -> Family:
    for name in FAMILIES:
        if family == name:
            return name
    raise ValueError(f"family must be one of {', '.join(FAMILIES)}, not {family!r}.")
