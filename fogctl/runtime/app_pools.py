"""The executor pools of an app's stages, and how each kind of change is made to them."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from fogctl.java import Java
from fogctl.metrics.place import control_node, stage_watch
from fogctl.runtime import ports, spark
from fogctl.runtime.app import App
from fogctl.runtime.carry_out import together
from fogctl.runtime.deployment import (
    AddReplica,
    Change,
    Deployment,
    RemoveReplica,
    SetShare,
    StagePlacement,
    StartStage,
    StopStage,
)
from fogctl.runtime.pool import StagePool
from fogctl.runtime.service import Services
from fogctl.testbed.running import Running


class Pool(Protocol):
    """The driver and the executors of one stage, on some kind of testbed."""

    def start(self) -> None:
        """Start the driver and what it needs; `wait_…` tells when each is ready."""
        ...

    def wait_for_master(self) -> None:
        """Return when the driver can find whom it reports to."""
        ...

    def wait_until_running(self) -> None:
        """Return when the query runs; FogError with the app's own error if it fails."""
        ...

    def lift(self, node: str) -> None:
        """No CPU limit on a node for now."""
        ...

    def add(self, node: str, give_up: threading.Event) -> None:
        """Start an executor on a node; returns when it has registered."""
        ...

    def warm(self, node: str, give_up: threading.Event) -> None:
        """Return when the executor on a node has done its first tasks, or after a while."""
        ...

    def require(self, node: str) -> None:
        """FogError if the replica on a node has ended again."""
        ...

    def limit(self, node: str, share: float) -> None:
        """Give the replica on a node this share of it."""
        ...

    def remove(self, node: str) -> None:
        """Decommission the executor on a node."""
        ...

    def stop(self) -> None:
        """Stop everything of the stage; its checkpoint stays."""
        ...


@dataclass(frozen=True, slots=True)
class AppPools:
    """The pools of one app, by stage."""

    by_stage: Mapping[str, Pool]

    @classmethod
    def of(
        cls, running: Running, services: Services, java: Java, *versions: tuple[App, Deployment | None]
    ) -> AppPools:
        """The pools of every stage in these versions of an app; where several have it, of the last."""
        control = control_node(running.testbed)

        def pool(app: App, placement: StagePlacement) -> StagePool:
            names = spark.Pool(app.name, placement.stage, control, placement.number)
            return StagePool(running, services, java, app, app.stage(placement.stage), names)

        return cls(
            {
                placement.stage: pool(app, placement)
                for app, deployment in versions
                if deployment is not None
                for placement in deployment.stages
            }
        )

    def make(self, wave: Sequence[Change]) -> None:
        """Make changes at the same time: what starts, or replicas that leave; or any single one."""
        match wave:
            case [SetShare(stage, replica)]:
                self.by_stage[stage].limit(replica.node, replica.share)
            case [RemoveReplica(), *_]:
                leaving = [step for step in wave if isinstance(step, RemoveReplica)]
                together([functools.partial(self._remove, step) for step in leaving])
            case [StopStage(stage)]:
                self.by_stage[stage].stop()
            case _:
                self._start(
                    [step for step in wave if isinstance(step, StartStage)],
                    [step for step in wave if isinstance(step, AddReplica)],
                )

    def _remove(self, step: RemoveReplica, give_up: threading.Event) -> None:  # noqa: ARG002
        """Take one replica away, whatever becomes of others that leave."""
        self.by_stage[step.stage].remove(step.replica.node)

    def _start(self, stages: Sequence[StartStage], replicas: Sequence[AddReplica]) -> None:
        """Start stages and replicas together; no node's CPU is limited before all its replicas are ready."""
        pools = self.by_stage

        def add(step: AddReplica, give_up: threading.Event) -> None:
            pools[step.stage].add(step.replica.node, give_up)
            pools[step.stage].warm(step.replica.node, give_up)
            pools[step.stage].require(step.replica.node)

        def run(step: StartStage, give_up: threading.Event) -> None:  # noqa: ARG001
            pools[step.stage].wait_until_running()

        for stage in stages:
            pools[stage.stage].start()
        for stage in stages:
            pools[stage.stage].wait_for_master()
        for step in replicas:
            pools[step.stage].lift(step.replica.node)
        try:
            together(
                [
                    *(functools.partial(run, step) for step in stages),
                    *(functools.partial(add, step) for step in replicas),
                ]
            )
        finally:
            for step in replicas:
                pools[step.stage].limit(step.replica.node, step.replica.share)


def require_free_ports(
    running: Running, services: Services, app: str, stages: Iterable[StagePlacement]
) -> None:
    """FogError if another process has a port that one of these stages would listen on.

    Spark would not say so: a Master whose port is taken listens on the next one, where nobody looks for it.
    """
    control = control_node(running.testbed)
    address = ports.data_address(running, control)
    runs = {status.service.name for status in services.status() if status.pid is not None}
    for placement in stages:
        pool = spark.Pool(app, placement.stage, control, placement.number)
        watch = stage_watch(running.testbed, placement.number)
        if pool.service("master") not in runs:
            for port in (pool.port, pool.web_port):
                ports.require_free(running, control, address, port, f"the Master of stage {placement.stage}")
        if pool.service("driver") not in runs:
            what = f"the driver of stage {placement.stage}"
            ports.require_free(running, control, address, pool.driver_port, what)
            what = f"the metrics of stage {placement.stage}"
            ports.require_free(running, control, watch.address, watch.port, what)
