"""StreamBed's Resource Explorer and Configuration Optimizer: which budgets to measure, how to spend each."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from fogmodels.capacity import (
    Observation,
    SearchSpace,
    StopRule,
    best_parallelism,
    best_score,
    next_measurement,
)

from fogctl.errors import REFUSED, FogError
from fogctl.planner.estimator import Estimate, Phases, RateSeen, estimate
from fogctl.planner.journal import Journal
from fogctl.planner.measure import Measure, Say

OVERLOAD = 1.5
"""A budget is warmed up with so many times what its single-task runs promise."""


class Lab(Protocol):
    """Where an app can be deployed as wanted."""

    @property
    def stages(self) -> tuple[str, ...]:
        """The app's stages."""
        ...

    def deployed(self, tasks: Mapping[str, int], memory_mb: float) -> AbstractContextManager[Measure]:
        """The app with so many tasks of each stage and so much memory for each, while the body lasts."""
        ...


@dataclass(frozen=True, slots=True)
class Profile:
    """What one task of each stage can do with some memory: the Configuration Optimizer's single-task run."""

    memory_mb: float
    mst: float
    error: float | None
    true_rates: tuple[float, ...]
    ratios: tuple[float, ...]
    """Each stage's input rate over that of the source."""

    def tasks(self, names: Sequence[str], budget: int) -> dict[str, int]:
        """The best way to spend a budget (BIDS2); of equals the one with the fewest tasks."""
        best = best_parallelism(list(self.true_rates), list(self.ratios), budget)
        return dict(zip(names, best.tasks, strict=True))


@dataclass(frozen=True, slots=True)
class Measured:
    """One budget that was measured."""

    task_slots: int
    memory_mb: float
    mst: float
    error: float | None
    tasks: dict[str, int]

    @property
    def observation(self) -> Observation:
        """As the capacity model takes it."""
        return Observation(self.task_slots, self.memory_mb, self.mst)


@dataclass(frozen=True, slots=True)
class Exploration:
    """What was found: budgets in the order they were measured, and the single-task runs."""

    measured: tuple[Measured, ...]
    profiles: tuple[Profile, ...]


@dataclass(frozen=True, slots=True)
class Cost:
    """What an exploration will take, before it starts."""

    least_runs: int
    most_runs: int
    least_s: float
    most_s: float
    slots: int
    """The most task slots in use at a time."""


def cost(space: SearchSpace, phases: Phases, stop: StopRule | None = None) -> Cost:
    """Runs: a single-task run for each memory size measured, then one for each budget."""
    stop = stop or StopRule()
    corners = len(space.corners())
    least = min(stop.most, corners + stop.beyond_corners + 1) + min(len(space.memory_mb), 2)
    most = stop.most + len(space.memory_mb)
    shortest = phases.warm_up_s + 2 * phases.trial_s
    return Cost(least, most, least * shortest, most * phases.most_s, space.task_slots[-1])


