"""Experiments in the order of a strategy, each kept as soon as it is made; and what they add up to."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Protocol, get_args

from fogmodels.scalability import Search, load_capacity, resource_demand
from fogmodels.scalability import Strategy as AnyStrategy

from fogctl.bench.bench_file import ExecutionFile, Metric, Strategy
from fogctl.bench.guess import InProportion
from fogctl.bench.load import Case
from fogctl.bench.objectives import judge
from fogctl.errors import REFUSED, FogError
from fogctl.planner.journal import Journal
from fogctl.planner.measure import Say, Window


class Subject(Protocol):
    """What experiments are made with; simulated or real."""

    def experiment(
        self, load: float, resources: int, repetition: int, warm_up_s: float, duration_s: float
    ) -> Window:
        """Deploy on so many resources, load it, warm up, and say what was seen."""
        ...


@dataclass(frozen=True, slots=True)
class Made:
    """One experiment that was made."""

    load: float
    resources: int
    repetition: int
    sustained: bool
    reasons: tuple[str, ...]
    seen: Mapping[str, Any] | None = None
    """The window that was judged, as plain data: rates, and the lag sample by sample."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The metric at each load (or amount of resources), and the experiments it took."""

    metric: Metric
    answers: Mapping[float, float | None]
    experiments: tuple[Made, ...]
    needed: Mapping[str, int]
    """Experiments that each strategy needs for these answers, repetitions included."""

    @property
    def slope(self) -> float | None:
        """The linear lower bound through the origin: no load got by with less a unit (more, for capacity)."""
        known = [(at, answer) for at, answer in self.answers.items() if answer]
        if not known:
            return None
        shares = [answer / at for at, answer in known]
        return min(shares) if self.metric is Metric.demand else max(shares)


def run(case: Case, subject: Subject, journal: Journal, *, say: Say = lambda _: None) -> Outcome:
    """Make the experiments that the strategy asks for and the journal does not have yet."""
    found = {
        (made.load, made.resources, made.repetition): made
        for made in (_made(journal, *line) for line in enumerate(journal.open_for(case.asked), start=2))
    }
    asked: Counter[tuple[float, float]] = Counter()
    done: list[Made] = []

    def sustains(load: float, resources: float) -> bool:
        repetition = asked[load, resources]
        asked[load, resources] += 1
        key = (load, int(resources), repetition)
        if key not in found:
            made = make(case, subject, *key)
            journal.add(asdict(made))
            word = "sustained" if made.sustained else "not sustained"
            say(f"{len(done) + 1}: load {load:g} on {resources:g}: {word} ({'; '.join(made.reasons)})")
            found[key] = made
        done.append(found[key])
        return found[key].sustained

    found_answers = search(case.execution, sustains).answers
    needed = counts(case.execution, found_answers)
    return Outcome(case.execution.metric, dict(found_answers), tuple(done), needed)


def search(execution: ExecutionFile, sustains: Callable[[float, float], bool]) -> Search:
    """Ask for experiments as the execution's strategy does, until every answer is known."""
    return _search(execution, sustains, execution.strategy.value, execution.lower_bound)


def require_answer(outcome: Outcome) -> None:
    """FogError if nothing was sustained at all: then the objectives, not the resources, are in question."""
    if any(answer is not None for answer in outcome.answers.values()):
        return
    easiest = min(outcome.experiments, key=lambda made: (made.load, -made.resources))
    raise FogError(
        f"nothing was sustained, not even load {easiest.load:g} on {easiest.resources} "
        f"({'; '.join(easiest.reasons)})",
        hint="lower the loads, look longer or loosen the objectives; the experiments are kept",
        exit_code=REFUSED,
    )


@dataclass(frozen=True, slots=True)
class NoSubject:
    """Makes no experiments: for showing what a journal has."""

    journal: Journal

    def experiment(self, load: float, resources: int, *_: float) -> Window:
        """Refuse."""
        raise FogError(
            f"the experiment with load {load:g} on {resources} is not made yet",
            file=self.journal.file,
            hint="go on with fogctl bench run",
            exit_code=REFUSED,
        )


