"""A cluster as the ground that apps stand on: pods of drivers and executors, a volume, the API server."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fognetem.matrix import LatencyMatrix

from fogctl.errors import FAILED, REFUSED, FogError
from fogctl.kube import broker, control_proxy, driver, executors, stage_objects
from fogctl.kube.app_objects import APP_FOLDER, DRIVER_ROLE, EXECUTOR_ROLE, STATE_FOLDER, StageRef
from fogctl.kube.background import Jobs
from fogctl.kube.credentials import control_token
from fogctl.kube.driver import DriverPlan
from fogctl.kube.nodes import node_states
from fogctl.kube.objects import Objects
from fogctl.kube.pod_logs import pod_logs
from fogctl.kube.pool import KubePool
from fogctl.kube.running import KubeRunning
from fogctl.kube.stage_objects import Limits
from fogctl.metrics.place import FIRST_STAGE_PORT, control_node
from fogctl.metrics.stage_side import StageWatch
from fogctl.metrics.values import WINDOW_S, Reader
from fogctl.runtime import app_copy, change_lock, fault_record, kafka_ready, spark
from fogctl.runtime.app import App, as_json
from fogctl.runtime.app_pools import AppPools
from fogctl.runtime.carry_out import Make, Say
from fogctl.runtime.deployment import AddReplica, Change, Deployment, StagePlacement, edge_nodes
from fogctl.runtime.ground import Log
from fogctl.runtime.kafka_config import KafkaConnection
from fogctl.testbed.model import Testbed

API_PATIENCE_S = 30.0
"""How long an API server that restarts is waited for."""
_IDENTITY = "volume-folder"


@dataclass(frozen=True, slots=True)
class KubeGround:
    """A testbed of kind k3s that is up. Satisfies `fogctl.runtime.ground.Ground`."""

    running: KubeRunning
    objects: Objects

    @classmethod
    def load(cls, name: str, parent: Path | None = None) -> KubeGround:
        """The ground of the testbed of that name; FogError if it is not up."""
        return cls.on(KubeRunning.load(name, parent))

    @classmethod
    def on(cls, running: KubeRunning) -> KubeGround:
        """The ground of this testbed."""
        return cls(running, Objects(running.access, API_PATIENCE_S))

    @property
    def testbed(self) -> Testbed:
        """What was asked for."""
        return self.running.testbed

    @property
    def folder(self) -> Path:
        """The testbed's state folder."""
        return self.running.folder

    @property
    def latencies(self) -> LatencyMatrix:
        """As injected now."""
        return self.running.state.load().latencies

    def attend(self) -> None:
        """The cluster keeps pods running, keepers what works for the testbed on this machine."""
        Jobs(self.folder).wake()

    def changing(self, app: str) -> AbstractContextManager[object]:
        """Hold the app's lock."""
        return change_lock.changing(self.folder, app)

    def ready(self, app: App, wanted: Deployment, steps: Sequence[Change], say: Say) -> None:
        """Nodes that answer, configuration that a cluster takes, and Kafka."""
        adding = {step.replica.node for step in steps if isinstance(step, AddReplica)}
        say("looking at the nodes")
        self._require_nodes([control_node(self.testbed), *sorted(adding)])
        for placement in wanted.stages:
            driver.config_map(self._plan(app, placement, app.name))
        if (external := self.testbed.kafka) is not None:
            say(f"trying {', '.join(external.servers)}")
            kafka_ready.require_admission(self.kafka(), external)

    def maker(self, *versions: tuple[App, Deployment | None]) -> Make:
        """Pools of pods."""
        by_stage = {
            placement.stage: self._pool(app, placement)
            for app, deployment in versions
            if deployment is not None
            for placement in deployment.stages
        }
        return AppPools(by_stage).make

    def limit(self, app: str, stage: str, node: str, share: float) -> None:
        """Resize the executor's pod in place."""
        self._limits.set(self._ref(app, stage), node, share)

    def executors(self, app: str, stage: str) -> list[str]:
        """By the labels of the nodes."""
        return stage_objects.labelled_nodes(self.objects, self._ref(app, stage))

    def ask(self, app: str, stage: str, request: dict[str, Any], timeout_s: float = 5.0) -> dict[str, Any]:
        """Through the API server."""
        return self._ask(self._ref(app, stage), request, timeout_s)

    def progress(self, app: str, stage: str, since_s: float = 0.0) -> list[dict[str, Any]]:
        """The driver reads its own file."""
        found: list[dict[str, Any]] = self.ask(app, stage, {"ask": "progress", "since_s": since_s}, 30.0)[
            "progress"
        ]
        return found

    @contextmanager
    def kafka(self) -> Iterator[KafkaConnection]:
        """At the broker node's address, or outside."""
        yield broker.outside(self.running)

    def reader(self, window_s: float = WINDOW_S) -> Reader:
        """Drivers and kubelets."""
        from fogctl.kube.reader import KubeReader

        return KubeReader(self.running, self.ask, window_s)

    def logs(self, app: str) -> Mapping[str, Log]:
        """Of its pods, as long as they are there."""
        return pod_logs(self.objects, self.testbed.name, app)

    def notes(self) -> list[str]:
        """Faults, nodes that do not answer, pods that find no place."""
        broken = fault_record.read(self.folder)
        said = [f"{fault.describe()} (fogctl fault restore {fault.name})" for fault in broken]
        for name, state in sorted(node_states(self.running).items()):
            if not state.ready:
                said.append(f"node {name} does not answer: {state.why}")
        for role in (DRIVER_ROLE, EXECUTOR_ROLE):
            said += stage_objects.troubles(self.objects, self.testbed.name, role)
        return said

    def forget(self, app: str) -> None:
        """Have the app's folder on the testbed's volume removed; a later deployment has another.

        What a fogctl left that was killed before it recorded anything goes too.
        """
        stage_objects.remove_app(self.objects, self.testbed.name, app)
        file = self._identity(app)
        if file.exists():
            where = (self.testbed.name, self.running.image, control_node(self.testbed))
            self.objects.create(driver.forget_job(*where, app, file.read_text()))

    # Inner workings

    @property
    def _limits(self) -> Limits:
        return Limits(self.running, self.objects, self._ask)

    def _ref(self, app: str, stage: str) -> StageRef:
        return StageRef(self.testbed.name, app, stage)

    def _ask(self, ref: StageRef, request: dict[str, Any], timeout_s: float = 5.0) -> dict[str, Any]:
        return control_proxy.ask(self.running.access, ref, control_token(self.folder), request, timeout_s)

    def _pool(self, app: App, placement: StagePlacement) -> KubePool:
        ref = self._ref(app.name, placement.stage)
        stage = app.stage(placement.stage)
        return KubePool(
            self.objects,
            self._plan(app, placement, self._volume_folder(app.name)),
            lambda request: self._ask(ref, request),
            self._limits,
            stage.freshness_ms / 1000,
        )

    def _plan(self, app: App, placement: StagePlacement, folder: str) -> DriverPlan:
        stage = app.stage(placement.stage)
        ref = self._ref(app.name, stage.name)
        pool = spark.Pool(app.name, stage.name, control_node(self.testbed), placement.number)
        inside = broker.inside(self.running)
        watch = StageWatch("", FIRST_STAGE_PORT + placement.number, inside)
        spec = {
            "app": app.name,
            "stage": as_json(stage),
            "code": f"{APP_FOLDER}/{app.code.name}",
            "origin": app_copy.origin(app.code),
            "most_tasks": stage.tasks or stage.slots * max(1, len(edge_nodes(self.testbed))),
            "settings": executors.settings(
                pool, ref, self.running.image, memory_bytes=stage.memory_bytes, slots=stage.slots
            ),
            "kafka": inside.to_json(),
            "input_topics": [app.topic(stream) for stream in stage.inputs],
            "output_topic": app.topic(stage.output),
            "warm_up_topic": app.warm_up_topic(stage),
            "checkpoint": f"{STATE_FOLDER}/checkpoint",
            "socket": "/tmp/runner.sock",
            "progress": f"{STATE_FOLDER}/progress.jsonl",
            "watch": watch.to_json(),
            "cluster": {
                "namespace": ref.namespace,
                "executors_selector": ref.selector(EXECUTOR_ROLE),
                "control_port": pool.control_port,
                "shared_state": self.testbed.kube.shared_storage,
            },
        }
        return DriverPlan(
            ref=ref,
            image=self.running.image,
            control=pool.control,
            control_port=pool.control_port,
            metrics_port=watch.port,
            state=f"{folder}/{stage.name}",
            shared=self.testbed.kube.shared_storage,
            spec=spec,
            code_name=app.code.name,
            code=app.code.read_text(encoding="utf-8"),
        )

    def _identity(self, app: str) -> Path:
        return self.folder / "apps" / app / _IDENTITY

    def _volume_folder(self, app: str) -> str:
        """The app's folder on the volume; a new one after it was forgotten, so no old checkpoint is met."""
        file = self._identity(app)
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            fresh = file.with_suffix(".new")
            fresh.write_text(f"{app}-{uuid.uuid4().hex[:8]}")
            fresh.replace(file)
        return file.read_text()

    def _require_nodes(self, wanted: Sequence[str]) -> None:
        """FogError if one of these nodes is not there, does not answer, or may get no pods."""
        states = node_states(self.running)
        for node in dict.fromkeys(wanted):
            state = states.get(node)
            if state is None:
                raise FogError(
                    f"the cluster has no node {node} of testbed {self.testbed.name}",
                    hint="fogctl up labels the nodes it finds; fogctl status shows them",
                    exit_code=FAILED,
                )
            if not state.ready:
                raise FogError(f"node {node} does not answer: {state.why}", exit_code=REFUSED)
            if state.cordoned:
                raise FogError(
                    f"node {node} is closed to new pods",
                    hint=f"kubectl uncordon {node}, or fogctl fault restore {node}",
                    exit_code=REFUSED,
                )
