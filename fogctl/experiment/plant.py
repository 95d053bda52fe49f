"""What an experiment needs of the place where it runs: a simulator, or a testbed with real Spark on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from fogctl.agent.events import EventLog
from fogctl.agent.target import Target
from fogctl.experiment.experiment import Part
from fogctl.experiment.ideal import Sustained
from fogctl.experiment.load import Load

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class NetworkCheck:
    """The latencies as asked and as measured; a run is refused unless `ok`."""

    ok: bool
    sentence: str
    nodes: tuple[str, ...]
    asked_ms: tuple[tuple[float, ...], ...]
    measured_ms: tuple[tuple[float | None, ...], ...] | None
    """None: a model has nothing to measure."""


@dataclass(frozen=True, slots=True)
class DoneBatch:
    """One micro-batch: when it ended by the target's clock, how long it took, its rows."""

    ended_s: float
    duration_s: float
    rows: float


class Session(Protocol):
    """The app, deployed afresh for one part."""

    @property
    def target(self) -> Target:
        """What the agent drives."""
        ...

    @property
    def eyes(self) -> Target:
        """The same for whoever only looks, and may do so at any time."""
        ...

    @property
    def log(self) -> EventLog | None:
        """Where the agent's events go beside the run's folder; None: nowhere."""
        ...

    def watched(self, on_second: Callable[[], None]) -> AbstractContextManager[None]:
        """Within the body `on_second` is called each second of the target's clock, whatever else goes on."""
        ...

    def start(self) -> float:
        """Begin to send the load; answers the target's time at that moment. Does not wait."""
        ...

    def drained(self) -> bool:
        """Whether everything has been sent and nothing waits any more."""
        ...

    def offered(self, second: int) -> float:
        """Records due in that second after the start."""
        ...

    def replay(self) -> Mapping[str, Any] | None:
        """How well the schedule was held, once everything is sent; None where time is exact."""
        ...

    def audit(self) -> Mapping[str, Any]:
        """What became of the records: sent, seen, lost, duplicates."""
        ...

    def events(self) -> list[dict[str, Any]]:
        """What the place itself has to tell, on the target's clock: stalls, faults, response times."""
        ...

    def batches(self) -> Mapping[str, Sequence[DoneBatch]]:
        """By stage every micro-batch with rows since the start, oldest first; none where nobody kept them."""
        ...

    def busy(self) -> float | None:
        """How busy the host was in the last second; None where there is none."""
        ...


class Plant(Protocol):
    """A place for experiments."""

    @property
    def kind(self) -> str:
        """sim, virtual or k3s."""
        ...

    def facts(self) -> Mapping[str, Any]:
        """What the manifest shall say of it."""
        ...

    def check(self) -> list[str]:
        """Look at the host before anything is touched: FogError if it cannot, warnings if it may not do."""
        ...

    def up(self, say: Say) -> None:
        """Bring the testbed up."""
        ...

    def verify(self, progress: Callable[[float], None]) -> NetworkCheck:
        """Measure every pair of nodes."""
        ...

    def sustained(self) -> Sustained | None:
        """What the best n nodes sustain; None: the run must show."""
        ...

    def open(self, part: Part, load: Load) -> AbstractContextManager[Session]:
        """Deploy the app for one part, and take it away afterwards."""
        ...

    def down(self, say: Say) -> None:
        """Take the testbed down; nothing is left."""
        ...
