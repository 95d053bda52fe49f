"""What apps stand on: the one seam between streaming apps and the kind of testbed they run on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from fognetem.matrix import LatencyMatrix

from fogctl.metrics.values import WINDOW_S, Reader
from fogctl.runtime.app import App
from fogctl.runtime.carry_out import Make, Say
from fogctl.runtime.deployment import Change, Deployment
from fogctl.runtime.kafka_config import KafkaConnection
from fogctl.testbed.model import Testbed


def quiet(_: str) -> None:
    """Say nothing."""


@dataclass(frozen=True, slots=True)
class Log:
    """What a process of an app said, and where that is kept."""

    where: str
    """A file, or the pod that it comes from."""
    size_bytes: int | None
    """None: not known without reading it."""
    tail: Callable[[int], list[str]]
    """Its last so many lines."""


class Ground(Protocol):
    """A testbed that is up, as `Apps` uses it."""

    @property
    def testbed(self) -> Testbed:
        """What was asked for."""
        ...

    @property
    def folder(self) -> Path:
        """The testbed's state folder."""
        ...

    @property
    def latencies(self) -> LatencyMatrix:
        """As injected now: somebody may have changed them live."""
        ...

    def attend(self) -> None:
        """Be ready to be worked on: FogError without the rights for it; what should run is watched over."""
        ...

    def changing(self, app: str) -> AbstractContextManager[object]:
        """Nobody else changes the app during the body; FogError that names who does."""
        ...

    def ready(self, app: App, wanted: Deployment, steps: Sequence[Change], say: Say) -> None:
        """Have all that the steps rely on, Kafka first; FogError, before anything starts, if that fails."""
        ...

    def maker(self, *versions: tuple[App, Deployment | None]) -> Make:
        """Carries changes out on the stages in these versions of an app; where several have one, the last."""
        ...

    def limit(self, app: str, stage: str, node: str, share: float) -> None:
        """Give the replica on a node this share of it, at once."""
        ...

    def executors(self, app: str, stage: str) -> list[str]:
        """The nodes on which a replica of a stage should run, as read back from there.

        They differ from the deployment's only where a fogctl was killed in the middle of a change.
        """
        ...

    def ask(self, app: str, stage: str, request: dict[str, Any], timeout_s: float = 5.0) -> dict[str, Any]:
        """Ask the runner of a stage; FogError if it does not answer."""
        ...

    def progress(self, app: str, stage: str, since_s: float = 0.0) -> list[dict[str, Any]]:
        """Spark's progress events of a stage's batches that ended after a moment, oldest first."""
        ...

    def kafka(self) -> AbstractContextManager[KafkaConnection]:
        """Inside the body Kafka can be reached from here, and connections made there stay usable."""
        ...

    def reader(self, window_s: float = WINDOW_S) -> Reader:
        """Metrics of stages and nodes."""
        ...

    def logs(self, app: str) -> Mapping[str, Log]:
        """What the processes of an app said, by part: nearest.driver, nearest.executor.pi1."""
        ...

    def notes(self) -> list[str]:
        """What a user should know who wonders at an app: faults, and what cannot be started."""
        ...

    def forget(self, app: str) -> None:
        """Remove what the stages of an app kept outside the state folder, their checkpoints above all."""
        ...
