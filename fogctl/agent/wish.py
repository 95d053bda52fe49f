"""What a plan wants of one stage, as something guard rails can cut down, and what they say about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fogctl.agent.knowledge import Knowledge
from fogctl.agent.observation import Observation
from fogctl.agent.plan import Action, Plan, Scale, Share
from fogctl.agent.settings import Guard
from fogctl.runtime.deployment import WHOLE, StagePlacement


@dataclass(frozen=True, slots=True)
class Note:
    """A guard rail that changed or stopped something: which, of what stage, and why."""

    guard: str
    stage: str
    why: str


@dataclass(frozen=True, slots=True)
class Wish:
    """The changes of one stage that a plan asks for."""

    before: StagePlacement
    scale: Scale | None = None
    shares: tuple[Share, ...] = ()

    @property
    def stage(self) -> str:
        """The stage it is about."""
        return self.before.stage

    @property
    def added(self) -> tuple[str, ...]:
        """Nodes that would get a replica, in the policy's order."""
        there = set(self.before.nodes)
        return tuple(n for n in self.scale.nodes if n not in there) if self.scale else ()

    @property
    def removed(self) -> tuple[str, ...]:
        """Nodes that would lose theirs."""
        wanted = set(self.scale.nodes) if self.scale else set()
        return tuple(n for n in self.before.nodes if n not in wanted) if self.scale else ()

    @property
    def empty(self) -> bool:
        """Whether nothing is left to do."""
        return self.scale is None and not self.shares

    @property
    def actions(self) -> tuple[Action, ...]:
        """As a plan says it: what acts at once first."""
        return (*self.shares, *((self.scale,) if self.scale else ()))

    def without_scale(self) -> Wish:
        """The same without a change of replicas and of shares that come with it."""
        kept = tuple(share for share in self.shares if share.node is None or share.node in self.before.nodes)
        return replace(self, scale=None, shares=kept)

    def on(self, nodes: tuple[str, ...]) -> Wish:
        """The same on other nodes; if those are the present ones, without a change of replicas."""
        if set(nodes) == set(self.before.nodes) or self.scale is None:
            return self.without_scale()
        gone = set(self.scale.nodes) - set(nodes)
        # A share that sufficed for more replicas does not for fewer.
        small = len(nodes) < len(self.scale.nodes) and not self.scale.keep_shares
        share = WHOLE if small else self.scale.share
        return replace(
            self,
            scale=replace(self.scale, nodes=nodes, share=share),
            shares=tuple(share for share in self.shares if share.node not in gone),
        )

    def nothing(self) -> Wish:
        """No change at all."""
        return Wish(self.before)


@dataclass(frozen=True, slots=True)
class StageRecord:
    """What guard rails remember of a stage between decisions. Times are the target's."""

    scaled_at_s: float | None = None
    shared_at_s: float | None = None
    in_since_s: float | None = None
    """Since when fewer replicas were asked for without a break."""
    in_nodes: tuple[str, ...] = ()
    """The largest set asked for since then."""
    failures: int = 0
    """Failed changes in a row."""
    failed_at_s: float | None = None
    useless: int = 0
    """Additions in a row that gained nothing."""
    useless_from: int = 0
    """Replicas there were before the first of those."""
    useless_at_s: float | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """What guard rails remember, by stage."""

    stages: Mapping[str, StageRecord] = field(default_factory=dict)

    def of(self, stage: str) -> StageRecord:
        """What is remembered of a stage."""
        return self.stages.get(stage, StageRecord())

    def having(self, stage: str, **changes: Any) -> Record:
        """The same with something else remembered of a stage."""
        return Record({**self.stages, stage: replace(self.of(stage), **changes)})


@dataclass(frozen=True, slots=True)
class Context:
    """What a guard rail may look at."""

    seen: Observation
    known: Knowledge
    guard: Guard
    record: Record


def wishes(plan: Plan, seen: Observation) -> tuple[Wish, ...]:
    """A plan stage by stage; FogError if it names a stage that the app has not."""
    found: dict[str, Wish] = {}
    for action in plan.actions:
        wish = found.get(action.stage, Wish(seen.placement(action.stage)))
        if isinstance(action, Share):
            found[action.stage] = replace(wish, shares=(*wish.shares, action))
        elif set(action.nodes) != set(wish.before.nodes):
            found[action.stage] = replace(wish, scale=action)
        else:
            found[action.stage] = wish
    return tuple(found.values())
