"""Emulated nodes as the ground that apps stand on: services in namespaces, control groups, socket files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fognetem.matrix import LatencyMatrix

from fogctl.java import require_java
from fogctl.metrics.direct import DirectReader
from fogctl.metrics.values import WINDOW_S, Reader
from fogctl.runtime import (
    change_lock,
    control,
    kafka,
    kafka_ready,
    pool,
    progress,
    quota,
    supervised,
    supervisor_report,
)
from fogctl.runtime.app import App
from fogctl.runtime.app_pools import AppPools, require_free_ports
from fogctl.runtime.carry_out import Make, Say
from fogctl.runtime.deployment import Change, Deployment, StartStage
from fogctl.runtime.ground import Log
from fogctl.runtime.kafka_config import KafkaConnection
from fogctl.runtime.service import Services
from fogctl.testbed.model import Testbed
from fogctl.testbed.running import Running
from fogctl.testbed.virtual import require_root


@dataclass(frozen=True, slots=True)
class VirtualGround:
    """A virtual testbed that is up. Satisfies `fogctl.runtime.ground.Ground`."""

    running: Running
    services: Services

    @classmethod
    def on(cls, running: Running) -> VirtualGround:
        """The ground of this testbed."""
        return cls(running, Services(running))

    @property
    def testbed(self) -> Testbed:
        """What was asked for."""
        return self.running.testbed

    @property
    def folder(self) -> Path:
        """The testbed's state folder."""
        return self.running.state.folder

    @property
    def latencies(self) -> LatencyMatrix:
        """As injected now."""
        return self.running.state.load().latencies

    def attend(self) -> None:
        """Root is needed; a supervisor watches what should run."""
        require_root()
        if self.services.all():
            supervised.wake(self.running)

    def changing(self, app: str) -> AbstractContextManager[object]:
        """Hold the app's lock."""
        return change_lock.changing(self.folder, app)

    def ready(self, app: App, wanted: Deployment, steps: Sequence[Change], say: Say) -> None:
        """Free ports, Java, jars, a broker that answers, and what all JVMs share."""
        starting = [wanted.stage(step.stage) for step in steps if isinstance(step, StartStage)]
        require_free_ports(self.running, self.services, app.name, starting)
        nodes = [replica.node for placement in wanted.stages for replica in placement.replicas]
        kafka_ready.ready(self.running, self.services, nodes, say)
        pool.prepare(require_java(), say)

    def maker(self, *versions: tuple[App, Deployment | None]) -> Make:
        """Pools of services."""
        return AppPools.of(self.running, self.services, require_java(), *versions).make

    def limit(self, app: str, stage: str, node: str, share: float) -> None:
        """Straight to the kernel: nothing of the app need be read for it."""
        quota.limit(self.running, node, quota.part(app, stage), share)

    def executors(self, app: str, stage: str) -> list[str]:
        """By the list of services."""
        prefix = f"{app}.{stage}.executor."
        names = [service.name for service in self.services.all()]
        return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]

    def ask(self, app: str, stage: str, request: dict[str, Any], timeout_s: float = 5.0) -> dict[str, Any]:
        """Over the runner's socket file."""
        return control.ask(control.stage_socket(self.folder, app, stage), request, timeout_s)

    def progress(self, app: str, stage: str, since_s: float = 0.0) -> list[dict[str, Any]]:
        """From the file the runner writes."""
        return progress.recorded(self.folder / "apps" / app / stage, since_s)

    def kafka(self) -> AbstractContextManager[KafkaConnection]:
        """From inside the testbed's network."""
        return kafka.reachable(self.running)

    def reader(self, window_s: float = WINDOW_S) -> Reader:
        """Socket files and control groups."""
        return DirectReader(self.running, window_s)

    def logs(self, app: str) -> Mapping[str, Log]:
        """Files in the state folder."""
        prefix = f"{app}."
        files = sorted(self.services.log("x").parent.glob(f"{prefix}*.log"))
        return {file.stem.removeprefix(prefix): _log(file) for file in files}

    def notes(self) -> list[str]:
        """Faults, and what the supervisor cannot start."""
        return supervisor_report.notes(self.running)

    def forget(self, app: str) -> None:
        """Everything is in the state folder."""


def _log(file: Path) -> Log:
    def tail(lines: int) -> list[str]:
        return file.read_text(errors="replace").splitlines()[-lines:]

    return Log(str(file), file.stat().st_size, tail)
