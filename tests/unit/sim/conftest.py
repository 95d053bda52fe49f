"""A small world for the simulator's tests: nodes at chosen distances, apps of a few stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path as File
from typing import Any

import pytest
from fognetem.matrix import LatencyMatrix, Path

from fogctl.runtime.app import App, Mode, Stage
from fogctl.runtime.deployment import place
from fogctl.sim import Simulation, StageParameters
from fogctl.sim.streams import Stream
from fogctl.testbed.model import Kind, LatencyChange, Node, Role, Testbed


class World:
    """Makes testbeds, apps and simulations in a line or two."""

    @staticmethod
    def testbed(
        distances_ms: Sequence[float] = (0.0, 10.0, 50.0, 300.0),
        cores: Sequence[float] | float = 0.2,
        schedule: Sequence[LatencyChange] = (),
    ) -> Testbed:
        """Edge nodes e1, e2, … at these distances from control and broker."""
        each = [cores] * len(distances_ms) if isinstance(cores, float) else list(cores)
        names = [f"e{i + 1}" for i in range(len(distances_ms))]
        nodes = (
            Node("cloud", Role.control, "dc", "host", None, None),
            Node("broker", Role.broker, "dc", "host", None, None),
            *(
                Node(name, Role.edge, "fog", "rpi4-2g", core, 1 << 30)
                for name, core in zip(names, each, strict=True)
            ),
        )
        paths = tuple(
            (origin, name, Path(rtt_ms=far))
            for origin in ("cloud", "broker")
            for name, far in zip(names, distances_ms, strict=True)
        )
        matrix = LatencyMatrix(("cloud", "broker", *names), paths)
        return Testbed("toy", Kind.sim, nodes, matrix, tuple(schedule))

    @staticmethod
    def app(*stages: tuple[str, str, str], mode: Mode = Mode.micro_batch, **settings: Any) -> App:
        """Stages as (name, input, output)."""
        chosen = {"partitions": 4, "freshness_ms": 5000.0, **settings}
        made = tuple(
            Stage(
                name=name,
                function=name,
                inputs=(source,),
                output=output,
                memory_bytes=1 << 28,
                mode=mode,
                options=(),
                **chosen,
            )
            for name, source, output in stages
        )
        return App("toy", File("app.py"), made, File("app.yaml"))

    def simulation(
        self,
        inputs: Stream,
        nodes: Sequence[str] = ("e1",),
        parameters: StageParameters | Mapping[str, StageParameters] | None = None,
        *,
        testbed: Testbed | None = None,
        app: App | None = None,
        **others: Any,
    ) -> Simulation:
        """An app of one stage `work` that reads `records`, unless another is given."""
        app = app or self.app(("work", "records", "done"))
        if isinstance(parameters, StageParameters):
            parameters = {stage.name: parameters for stage in app.stages}
        deployment = place(app, {stage.name: nodes for stage in app.stages}, ())
        if len(app.stages) > 1:
            share = 1.0 / len(app.stages)
            from fogctl.runtime.deployment import Replica, StagePlacement

            for placement in deployment.stages:
                replicas = tuple(Replica(r.node, share) for r in placement.replicas)
                deployment = deployment.with_stage(
                    StagePlacement(placement.stage, placement.number, replicas)
                )
        return Simulation(
            testbed or self.testbed(), app, {app.sources[0]: inputs}, deployment, parameters, **others
        )


@pytest.fixture(scope="session")
def world() -> World:
    """Makes testbeds, apps and simulations."""
    return World()
