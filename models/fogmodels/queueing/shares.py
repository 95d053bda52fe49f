"""CPU shares for an application: MEAD's greedy algorithm (Fig. 5) and the exact cheapest choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from fogmodels.arrivals import MAP
from fogmodels.queueing.paths import Application, along, stage_arrivals
from fogmodels.queueing.response import ResponseTime, Unstable, as_fraction
from fogmodels.queueing.single_server import solve

Path = tuple[str, ...]

LEVELS = (0.40, 0.55, 0.70, 0.85, 1.00)  # MEAD section VII: five levels from 40 % to 100 %

Respond = Callable[[Path, Mapping[str, float]], tuple[float, Mapping[str, float]]]
"""Response time of a path, and of each of its stages, with the given shares; inf where overloaded."""


@dataclass(frozen=True, slots=True)
class Shares:
    """The chosen share of each stage, the predicted response time of each path, and what it took."""

    shares: Mapping[str, float]
    responses: Mapping[Path, float]
    feasible: bool
    cost: float
    evaluations: int


def greedy_shares(
    limits: Mapping[Path, float], respond: Respond, levels: Sequence[float] = LEVELS, delta: float = 0.05
) -> Shares:
    """MEAD's Fig. 5: raise the slowest stage of each path until its limit holds.

    A raise that neither meets the limit nor gains delta * limit is taken back and ends the path.
    Two points the figure leaves open: a stage at its highest level is passed over, and a path that
    is overloaded before and after a raise goes on (an infinite time has no gain to compare).
    """
    steps, stages = _checked(limits, levels)
    if not 0 <= delta < 1:
        raise ValueError(f"delta must be in [0, 1), not {delta}")
    at = dict.fromkeys(stages, 0)
    counted = _Counted(respond)

    def look(path: Path) -> tuple[float, Mapping[str, float]]:
        return counted(path, {name: steps[at[name]] for name in stages})

    for path, limit in limits.items():
        total, each = look(path)
        while total > limit and any(at[name] < len(steps) - 1 for name in path):
            grown = max((name for name in path if at[name] < len(steps) - 1), key=lambda name: each[name])
            at[grown] += 1
            after, each_after = look(path)
            if after > limit and total != inf and total - after < delta * limit:
                at[grown] -= 1
                break
            total, each = after, each_after
    return _result(limits, {name: steps[at[name]] for name in stages}, counted)


def cheapest_shares(
    limits: Mapping[Path, float], respond: Respond, levels: Sequence[float] = LEVELS
) -> Shares | None:
    """The least total share that meets every limit, by branch and bound; None if no choice does.

    Exact as long as a larger share never slows a path. Ties go to smaller shares for earlier stages.
    """
    steps, stages = _checked(limits, levels)
    counted = _Counted(respond)
    top = steps[-1]
    everything = dict.fromkeys(stages, top)
    best, best_cost = dict(everything), top * len(stages)

    def meets(shares: Mapping[str, float], paths: Sequence[Path]) -> bool:
        return all(counted(path, shares)[0] <= limits[path] for path in paths)

    touching = {name: [path for path in limits if name in path] for name in stages}

    def descend(index: int, shares: dict[str, float], cost: float) -> None:
        nonlocal best, best_cost
        if index == len(stages):
            best, best_cost = dict(shares), cost
            return
        name = stages[index]
        rest = (len(stages) - index - 1) * steps[0]
        for share in steps:
            if cost + share + rest >= best_cost - 1e-12:
                break
            shares[name] = share
            # The stages not yet decided stand at the highest level: if that fails, so does all below.
            if meets(shares, touching[name]):
                descend(index + 1, shares, cost + share)
        shares[name] = top

    if not meets(everything, list(limits)):
        return None
    descend(0, everything, 0.0)
    return _result(limits, best, counted)


def responder(app: Application, arrivals: MAP, percentile: float | None = None) -> Respond:
    """Predicted response times with shares, by MAP/PH/1 per stage ("source" arrivals).

    A share x stretches a stage's service times by 1/x. The figure is the mean, or the percentile.
    """
    if percentile is not None:
        as_fraction(percentile)
    at = stage_arrivals(app, arrivals)
    solved: dict[tuple[str, float], ResponseTime | None] = {}
    totals: dict[tuple[tuple[str, float], ...], float] = {}

    def stage(name: str, share: float) -> ResponseTime | None:
        if (name, share) not in solved:
            service = app.services[name]
            try:
                solved[name, share] = solve(at[name], service.scaled(service.mean / share))
            except Unstable:
                solved[name, share] = None
        return solved[name, share]

    def figure(response: ResponseTime) -> float:
        return response.mean if percentile is None else response.percentile(percentile)

    def respond(path: Path, shares: Mapping[str, float]) -> tuple[float, Mapping[str, float]]:
        parts = [stage(name, shares[name]) for name in path]
        each = {
            # Overloaded stages rank above all others, the most overloaded first.
            name: inf if part is None else figure(part)
            for name, part in zip(path, parts, strict=True)
        }
        good = [part for part in parts if part is not None]
        if len(good) < len(parts):
            return inf, each
        key = tuple((name, shares[name]) for name in path)
        if key not in totals:
            totals[key] = figure(along(good))
        return totals[key], each

    return respond


class _Counted:
    """Counts how often the model is asked: the price of an algorithm."""

    def __init__(self, respond: Respond) -> None:
        self._respond = respond
        self.calls = 0

    def __call__(self, path: Path, shares: Mapping[str, float]) -> tuple[float, Mapping[str, float]]:
        self.calls += 1
        return self._respond(path, shares)


def _result(limits: Mapping[Path, float], shares: Mapping[str, float], counted: _Counted) -> Shares:
    calls = counted.calls
    responses = {path: counted(path, shares)[0] for path in limits}
    return Shares(
        shares=dict(shares),
        responses=responses,
        feasible=all(responses[path] <= limit for path, limit in limits.items()),
        cost=sum(shares.values()),
        evaluations=calls,
    )


def _checked(limits: Mapping[Path, float], levels: Sequence[float]) -> tuple[tuple[float, ...], list[str]]:
    steps = tuple(float(level) for level in levels)
    if not steps or any(not 0 < level < inf for level in steps) or list(steps) != sorted(set(steps)):
        raise ValueError("levels must be positive, finite and strictly increasing")
    if not limits or any(not path for path in limits):
        raise ValueError("at least one path with at least one stage is needed")
    if any(not 0 < limit < inf for limit in limits.values()):
        raise ValueError("response-time limits must be positive and finite")
    return steps, list(dict.fromkeys(name for path in limits for name in path))
