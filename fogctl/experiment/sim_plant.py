"""Experiments in the simulator: no root, no JVM, and days pass in seconds."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fogctl.experiment.experiment import Experiment, Part
from fogctl.experiment.ideal import SHARES, Sustained
from fogctl.experiment.load import Load
from fogctl.experiment.plant import DoneBatch, NetworkCheck, Say
from fogctl.experiment.responses import summary
from fogctl.runtime import deployment
from fogctl.runtime.app import Mode, Stage
from fogctl.sim import parameters as sim_parameters
from fogctl.sim.batch_stage import BatchStage
from fogctl.sim.faults import Fault
from fogctl.sim.ideal import best_sets
from fogctl.sim.parameters import StageParameters
from fogctl.sim.simulation import Simulation
from fogctl.sim.streams import Counted, QueueOutput, Stream, Timed
from fogctl.sim.target import SimTarget
from fogctl.testbed.model import Role, Testbed

_STEPS_PER_MS = 20_000
"""Steps of the option `work` that one millisecond of a PC's core does."""
_OVERHEAD_MS = 0.49
"""CPU per record besides `work`: the measured 134 records/s at 20 % of a core are 1.49 ms each."""


def parameters_of(stage: Stage, given: StageParameters | None = None) -> StageParameters:
    """The measured parameters, with the CPU per record that the stage's option `work` asks for."""
    base = given or StageParameters()
    steps = int(dict(stage.options).get("work", "0"))
    per_record_s = (_OVERHEAD_MS + steps / _STEPS_PER_MS) / 1e3
    return replace(base, mu_per_s=base.reference_cores / per_record_s)


def sustained_by(
    stage: Stage, parameters: StageParameters, testbed: Testbed, share: float = 1.0
) -> list[float]:
    """What the best 1, 2, … nodes sustain once they are warm."""
    origins = [node.name for node in testbed.nodes if node.role is not Role.edge]
    edges = [node for node in testbed.nodes if node.role is Role.edge]
    far = {node.name: testbed.latencies.max_rtt_ms(origins, node.name) for node in edges}
    speeds = [
        (node.cpu_cores or parameters.reference_cores) / parameters.reference_cores * share**parameters.sigma
        for node in edges
    ]

    def mst(replicas: int, rtt_max_ms: float, speed: float = 1.0, /) -> float:
        if stage.mode is Mode.real_time:
            return 1.0 / parameters.per_row_s(replicas, stage.partitions, speed)
        freshness_s = stage.freshness_ms / 1e3
        return parameters.mst(replicas, rtt_max_ms, freshness_s, stage.partitions, speed, stage.slots)

    distances = [far[node.name] for node in edges]
    _, rates = best_sets(distances, mst, speeds, stage.partitions, stage.slots)
    return [float(rate) for rate in rates]


class SteppedSimulation(Simulation):
    """A simulation that tells when a second has passed, also in the middle of a change."""

    on_second: Callable[[], None] | None = None

    def advance(self, until_s: float) -> None:
        """Let time pass, second by second."""
        while self.on_second is not None and math.floor(self.now_s) + 1.0 <= until_s:
            super().advance(math.floor(self.now_s) + 1.0)
            self.on_second()
        super().advance(until_s)


