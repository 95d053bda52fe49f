"""DS2: as many replicas as the input rate needs at the rate that one replica truly reaches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from fogmodels.capacity import best_parallelism, true_rate

from fogctl.agent.knowledge import Knowledge
from fogctl.agent.observation import Observation
from fogctl.agent.placing import placed
from fogctl.agent.plan import Plan, Scale
from fogctl.agent.stagewise import StageView, decide_each
from fogctl.placement.plan import Strategy

Place = Literal["auto", "spread", "pack", "random", "nearest"]
_MANY = 1e9


@dataclass(frozen=True, slots=True)
class Ds2:
    """Replicas = input rate over true rate, for all stages at once (Kalavri et al., OSDI 2018).

    The true rate is what a replica would process if it were always busy. Executors of a micro-batch engine
    are never busy all the time (they wait for the driver between batches), so how busy they are when they are
    overloaded is remembered and counts as always. DS2 says how many replicas, not where: where the app has a
    profile they are placed by contention and distance (CAPSys, section 5), without one nearest first.
    """

    place: Place = "auto"
    """`auto` by the app's profile, `spread`, `pack`, `random`, or `nearest` whatever the profile says."""
    seed: int = 0
    """Of `random`."""

    name: ClassVar[str] = "ds2"
    wants_arrivals: ClassVar[bool] = False

    def decide(self, seen: Observation, known: Knowledge) -> Plan:
        """Target rates from the sources down, then replicas of each stage, then their nodes."""
        targets = target_rates(seen, known)
        budget = _budget(seen, known, targets)
        plan = decide_each(seen, known, lambda stage: self._one(stage, known, targets[stage.name], budget))
        if self.place == "nearest":
            return plan
        return placed(plan, seen, known, Strategy(self.place), targets, self.seed)

    def _one(
        self, stage: StageView, known: Knowledge, target: float, budget: Mapping[str, int] | None
    ) -> Plan:
        rate, limit = _true_rate(stage, known)
        remember = {_key(stage.name): limit}
        numbers = {
            "input_rate": stage.metrics.input_rate,
            "target_rate": target,
            "true_rate": rate,
            "busyness": stage.metrics.busyness,
            "replicas": float(stage.replicas),
        }
        if rate <= 0.0 or not stage.nodes:
            return Plan.keep("processed nothing yet", numbers, remember)
        wanted = _replicas(target, rate)
        if budget is not None:
            wanted = min(wanted, budget[stage.name])
        wanted = min(max(wanted, stage.known.min_replicas), stage.known.max_replicas)
        kept = known.nearest_first(stage.nodes)
        free = known.nearest_first(stage.free(stage.share))
        nodes = (*kept[:wanted], *free[: max(0, wanted - len(kept))])
        if len(nodes) == stage.replicas:
            return Plan.keep(
                f"{target:.0f} records/s need {wanted} replicas of {rate:.0f}", numbers, remember
            )
        return Plan(
            (Scale(stage.name, nodes, stage.share),),
            f"{target:.0f} records/s need {wanted} replicas of {rate:.0f} records/s each",
            numbers,
            {"mst": rate * len(nodes), "replicas": float(len(nodes))},
            remember,
        )


def target_rates(seen: Observation, known: Knowledge) -> dict[str, float]:
    """What each stage must sustain once every stage before it does (DS2, equation 7).

    A stage's input grows in the proportion in which the stages before it will process more than now.
    """
    targets: dict[str, float] = {}
    made_by = {stage.facts.output: name for name, stage in known.stages.items() if stage.facts.output}

    def target(name: str, below: tuple[str, ...] = ()) -> float:
        if name in targets or name in below:
            return targets.get(name, known.stage(name).needed_rate)
        before = [made_by[s] for s in known.stage(name).facts.inputs if s in made_by]
        now = sum(metrics.processed_rate for b in before if (metrics := seen.stage(b)) is not None)
        then = sum(target(b, (*below, name)) for b in before)
        growth = max(1.0, then / now) if now > 0.0 else 1.0
        targets[name] = known.stage(name).needed_rate * growth
        return targets[name]

    for name in known.stages:
        target(name)
    return targets


def _true_rate(stage: StageView, known: Knowledge) -> tuple[float, float]:
    """Records a second of one replica if always busy, and how busy a replica of the stage can be."""
    metrics = stage.metrics
    limit = float(known.memory.get(_key(stage.name), 1.0))
    if stage.known.overloaded and metrics.busyness > 0.0:
        limit = min(1.0, metrics.busyness)
    rate = true_rate(metrics.processed_rate, metrics.busyness / limit) if limit > 0.0 else 0.0
    return rate / max(1, stage.replicas), limit


def _budget(seen: Observation, known: Knowledge, targets: Mapping[str, float]) -> dict[str, int] | None:
    """Where the nodes do not suffice for all: replicas that sustain the highest source rate; else None."""
    stages = [p for p in seen.deployment.stages if seen.stage(p.stage) is not None]
    rates = []
    for placement in stages:
        metrics = seen.stage(placement.stage)
        assert metrics is not None  # chosen so
        view = StageView(placement.stage, metrics, known.stage(placement.stage), placement, placement.nodes)
        rates.append(_true_rate(view, known)[0])
    if not stages or min(rates) <= 0.0 or sum(targets[p.stage] for p in stages) <= 0.0:
        return None
    # Replicas with a part of a node leave room beside them; the largest part is what surely fits.
    share = max((replica.share for p in stages for replica in p.replicas), default=1.0)
    free = sum(
        math.floor(seen.free_share(node.name) / share + 1e-9)
        for node in known.edge
        if seen.node(node.name) is not None
    )
    places = free + sum(len(p.replicas) for p in stages)
    wanted = [_replicas(targets[p.stage], rate) for p, rate in zip(stages, rates, strict=True)]
    if sum(wanted) <= places or places < len(stages):
        return None
    best = best_parallelism(rates, [targets[p.stage] for p in stages], places)
    return {p.stage: n for p, n in zip(stages, best.tasks, strict=True)}


def _replicas(target: float, rate: float) -> int:
    """At least one, and no more than anybody can count to."""
    return max(1, math.ceil(min(target / rate, _MANY) - 1e-9))


def _key(stage: str) -> str:
    return f"ds2.busy_when_overloaded.{stage}"
