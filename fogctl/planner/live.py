"""A deployed app as something to measure: loaded from data at rest at a rate, watched through its batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fogctl.errors import FAILED, LoadInterruptedError
from fogctl.inject import Injected, Load, inject
from fogctl.inject.senders import best
from fogctl.metrics.batch import Batch, read_batch
from fogctl.planner.live_window import StageRun, window_of
from fogctl.planner.measure import Window
from fogctl.runtime.app import App
from fogctl.runtime.operate import Apps

LOOK_EVERY_S = 0.5


@dataclass(slots=True)
class LiveMeasure:
    """An app that was deployed for this, so that its input holds what is sent here and nothing else."""

    apps: Apps
    app: App
    values: Sequence[bytes]
    replicas: Mapping[str, int]
    processes: int = 1
    _sent: int = field(default=0, init=False)

    def run(self, rate_per_s: float, seconds: float) -> Window:
        """Inject for so long and look meanwhile; the values are sent in turn."""
        looks: list[tuple[float, int]] = [(time.time(), self._sent)]

        def look(count: int) -> None:
            now = time.time()
            if now - looks[-1][0] >= LOOK_EVERY_S:
                looks.append((now, self._sent + count))

        load = Load(max(1, round(rate_per_s * seconds)), rate_per_s, self.processes, best())
        done = self._inject(load, look)
        self._sent += done.records
        looks.append((time.time(), self._sent))
        sources = len([stage for stage in self.app.stages if set(stage.inputs) & set(self.app.sources)])
        injected_per_s = rate_per_s if done.kept_up else done.records_per_s
        window = window_of(looks, self._stages(), sources, done.limited_by, injected_per_s)
        if done.limited_by is None and done.records < load.records:
            raise LoadInterruptedError("interrupted", exit_code=FAILED)
        return window

    def _inject(self, load: Load, look: Callable[[int], None]) -> Injected:
        topic = self.app.topic(self.app.sources[0])
        with self.apps.ground.kafka() as connection:
            return inject(
                load,
                self.values,
                connection,
                topic,
                self.apps.sent_numbers(self.app.name),
                look,
            )

    def _stages(self) -> tuple[StageRun, ...]:
        """Stages that read the input first."""
        ordered = sorted(self.app.stages, key=lambda stage: not set(stage.inputs) & set(self.app.sources))
        return tuple(
            StageRun(
                stage.name,
                batches_of(self.apps.ground.progress(self.app.name, stage.name)),
                self.replicas[stage.name],
                stage.freshness_ms / 1000,
            )
            for stage in ordered
        )


def batches_of(events: Iterable[Mapping[str, Any]]) -> tuple[Batch, ...]:
    """The batches that a stage's progress events tell of, in the order they ended."""
    return tuple(sorted(map(read_batch, events), key=lambda batch: batch.ended_s))
