"""MEAD's view of an app (sections V, VI): a network of queues, targets per path, a share for each stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import inf
from typing import Any

import numpy as np
from fogmodels.arrivals import from_timestamps
from fogmodels.queueing import LEVELS, Application, Edge, Inaccurate, PhaseType, Shares, greedy_shares
from fogmodels.queueing.shares import Path, Respond
from numpy.typing import NDArray

from fogctl.agent.knowledge import Knowledge
from fogctl.agent.observation import Observation
from fogctl.agent.plan import Plan, Share

Vector = NDArray[np.float64]
Model = Callable[[Application, Vector, float | None], Sequence[Respond]]
"""The predictions of a window of inter-arrival times: one, or several of which the worst counts."""

FEWEST_ARRIVALS = 100
_SMOOTHING = 0.3
_SAME = 1e-6
_MEMORY = "mead.service_s"


@dataclass(frozen=True, slots=True)
class Targets:
    """How long a record may take along a path, and how shares are chosen to keep to it."""

    target_ms: float = 500.0
    """For every path from a source to a sink."""
    percentile: float | None = None
    """Of the response time, 0 to 1 (or 1 to 100); None: its mean."""
    path_targets_ms: Mapping[str, float] = field(default_factory=dict)
    """Another target for some paths, each written as its stages: `parser/matcher`."""
    levels: tuple[float, ...] = LEVELS
    levels_down: int = 1
    """The most levels that a share falls at a time (section V-B: "a more conservative behavior")."""
    clear_backlog: bool = False
    """Also give what waits already the share it needs to be done within the target; the paper does not."""
    caution: float = 1.0
    """Predictions are taken to be too short by this factor; 1: as the paper does."""
    windows: tuple[float, ...] = (1.0, 0.5)
    """Shares of the recorded arrivals, the latest first to count: the paper's 50,000 and 25,000."""
    phases: int = 2
    """Service times are Erlang of this order (section II)."""
    delta: float = 0.05
    """A raise that gains less than this part of the target, and does not meet it, is not made (Fig. 5)."""

    def __post_init__(self) -> None:
        if not all(0 < ms < inf for ms in (self.target_ms, *self.path_targets_ms.values())):
            raise ValueError("targets must be above 0 ms")
        if self.percentile is not None and not (0 < self.percentile < 1 or 1 < self.percentile < 100):
            raise ValueError(f"a percentile is a fraction or a per cent, not {self.percentile:g}")
        if not self.levels or not all(0 < level <= 1 for level in self.levels):
            raise ValueError("levels must be shares above 0 and up to 1")
        if sorted(set(self.levels)) != list(self.levels):
            raise ValueError("levels must rise")
        if not self.windows or not all(0 < part <= 1 for part in self.windows):
            raise ValueError("windows are parts of the recorded arrivals, above 0 and up to 1")
        if not 1.0 <= self.caution < inf:
            raise ValueError("caution must be 1 or more")
        if self.phases < 1 or self.levels_down < 1 or not 0 <= self.delta < 1:
            raise ValueError("phases and levels_down must be 1 at least, delta from 0 to below 1")

    @classmethod
    def of(cls, policy: Any) -> Targets:
        """The targets that a policy's settings of the same names ask for; ValueError if they cannot be."""
        ours = {each.name for each in fields(cls)}
        return cls(**{each.name: getattr(policy, each.name) for each in fields(policy) if each.name in ours})

    def limits_s(self, app: Application) -> dict[Path, float]:
        """The longest response time of each path that may be predicted."""
        asked = {path: self.path_targets_ms.get("/".join(path), self.target_ms) for path in app.paths()}
        return {path: ms / 1e3 / self.caution for path, ms in asked.items()}

    def decide(self, seen: Observation, known: Knowledge, model: Model) -> Plan:
        """The least shares, by MEAD's greedy algorithm, at which the model meets every target."""
        sources = [s for s in known.stages if not _upstream(s, known)]
        if len(sources) != 1:
            return Plan.keep(
                f"a network of queues needs one stage that reads from outside, not {len(sources)}"
            )
        arrivals = seen.arrivals.get(sources[0], ())
        if len(arrivals) < FEWEST_ARRIVALS:
            return Plan.keep(f"{len(arrivals)} arrivals of {sources[0]} are too few to fit a process to")
        services = service_times(seen, known)
        if missing := [stage for stage in known.stages if stage not in services]:
            return Plan.keep(f"{missing[0]} has served nothing yet: its service time is not known")
        remember = {_MEMORY: services}
        app = network(seen, known, services, self.phases)
        gaps = from_timestamps(arrivals)
        predictions: list[Respond] = []
        for part in self.windows:
            predictions += model(
                app, gaps[-max(FEWEST_ARRIVALS - 1, round(part * gaps.size)) :], self.percentile
            )
        chosen = search(self.limits_s(app), worst(predictions), self.levels, self.delta)
        return self._plan(seen, chosen, services, remember, 1.0 / float(gaps.mean()))

    def _plan(
        self,
        seen: Observation,
        chosen: Shares,
        services: Mapping[str, float],
        remember: Mapping[str, Mapping[str, float]],
        rate: float,
    ) -> Plan:
        actions = []
        numbers = {f"{stage}.service_ms": 1e3 * seconds for stage, seconds in services.items()}
        numbers["arrival_rate"] = rate
        predicted = {f"{'/'.join(path)}.response_s": time for path, time in chosen.responses.items()}
        for stage, wanted in chosen.shares.items():
            now = min((replica.share for replica in seen.placement(stage).replicas), default=1.0)
            metrics = seen.stage(stage)
            work_s = metrics.lag * services[stage] if metrics is not None and self.clear_backlog else 0.0
            level = self._clearing(work_s, max(wanted, self._lowest(now)), now)
            numbers[f"{stage}.share"] = now
            predicted[f"{stage}.share"] = level
            if any(abs(r.share - level) > _SAME for r in seen.placement(stage).replicas):
                actions.append(Share(stage, None, level))
        slowest = max(chosen.responses.values())
        figure = (
            "mean"
            if self.percentile is None
            else f"p{100 * self.percentile if self.percentile < 1 else self.percentile:g}"
        )
        verdict = "meets its target" if chosen.feasible else "misses its target whatever the shares"
        shares = ", ".join(f"{stage} {share:.0%}" for stage, share in chosen.shares.items())
        reason = f"{figure} response time of the slowest path {slowest:.3g} s, which {verdict}, at {shares}"
        return Plan(tuple(actions), reason, numbers, predicted, remember)

    def _clearing(self, work_s: float, level: float, now: float) -> float:
        """The model speaks of the long run: what waits now must be done within the target too.

        While it is not, no share falls, and it rises to the first level at which it will be.
        """
        target_s = self.target_ms / 1e3
        if work_s / max(level, _SAME) <= target_s:
            return level
        enough = [x for x in self.levels if x >= max(level, now) - _SAME and work_s / x <= target_s]
        return enough[0] if enough else max(self.levels[-1], now)

    def _lowest(self, now: float) -> float:
        """How low a share may go in one step."""
        below = [level for level in self.levels if level < now - _SAME]
        return below[-min(self.levels_down, len(below))] if below else now


