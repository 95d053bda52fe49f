"""What a policy answers: the changes it wants, why, the numbers behind it and what it expects of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fogctl.runtime.deployment import WHOLE


@dataclass(frozen=True, slots=True)
class Scale:
    """Have a stage run on exactly these nodes."""

    stage: str
    nodes: tuple[str, ...]
    share: float = WHOLE
    """The share of the replicas that are added."""
    keep_shares: bool = True
    """Whether replicas that are there already keep their shares; otherwise they get this one too."""

    def describe(self) -> str:
        """In words."""
        share = "" if self.keep_shares else f" at {self.share:.0%}"
        return f"{self.stage} on {', '.join(self.nodes)}{share}"


@dataclass(frozen=True, slots=True)
class Share:
    """Give the replica of a stage on a node (None: all its replicas) this share of the CPU there."""

    stage: str
    node: str | None
    share: float

    def describe(self) -> str:
        """In words."""
        return f"{self.stage}{f' on {self.node}' if self.node else ''} at {self.share:.0%}"


Action = Scale | Share


@dataclass(frozen=True, slots=True)
class Plan:
    """Changes in the order they are to be made; none: leave everything as it is, which has a reason too.

    The keys of `numbers` and `predicted` are `STAGE.QUANTITY` with the quantities `mst`, `replicas`,
    `rtt_max_ms`, `share`, `input_rate`, `needed_rate`, `lag`, …: what was predicted under a name is compared
    with what is seen under that name later.
    """

    actions: tuple[Action, ...] = ()
    reason: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
    predicted: Mapping[str, float] = field(default_factory=dict)
    remember: Mapping[str, Any] = field(default_factory=dict)
    """JSON values that `Knowledge.memory` shall hold at the next decision; keys not named stay."""

    @classmethod
    def keep(
        cls,
        reason: str,
        numbers: Mapping[str, float] | None = None,
        remember: Mapping[str, Any] | None = None,
    ) -> Plan:
        """Change nothing."""
        return cls((), reason, numbers or {}, {}, remember or {})

    def describe(self) -> str:
        """The changes in words."""
        return "; ".join(action.describe() for action in self.actions) or "no change"


def to_json(plan: Plan) -> dict[str, Any]:
    """A plan as plain JSON values."""
    return {
        "actions": [
            {
                "scale": action.stage,
                "nodes": list(action.nodes),
                "share": action.share,
                "keep_shares": action.keep_shares,
            }
            if isinstance(action, Scale)
            else {"share_of": action.stage, "node": action.node, "share": action.share}
            for action in plan.actions
        ],
        "reason": plan.reason,
        "numbers": dict(plan.numbers),
        "predicted": dict(plan.predicted),
        "remember": dict(plan.remember),
    }


def from_json(data: Mapping[str, Any]) -> Plan:
    """The inverse of `to_json`."""
    actions: list[Action] = [
        Scale(entry["scale"], tuple(entry["nodes"]), entry["share"], entry["keep_shares"])
        if "scale" in entry
        else Share(entry["share_of"], entry["node"], entry["share"])
        for entry in data["actions"]
    ]
    return Plan(tuple(actions), data["reason"], data["numbers"], data["predicted"], data.get("remember", {}))