def bounds(execution: ExecutionFile) -> tuple[int, int]:
    """Fewest and most experiments that the strategy may take, whatever the answers are.

    What a search costs depends on where it ends and, guided or with the lower bound, on where the one before
    ended: so the cheapest and dearest ways through all searches are found backwards, from the last one on.
    """
    demand = execution.metric is Metric.demand
    given, choices = (
        (execution.loads, execution.resources) if demand else (execution.resources, execution.loads)
    )
    # Where a search ends, as an answer: at the first choice, at the second, …; or at none.
    ends: list[float | None] = [*choices, None] if demand else [None, *choices]
    alone = [_count(execution, given[:1], (end,)) for end in ends]
    bound = execution.lower_bound and execution.strategy is not Strategy.full
    if not bound and execution.strategy is not Strategy.guided:
        return len(given) * min(alone), len(given) * max(alone)
    least = most = [0] * len(ends)
    for pair in reversed(list(pairwise(given))):
        after = [
            [
                (_count(execution, pair, (ends[low], ends[end])) - alone[low], end)
                for end in range(low if bound else 0, len(ends))
            ]
            for low in range(len(ends))
        ]
        least = [min(cost + least[end] for cost, end in ways) for ways in after]
        most = [max(cost + most[end] for cost, end in ways) for ways in after]
    firsts = range(len(ends))
    return min(alone[end] + least[end] for end in firsts), max(alone[end] + most[end] for end in firsts)


def _count(execution: ExecutionFile, given: Sequence[float], answers: Sequence[float | None]) -> int:
    """Experiments of the execution's own strategy for the first values alone, if these are their answers."""
    field = "loads" if execution.metric is Metric.demand else "resources"
    some = execution.model_copy(update={field: list(given)})
    bound = execution.lower_bound and execution.strategy is not Strategy.full
    name = execution.strategy.value
    return counts(some, dict(zip(given, answers, strict=True)))[f"{name}, lower bound" if bound else name]


def make(case: Case, subject: Subject, load: float, resources: int, repetition: int = 0) -> Made:
    """One experiment, judged; FogError with exit 3 if the load could not be sent."""
    rate = case.benchmark.load.rate_per_s(load)
    window = subject.experiment(load, resources, repetition, case.execution.warm_up, case.execution.duration)
    if window.limited_by is not None or window.injected_per_s < 0.99 * rate:
        raise FogError(
            f"the {window.limited_by or 'injector'} managed only {window.injected_per_s:,.0f} of {rate:,.0f} "
            f"records/s at load {load:g}, so this says nothing about the system",
            hint="leave out such loads; experiments made so far are kept",
            exit_code=REFUSED,
        )
    judged = judge(window, rate, case.benchmark.slos)
    reasons = tuple(f"{each.kind}: {each.reason}" for each in judged)
    seen = json.loads(json.dumps(asdict(window)))
    return Made(load, resources, repetition, all(each.met for each in judged), reasons, seen)


def counts(execution: ExecutionFile, answers: Mapping[float, float | None]) -> dict[str, int]:
    """How many experiments each strategy makes if these are the answers, with and without lower bound."""
    demand = execution.metric is Metric.demand

    def sustains(load: float, resources: float) -> bool:
        answer = answers[load if demand else resources]
        if answer is None:
            return False
        return resources >= answer if demand else load <= answer

    found: dict[str, int] = {}
    for strategy in get_args(AnyStrategy):
        bounds = (False,) if strategy == "full" else (False, True)
        for bound in bounds:
            name = f"{strategy}, lower bound" if bound else strategy
            found[name] = _search(execution, sustains, strategy, bound).count
    return found


def _search(
    execution: ExecutionFile, sustains: Callable[[float, float], bool], strategy: str, lower_bound: bool
) -> Search:
    demand = execution.metric is Metric.demand
    metric = resource_demand if demand else load_capacity
    known: AnyStrategy = next(each for each in get_args(AnyStrategy) if each == strategy)
    watch = InProportion(sustains, execution.loads if demand else execution.resources, demand=demand)
    return metric(
        execution.loads,
        execution.resources,
        watch.sustains,
        strategy=known,
        lower_bound=lower_bound,
        guess=watch.guess if known == "guided" else None,
        repetitions=execution.repetitions,
    )


def _made(journal: Journal, number: int, line: Mapping[str, Any]) -> Made:
    try:
        return Made(**{**line, "reasons": tuple(line["reasons"])})
    except (KeyError, TypeError):
        raise FogError("is not an experiment", file=journal.file, line=number) from None


def medians(experiments: Sequence[Made]) -> dict[tuple[float, int], bool]:
    """What the median of the repetitions says of each load and resources."""
    votes: dict[tuple[float, int], list[bool]] = {}
    for made in experiments:
        votes.setdefault((made.load, made.resources), []).append(made.sustained)
    return {key: 2 * sum(each) > len(each) for key, each in votes.items()}