def explore(
    lab: Lab,
    space: SearchSpace,
    first_rate_per_s: float,
    journal: Journal,
    *,
    asked: Mapping[str, Any],
    phases: Phases | None = None,
    stop: StopRule | None = None,
    on_measured: Callable[[Exploration], None] = lambda _: None,
    say: Say = lambda _: None,
) -> Exploration:
    """Measure budgets, corners first and then where it teaches most, until the stop rule says enough.

    `first_rate_per_s` overloads one task of each stage. Every trial goes to the journal, so a run that is
    stopped goes on where it was. `asked` names what is measured, in the journal's first line. After each
    budget `on_measured` is given all that is known.
    """
    phases, stop = phases or Phases(), stop or StopRule()
    if space.task_slots[0] < len(lab.stages):
        raise FogError(
            f"a budget of {space.task_slots[0]} slots is too small for {len(lab.stages)} stages",
            hint="each stage needs a task",
        )
    question = {**asked, "space": asdict(space), "phases": asdict(phases), "first_rate": first_rate_per_s}
    past = _Past(journal.open_for(question))
    profiles: dict[float, Profile] = {}
    measured: list[Measured] = []
    steps = itertools.count(1)

    def estimated(tasks: Mapping[str, int], memory_mb: float, rate: float) -> Estimate:
        # What is measured next follows from what was measured before, so the steps of a run that goes on are
        # those it had.
        key = {"step": next(steps), "tasks": dict(tasks), "memory_mb": memory_mb}
        if (finished := past.estimate(key)) is not None:
            return finished
        with lab.deployed(tasks, memory_mb) as measure:
            known = past.trials(key)
            found = estimate(measure, rate, phases, known=known, on_trial=_noting(journal, key), say=say)
        journal.add({**key, "mst": found.mst, "lower": found.lower, "upper": found.upper})
        return found

    while (wanted := next_measurement(space, [each.observation for each in measured], stop)) is not None:
        single = dict.fromkeys(lab.stages, 1)
        if (profile := profiles.get(wanted.memory_mb)) is None:
            say(f"one task of each stage with {wanted.memory_mb:g} MB")
            profile = _profile(wanted.memory_mb, estimated(single, wanted.memory_mb, first_rate_per_s))
            profiles[wanted.memory_mb] = profile
        tasks = profile.tasks(lab.stages, wanted.task_slots)
        say(f"{wanted.task_slots} slots with {wanted.memory_mb:g} MB: {_spread(tasks)}")
        if tasks == single:  # that is what has been measured
            mst, error = profile.mst, profile.error
        else:
            hoped = best_parallelism(list(profile.true_rates), list(profile.ratios), wanted.task_slots)
            found = estimated(tasks, wanted.memory_mb, OVERLOAD * hoped.source_rate)
            mst, error = found.mst, found.error
        measured.append(Measured(wanted.task_slots, wanted.memory_mb, mst, error, tasks))
        on_measured(Exploration(tuple(measured), tuple(profiles.values())))
        score = best_score([each.observation for each in measured])
        say(f"{len(measured)} budgets" + ("" if score is None else f", leave-one-out error {score:,.3g}"))
    return Exploration(tuple(measured), tuple(profiles.values()))


def _spread(tasks: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in tasks.items())


def _profile(memory_mb: float, single: Estimate) -> Profile:
    """True rates of one task of each stage, from the window of the highest rate it sustained."""
    if not single.stages or single.mst <= 0 or any(stage.busyness <= 0 for stage in single.stages):
        raise FogError(
            f"one task of each stage with {memory_mb:g} MB sustains nothing that could be measured",
            hint="give it more memory, or a lower first rate",
            exit_code=REFUSED,
        )
    source = single.stages[0].rate_per_s
    return Profile(
        memory_mb,
        single.mst,
        single.error,
        tuple(stage.true_rate_per_s for stage in single.stages),
        tuple(stage.rate_per_s / source for stage in single.stages),
    )


def _noting(journal: Journal, key: Mapping[str, Any]) -> Callable[[RateSeen], None]:
    return lambda trial: journal.add({**key, "trial": asdict(trial)})


class _Past:
    """What a journal knows of runs that were measured before."""

    def __init__(self, lines: Sequence[Mapping[str, Any]]) -> None:
        self._lines = lines

    def _of(self, key: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        return [line for line in self._lines if all(line.get(name) == key[name] for name in key)]

    def trials(self, key: Mapping[str, Any]) -> list[RateSeen]:
        """The trials of a run, also of one that was stopped."""
        return [RateSeen.read(line["trial"]) for line in self._of(key) if "trial" in line]

    def estimate(self, key: Mapping[str, Any]) -> Estimate | None:
        """What came of a run that reached its end."""
        for line in self._of(key):
            if "mst" in line:
                return Estimate(line["mst"], line["lower"], line["upper"], tuple(self.trials(key)))
        return None
