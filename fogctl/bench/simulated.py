"""Experiments with a simulated engine: the same files and strategies, answered in seconds."""

from __future__ import annotations

from dataclasses import dataclass

from fogctl.bench.bench_file import Load, Simulated
from fogctl.planner.measure import Window
from fogctl.planner.simulated import SimulatedStage


@dataclass(frozen=True, slots=True)
class SimulatedSubject:
    """A new engine for each experiment, seeded by what the experiment is."""

    system: Simulated
    load: Load
    seed: int

    def experiment(
        self, load: float, resources: int, repetition: int, warm_up_s: float, duration_s: float
    ) -> Window:
        """Warm it up, then look."""
        engine = SimulatedStage(
            self.system.rate_of_one * resources**self.system.growth,
            fixed_s=self.system.fixed / 1000,
            freshness_s=self.system.freshness / 1000,
            jitter=self.system.jitter,
            seed=hash((self.seed, load, resources, repetition)) % 2**32,
        )
        rate = self.load.rate_per_s(load)
        engine.run(rate, warm_up_s)
        return engine.run(rate, duration_s)
