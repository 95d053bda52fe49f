"""What an agent must not forget: what it learned, what it is about to do, effects it still waits for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from fogmodels.throughput import Sample

from fogctl.agent import plan as plans
from fogctl.agent.knowledge import Knowledge, StageKnowledge
from fogctl.agent.plan import Plan
from fogctl.agent.wish import Record, StageRecord
from fogctl.runtime import deployment as deployments
from fogctl.runtime.deployment import Deployment

VERSION = 1
_LEARNED = (
    "saturated",
    "batches",
    "stalls_s",
    "takes_s",
    "lags",
    "rates",
    "changed_at_s",
    "scaled_at_s",
    "grown_at_s",
    "sampled_at_s",
    "worked_s",
    "looked_at_s",
)


@dataclass(frozen=True, slots=True)
class Effect:
    """A change that was made to a stage and whose effect is still to be seen."""

    number: int
    """Of the decision."""
    stage: str
    kind: str
    """`out`, `in` or `share`."""
    replicas: int
    """Before, like the others here."""
    began_s: float
    ended_s: float
    lag: float
    lag_trend: float
    input_rate: float
    processed_rate: float
    overloaded: bool
    predicted: Mapping[str, float] = field(default_factory=dict)
    worst_lag: float = 0.0
    """Since then."""
    worst_at_s: float = 0.0
    worst_input_rate: float = 0.0


@dataclass(frozen=True, slots=True)
class Intent:
    """A change that was decided: written down before anything is done, gone once the outcome is known."""

    number: int
    at_s: float
    plan: Plan
    before: Deployment
    effects: tuple[Effect, ...] = ()
    """What to wait for once it is made, as it was before it: whoever finds it made can tell its effect."""


@dataclass(frozen=True, slots=True)
class Learned:
    """What survives a restart of what is known."""

    stages: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By stage: some fields of StageKnowledge."""
    decisions: int = 0
    memory: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, known: Knowledge) -> Learned:
        """The part of what is known that was learned and not given."""
        stages = {name: {key: getattr(s, key) for key in _LEARNED} for name, s in known.stages.items()}
        return cls(stages, known.decisions, known.memory)

    def added_to(self, known: Knowledge) -> Knowledge:
        """What is given and what was learned; stages that the app has no more are forgotten."""
        stages: dict[str, StageKnowledge] = {
            name: replace(stage, **self.stages.get(name, {})) for name, stage in known.stages.items()
        }
        return replace(known, stages=stages, decisions=self.decisions, memory=self.memory)


@dataclass(frozen=True, slots=True)
class AgentState:
    """Everything that is kept between two decisions."""

    learned: Learned = field(default_factory=Learned)
    record: Record = field(default_factory=Record)
    effects: tuple[Effect, ...] = ()
    intent: Intent | None = None


def to_json(state: AgentState) -> dict[str, Any]:
    """The state as plain JSON values."""
    intent = state.intent
    return {
        "version": VERSION,
        "decisions": state.learned.decisions,
        "memory": dict(state.learned.memory),
        "stages": {
            name: {
                **learned,
                "saturated": [asdict(sample) for sample in learned["saturated"]],
                "batches": [asdict(sample) for sample in learned["batches"]],
                **{key: {k: list(v) for k, v in learned[key].items()} for key in ("stalls_s", "takes_s")},
            }
            for name, learned in state.learned.stages.items()
        },
        "record": {name: asdict(record) for name, record in state.record.stages.items()},
        "effects": _effects_json(state.effects),
        "intent": None
        if intent is None
        else {
            "number": intent.number,
            "at_s": intent.at_s,
            "plan": plans.to_json(intent.plan),
            "before": deployments.to_json(intent.before),
            "effects": _effects_json(intent.effects),
        },
    }


def _effects_json(effects: tuple[Effect, ...]) -> list[dict[str, Any]]:
    return [{f.name: getattr(effect, f.name) for f in fields(effect)} for effect in effects]


def from_json(data: Mapping[str, Any]) -> AgentState:
    """The inverse of `to_json`; KeyError, TypeError or ValueError if it is no such state."""
    if data["version"] != VERSION:
        raise ValueError(f"version {data['version']}, not {VERSION}")
    stages = {
        name: {
            **{key: learned[key] for key in _LEARNED if key in learned},
            "saturated": tuple(Sample(**sample) for sample in learned["saturated"]),
            "batches": tuple(Sample(**sample) for sample in learned["batches"]),
            **{
                key: {kind: tuple(values) for kind, values in learned.get(key, {}).items()}
                for key in ("stalls_s", "takes_s")
            },
            "lags": tuple((at, lag) for at, lag in learned["lags"]),
            "rates": tuple((at, rate) for at, rate in learned["rates"]),
        }
        for name, learned in data["stages"].items()
    }
    intent = data["intent"]
    return AgentState(
        Learned(stages, data["decisions"], data["memory"]),
        Record(
            {
                name: StageRecord(**{**record, "in_nodes": tuple(record["in_nodes"])})
                for name, record in data["record"].items()
            }
        ),
        tuple(Effect(**effect) for effect in data["effects"]),
        None
        if intent is None
        else Intent(
            intent["number"],
            intent["at_s"],
            plans.from_json(intent["plan"]),
            deployments.from_json(intent["before"]),
            tuple(Effect(**effect) for effect in intent.get("effects", ())),
        ),
    )