def search(limits: Mapping[Path, float], respond: Respond, levels: Sequence[float], delta: float) -> Shares:
    """MEAD's greedy search. Where a raise was given up for its small gain, it is tried again without that
    rule, and only if no combination meets the targets is the first answer, the cheaper one, kept."""
    first = greedy_shares(limits, respond, levels, delta)
    if first.feasible or delta == 0:
        return first
    whole = greedy_shares(limits, respond, levels, 0.0)
    return whole if whole.feasible else first


def worst(predictions: Sequence[Respond]) -> Respond:
    """For each choice of shares the longest of several predictions (section IV-C)."""

    def respond(path: Path, shares: Mapping[str, float]) -> tuple[float, Mapping[str, float]]:
        total, each = 0.0, dict.fromkeys(path, 0.0)
        for predict in predictions:
            try:
                time, parts = predict(path, shares)
            except Inaccurate:  # so near saturation that no number can be had
                time, parts = inf, dict.fromkeys(path, inf)
            total = max(total, time)
            each = {stage: max(each[stage], parts[stage]) for stage in path}
        return total, each

    return respond


def network(seen: Observation, known: Knowledge, services: Mapping[str, float], phases: int) -> Application:
    """The app as queues at full share; an edge keeps what its stage is seen to receive."""
    edges = []
    for stage in known.stages:
        for before in _upstream(stage, known):
            source, target = seen.stage(before), seen.stage(stage)
            kept = 1.0
            if source is not None and target is not None and source.processed_rate > 0:
                kept = target.input_rate / source.processed_rate
            # A few per cent are the window's edges, not records that were dropped.
            edges.append(Edge(before, stage, 1.0 if kept > 0.95 else max(kept, 0.01)))
    return Application(
        {stage: PhaseType.erlang(phases, services[stage]) for stage in known.stages}, tuple(edges)
    )


def service_times(seen: Observation, known: Knowledge) -> dict[str, float]:
    """Seconds that a record takes at full share, by stage, smoothed over the decisions.

    Core-seconds a record (the utilisation law, CPU used over records processed) over the cores the stage may
    use; where no node tells its CPU, the true rate stands in.
    """
    before: Mapping[str, float] = known.memory.get(_MEMORY, {})
    found: dict[str, float] = {}
    for stage in known.stages:
        now = _service_time(seen, stage)
        old = before.get(stage)
        if now is not None and old is not None:
            now = old + _SMOOTHING * (now - old)
        time = old if now is None else now
        if time is not None:
            found[stage] = time
    return found


def _service_time(seen: Observation, stage: str) -> float | None:
    metrics = seen.stage(stage)
    if metrics is None or metrics.processed_rate <= 0:
        return None
    part = f"{seen.app}-{stage}"
    used = cores = 0.0
    for node in seen.placement(stage).nodes:
        there = seen.node(node)
        if there is not None and there.cpu_quota_cores and part in there.cpu_used_by_part:
            used += there.cpu_used_by_part[part]
            cores += there.cpu_quota_cores
    if used > 0 and cores > 0:
        return used / metrics.processed_rate / cores
    share = min((replica.share for replica in seen.placement(stage).replicas), default=1.0)
    return share / metrics.true_rate if metrics.true_rate > 0 else None


def _upstream(stage: str, known: Knowledge) -> list[str]:
    """The stages that write what a stage reads."""
    inputs = known.stage(stage).facts.inputs
    return [name for name, other in known.stages.items() if other.facts.output in inputs]
