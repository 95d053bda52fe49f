"""What a stage runner needs to be watched: what it is told, its observer, its exposition. Imports little."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fogctl.metrics.driver import KafkaTopics, SparkDriver, StageObserver
from fogctl.metrics.stage import Identity
from fogctl.metrics.values import stage_to_json
from fogctl.runtime.kafka_config import KafkaConnection


@dataclass(frozen=True, slots=True)
class StageWatch:
    """What a stage runner is told to measure and serve its metrics."""

    address: str
    port: int
    kafka: KafkaConnection
    """How to ask how much the topics hold, apart from the stage's own traffic where that is possible."""

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {"address": self.address, "port": self.port, "kafka": self.kafka.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StageWatch:
        """The inverse of `to_json`."""
        return cls(data["address"], data["port"], KafkaConnection.from_json(data["kafka"]))


class StageSide:
    """A stage's metrics from within its runner: measured, answered on the socket, exposed over HTTP."""

    def __init__(
        self,
        who: Identity,
        watch: StageWatch,
        topics: Sequence[str],
        checkpoint: Path,
        max_rows: Callable[[], int],
    ) -> None:
        self._watch = watch
        asked = KafkaTopics(watch.kafka, topics)
        self._observer = StageObserver(who, asked, checkpoint, max_rows)

    def start(self, session: Any, query: Callable[[], Any]) -> None:
        """Begin to look and to serve; `query` gives the running query, or None."""
        self._observer.start(SparkDriver(session, query))
        try:
            self._expose()
        except OSError as error:
            # The stage itself is worth more than its page: it goes on, and is still asked on its socket.
            where = f"{self._watch.address}:{self._watch.port}"
            print(f"metrics are not served at {where}: {error.strerror}", file=sys.stderr, flush=True)

    def progress(self, event: Mapping[str, Any]) -> None:
        """A batch was processed."""
        self._observer.progress(event)

    def stop(self) -> None:
        """Look no more."""
        self._observer.stop()

    def as_json(self, window_s: float | None = None) -> dict[str, Any] | None:
        """The metrics of the last look as plain JSON values; None before the first."""
        found = self._observer.metrics(window_s)
        return None if found is None else stage_to_json(found)

    def _expose(self) -> None:
        from fogctl.metrics.exposition import stage_families
        from fogctl.metrics.http import serve

        def families() -> Any:
            found = self._observer.metrics()
            return stage_families([] if found is None else [found])

        serve(self._watch.address, self._watch.port, families)
