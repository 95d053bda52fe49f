"""What there is to see at one moment: nodes, stages, agents, the latest events. Values only."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Protocol

LATEST = 12
"""So many events are shown."""
HISTORY_S = 180
"""So far back the curves reach."""


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """One replica on a node."""

    stage: str
    share: float


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node on the map."""

    name: str
    role: str
    distance_ms: float
    """The longer round trip to driver and broker."""
    used_cores: float | None
    quota_cores: float | None
    replicas: tuple[ReplicaView, ...]
    down: bool = False
    """Whether a fault holds it down, or it does not answer."""


@dataclass(frozen=True, slots=True)
class StageView:
    """A stage: rates in records a second, and where it came from."""

    app: str
    stage: str
    input_rate: float | None
    processed_rate: float | None
    lag: float | None
    replicas: int
    share: float
    batch_ms: float | None
    rates: tuple[float, ...] = ()
    """Processed rates of the last minutes, oldest first."""
    lags: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class AgentView:
    """Who decides, and whether somebody still does."""

    app: str
    policy: str
    state: str
    """running, stopped, or dead."""
    said: str
    """In words, with the time of its last decision."""


@dataclass(frozen=True, slots=True)
class EventView:
    """A line of the event log."""

    at: str
    what: str
    text: str


@dataclass(frozen=True, slots=True)
class View:
    """Everything at one moment."""

    title: str
    at: str
    nodes: tuple[NodeView, ...]
    stages: tuple[StageView, ...]
    agents: tuple[AgentView, ...]
    events: tuple[EventView, ...]
    notes: tuple[str, ...] = ()
    """What the viewer must know: who died, what does not answer."""
    progress: float | None = None
    """How far a run's part is, 0 to 1."""

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)


class Source(Protocol):
    """Where views come from."""

    def look(self) -> View:
        """The present moment; never fails because somebody else died."""
        ...


def event_view(at: str, event: dict[str, Any]) -> EventView:
    """A line of the log in words."""
    what = str(event.get("what", ""))
    if what == "decision":
        changes = str(event.get("changes") or "no change")
        return EventView(
            at, what, f"{changes}: {event.get('reason', '')}" if event.get("reason") else changes
        )
    if what in ("applied", "failed"):
        took = f" in {float(event['seconds']):.1f} s" if "seconds" in event else ""
        trouble = f": {event['error']}" if event.get("error") else ""
        return EventView(at, what, f"{event.get('changes', '')}{took}{trouble}")
    if what == "observed":
        return EventView(
            at, what, f"{event.get('stage', '')}: stalled {float(event.get('stall_s', 0)):.1f} s"
        )
    rest = {k: v for k, v in event.items() if k not in ("at_s", "what", "part", "attempt") and _short(v)}
    return EventView(at, what, ", ".join(f"{key} {value}" for key, value in rest.items()))


def telling(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The latest events that tell something: decisions to leave all as it is are many and say nothing."""
    kept = [e for e in events if e.get("what") != "decision" or e.get("actions")]
    kept = [e for e in kept if e.get("what") not in ("responses", "stall")]
    return sorted(kept, key=lambda e: float(e.get("at_s", 0.0)))[-LATEST:]


def _short(value: object) -> bool:
    return isinstance(value, int | float | bool) or (isinstance(value, str) and len(value) < 80)