class SimSession:
    """A simulated app; the load is in it from the start, so sending is only a matter of time."""

    def __init__(self, simulation: SteppedSimulation, load: Load) -> None:
        self._simulation = simulation
        self._target = SimTarget(simulation)
        self._load = load
        self._offered = load.offered()

    @property
    def target(self) -> SimTarget:
        """What the agent drives."""
        return self._target

    @property
    def eyes(self) -> SimTarget:
        """A simulated target can be looked at by anybody."""
        return self._target

    @property
    def log(self) -> None:
        """Nobody watches a simulation but its run's folder."""
        return

    @contextlib.contextmanager
    def watched(self, on_second: Callable[[], None]) -> Iterator[None]:
        """Each simulated second."""
        self._simulation.on_second = on_second
        try:
            yield
        finally:
            self._simulation.on_second = None

    def start(self) -> float:
        """The load begins with the simulation."""
        return self._simulation.now_s

    def drained(self) -> bool:
        """Whether all has come and been processed."""
        now_s = self._simulation.now_s
        return now_s >= self._load.duration_s and all(
            stage.lag(now_s) < 1.0 for stage in self._simulation.stages.values()
        )

    def offered(self, second: int) -> float:
        """Records due in that second."""
        return float(self._offered[second]) if 0 <= second < self._offered.size else 0.0

    def replay(self) -> None:
        """Simulated time is exact."""
        return

    def audit(self) -> Mapping[str, Any]:
        """A simulated record is processed or waits; none can be lost for good."""
        sent = self._load.records
        waiting = sum(stage.lag(self._simulation.now_s) for stage in self._simulation.stages.values())
        lost = round(waiting)
        return {"sent": sent, "seen": sent - lost, "lost": lost, "duplicates": 0, "simulated": True}

    def events(self) -> list[dict[str, Any]]:
        """Stalls and faults, and the response times of stages that work record by record."""
        found = list(self._simulation.events)
        for stage in self._simulation.app.stages:
            output = self._simulation.stages[stage.name].output
            if isinstance(output, QueueOutput) and stage.output in self._simulation.app.sinks:
                left, born = output.records
                if left.size:
                    told = {"at_s": self._simulation.now_s, "what": "responses", "path": stage.name}
                    found.append({**told, **summary(np.asarray(left - born))})
        return found

    def batches(self) -> dict[str, list[DoneBatch]]:
        """Every batch of the stages that have batches."""
        found = {}
        for name, stage in self._simulation.stages.items():
            if isinstance(stage, BatchStage):
                done = stage.batches()
                each = zip(done["end_s"], done["duration_s"], done["rows"], strict=True)
                found[name] = [DoneBatch(*batch) for batch in each]
        return found

    def busy(self) -> None:
        """No host takes part."""
        return


class SimPlant:
    """The simulator as a place for experiments. Satisfies `fogctl.experiment.plant.Plant`."""

    kind = "sim"

    def __init__(
        self,
        experiment: Experiment,
        known: Mapping[str, StageParameters] | None = None,
        like: str | None = None,
    ) -> None:
        self._experiment = experiment
        self._parameters = {stage.name: parameters_of(stage) for stage in experiment.app.stages}
        self._parameters |= known or {}
        self._like = like

    def facts(self) -> dict[str, Any]:
        """The parameters, and the run that they are from."""
        told = {name: sim_parameters.to_json(found) for name, found in self._parameters.items()}
        return {"parameters": told, **({"like": self._like} if self._like else {})}

    def check(self) -> list[str]:
        """Nothing is needed."""
        return []

    def up(self, say: Say) -> None:
        """Nothing to bring up."""
        say("simulating: no testbed is brought up")

    def verify(self, progress: Callable[[float], None]) -> NetworkCheck:
        """A model's latencies are those asked for."""
        progress(1.0)
        nodes = tuple(node.name for node in self._experiment.testbed.nodes)
        return NetworkCheck(
            True, "simulated: nothing was measured", nodes, asked(self._experiment.testbed), None
        )

    def sustained(self) -> Sustained:
        """What the model itself sustains."""
        bed = self._experiment.testbed
        found = {
            stage.name: {
                share: sustained_by(stage, self._parameters[stage.name], bed, share) for share in SHARES
            }
            for stage in self._experiment.app.stages
        }
        return Sustained(found, "the simulator's own parameters")

    @contextlib.contextmanager
    def open(self, part: Part, load: Load) -> Iterator[SimSession]:
        """A simulation of its own for each part."""
        app = self._experiment.app
        real_time = any(stage.mode is Mode.real_time for stage in app.stages)
        # Arrivals count when they come after the start: the first record is due at the start itself.
        stream: Stream = Timed(load.due_s + 1e-6) if real_time else Counted(load.offered())
        placed = deployment.place(app, {stage: list(nodes) for stage, nodes in self._experiment.start}, ())
        simulation = SteppedSimulation(
            self._experiment.testbed,
            app,
            dict.fromkeys(app.sources, stream),
            placed,
            self._parameters,
            seed=part.seed,
            window_s=self._experiment.config.guard.window,
            faults=[
                each
                for fault in self._experiment.faults(load)
                for each in (
                    Fault(fault.at_s, fault.kind, fault.node),
                    Fault(fault.at_s + fault.lasts_s, "restore", fault.node),
                )
            ],
        )
        yield SimSession(simulation, load)

    def down(self, say: Say) -> None:
        """Nothing to take down."""
        del say


def asked(testbed: Testbed) -> tuple[tuple[float, ...], ...]:
    """The latency matrix as a table."""
    names = [node.name for node in testbed.nodes]
    return tuple(
        tuple(0.0 if a == b else round(testbed.latencies.rtt_ms(a, b), 3) for b in names) for a in names
    )
