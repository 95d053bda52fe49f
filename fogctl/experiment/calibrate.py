"""Calibration before the first policy: a walk over node sets under overload, seen by the agent itself."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from fogmodels.throughput import Sample

from fogctl.agent.knowledge import Knowledge
from fogctl.agent.observation import Observation
from fogctl.agent.plan import Plan, Scale
from fogctl.agent.settings import Guard
from fogctl.agent.state import AgentState, Learned
from fogctl.experiment.experiment import Experiment, Part, PolicyUse
from fogctl.experiment.load import Load

KEY = "calibration"
OVERLOAD = 1.5
"""Records arrive so many times faster than the trace's busiest second: every set is tried at its limit."""
WINDOWS = 3.0
"""Metric windows spent at each point: one to settle, one to measure, one to spare."""


@dataclass(frozen=True, slots=True)
class Walk:
    """A policy that visits node sets, each for a while: 1, 2, half and all of the nearest nodes."""

    dwell_s: float
    name: str = KEY
    wants_arrivals: bool = False

    def decide(self, seen: Observation, known: Knowledge) -> Plan:
        """Go to the next set when the time at this one is over."""
        state = dict(known.memory)
        since = float(state.get("since_s", seen.at_s))
        place = int(state.get("place", 0))
        stage = seen.deployment.stages[0].stage
        sets = points(known)
        if seen.at_s - since < self.dwell_s or len(seen.deployment.stages) > 1:
            return Plan.keep("measuring", remember={"since_s": since, "place": place})
        if place + 1 >= len(sets):
            return Plan.keep("every set was tried", remember={"since_s": since, "place": place + 1})
        plan = (Scale(stage, sets[place + 1]),)
        return Plan(plan, "next set", remember={"since_s": seen.at_s, "place": place + 1})


def points(known: Knowledge) -> list[tuple[str, ...]]:
    """The node sets to visit, small first."""
    near = known.nearest_first([node.name for node in known.edge])
    sizes = sorted({1, min(2, len(near)), max(1, len(near) // 2), len(near)})
    return [near[:size] for size in sizes]


def duration_s(experiment: Experiment) -> float:
    """How long the whole walk takes."""
    edges = sum(node.role.value == "edge" for node in experiment.testbed.nodes)
    sizes = {1, min(2, edges), max(1, edges // 2), edges}
    each: float = WINDOWS * experiment.config.guard.window
    return each * (len(sizes) if len(experiment.app.stages) == 1 else 1) + each


def guard_of(experiment: Experiment) -> Guard:
    """Rails that let the walk go where it wants."""
    free = {"stabilise": 0.0, "scale_in_delay": 0.0, "pause_while_catching_up": False}
    many = {"most_added": 1000, "most_removed": 1000, "ineffective_after": 1_000_000, "stages": {}}
    return experiment.config.guard.model_copy(
        update={**free, **many, "min_replicas": 1, "max_replicas": None}
    )


def part(experiment: Experiment) -> Part:
    """Calibration as a part of its own, which is not scored."""
    return Part(PolicyUse(KEY, KEY), 0, experiment.config.seed)


def load(experiment: Experiment) -> Load:
    """The trace's records at one high rate for as long as the walk takes."""
    whole = experiment.load(part(experiment).seed)
    rate = OVERLOAD * float(whole.offered().max())
    count = int(rate * duration_s(experiment))

    def values() -> Iterator[bytes]:
        return itertools.islice(itertools.cycle(whole.values()), count)

    return Load(np.arange(count) / rate, values)


def learned(known: Knowledge) -> dict[str, Any]:
    """What the walk taught, as JSON values for the manifest."""
    return {
        name: {
            "saturated": [asdict(sample) for sample in stage.saturated],
            "batches": [asdict(sample) for sample in stage.batches],
            "stalls_s": {kind: list(values) for kind, values in stage.stalls_s.items()},
        }
        for name, stage in known.stages.items()
    }


def state(calibration: Mapping[str, Any]) -> AgentState:
    """The state that an agent begins with after such a calibration."""
    stages = {
        name: {
            "saturated": tuple(Sample(**sample) for sample in stage["saturated"]),
            "batches": tuple(Sample(**sample) for sample in stage["batches"]),
            "stalls_s": {kind: tuple(values) for kind, values in stage["stalls_s"].items()},
        }
        for name, stage in calibration.items()
    }
    return AgentState(Learned(stages))
