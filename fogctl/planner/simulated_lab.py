"""A lab in numbers: an app of two stages on any number of nodes, to try planning without a testbed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from fogctl.planner.measure import StageSeen
from fogctl.planner.simulated import SimulatedStage

APP = "simulated"
"""What `fogctl plan` calls it."""


@dataclass(slots=True)
class SimulatedLab:
    """The slower stage decides; memory helps a little, and every further task costs all of them a little.

    The rates are made up. Every deployment is an engine of its own, seeded by how many there were before.
    """

    rates: Mapping[str, float] = field(default_factory=lambda: {"parse": 1200.0, "join": 300.0})
    """Records a second of one task of each stage."""
    ratios: Mapping[str, float] = field(default_factory=lambda: {"parse": 1.0, "join": 0.5})
    """Each stage's input over that of the first."""
    injector_most_per_s: float = math.inf
    seed: int = 0
    deployments: list[tuple[dict[str, int], float]] = field(default_factory=list)

    @property
    def stages(self) -> tuple[str, ...]:
        """The one that reads the input first."""
        return tuple(self.rates)

    def mst(self, tasks: Mapping[str, int], memory_mb: float) -> float:
        """The truth that a measurement looks for."""
        rate = min(tasks[name] * self.rates[name] / self.ratios[name] for name in self.rates)
        return rate * (0.8 + 0.2 * memory_mb / 512) * float(sum(tasks.values()) ** -0.1)

    @contextmanager
    def deployed(self, tasks: Mapping[str, int], memory_mb: float) -> Iterator[SimulatedStage]:
        """A new engine with that capacity."""
        self.deployments.append((dict(tasks), memory_mb))
        source = self.mst(tasks, memory_mb)
        seen = tuple(
            StageSeen(
                name,
                source * self.ratios[name],
                source * self.ratios[name] / (tasks[name] * self.rates[name]),
                tasks[name],
            )
            for name in self.rates
        )
        engine = SimulatedStage(
            source,
            stages=seen,
            seed=self.seed + len(self.deployments),
            injector_most_per_s=self.injector_most_per_s,
        )
        # A batch has fixed time besides its rows, so the rows must be faster than the whole.
        engine.capacity_per_s = source * engine.capacity_per_s / engine.mst
        yield engine
