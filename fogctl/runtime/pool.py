"""The executors of a stage: one a replica, started on exactly the asked nodes and read back."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fogctl.errors import FAILED, FogError
from fogctl.java import Java
from fogctl.metrics.place import stage_watch
from fogctl.runtime import app_copy, class_archive, jars, quota, spark
from fogctl.runtime.app import App, Stage, as_json
from fogctl.runtime.carry_out import GaveUpError
from fogctl.runtime.control import ask
from fogctl.runtime.deployment import edge_nodes
from fogctl.runtime.kafka import app_connection
from fogctl.runtime.service import Service, Services, alive
from fogctl.testbed.running import Running

PATIENCE_S = 120.0
WARM_PATIENCE_S = 30.0
STAYS_PATIENCE_S = 3.0
_LOOK_EVERY_S = 0.25
"""Each look costs the driver CPU that starting needs."""


@dataclass(frozen=True, slots=True)
class StagePool:
    """The pool of one stage on a running testbed."""

    running: Running
    services: Services
    java: Java
    app: App
    stage: Stage
    pool: spark.Pool

    @property
    def folder(self) -> Path:
        """Where the stage keeps what it must not lose."""
        return self.running.state.folder / "apps" / self.app.name / self.stage.name

    @property
    def socket(self) -> Path:
        """Where the stage runner answers."""
        return self.folder / "runner.sock"

    def start(self) -> None:
        """Start the Master and the driver; `wait_…` tells when each is ready."""
        self.folder.mkdir(parents=True, exist_ok=True)
        node = self.pool.control
        environment = spark.daemon_environment(node, self.java.home)
        master, memory = self.pool.service("master"), self.folder / "master"
        if self.services.get(master) is None:
            shutil.rmtree(memory, ignore_errors=True)  # what an earlier Master remembered is gone
        argv = spark.master_argv(self.pool, self._runtime, memory)
        self.services.ensure(Service(master, node, argv, environment))
        spec = self.folder / "spec.json"
        spec.write_text(json.dumps(self._spec()))
        self.services.ensure(self._driver(spec))

    def wait_for_master(self) -> None:
        """Return when the Master listens: a driver that finds nobody asks again only after twenty seconds."""
        name = self.pool.service("master")
        pid = self.services.pid(name)
        if pid is not None:
            self._wait(
                lambda: listens(pid, self.pool.port),
                f"the Master of {self.stage.name} did not start",
                lambda: alive(pid),
                name,
            )

    def status(self) -> dict[str, Any]:
        """What the stage runner says."""
        return ask(self.socket, {"ask": "status"})

    def add(self, node: str, give_up: threading.Event) -> None:
        """Start an executor on a node; returns when it has registered with the driver."""
        executor = self._executor(node)
        pid = self.services.ensure(executor)

        def registered() -> bool:
            if give_up.is_set():
                raise GaveUpError(f"the replica of {self.stage.name} on {node} was not waited for")
            return node in self.nodes()

        self._wait(
            registered,
            f"the replica of {self.stage.name} on {node} did not register",
            lambda: alive(pid),
            executor.name,
        )

    def warm(self, node: str, give_up: threading.Event) -> None:
        """Return when the executor on a node has done its first tasks, has ended, or after a while."""
        pid = self.services.pid(self.pool.service(f"executor.{node}"))
        deadline = time.monotonic() + WARM_PATIENCE_S
        while time.monotonic() < deadline and not give_up.is_set() and (pid is None or alive(pid)):
            with contextlib.suppress(FogError):
                if ask(self.socket, {"ask": "warm", "node": node})["warm"]:
                    return
            time.sleep(_LOOK_EVERY_S)

    def require(self, node: str) -> None:
        """FogError, with the executor's own words, if the replica on a node has ended again."""
        # A driver may list an executor for seconds that is dead already.
        service = self.pool.service(f"executor.{node}")
        deadline = time.monotonic() + STAYS_PATIENCE_S
        while self.services.pid(service) is None or node not in self.nodes():
            if time.monotonic() > deadline:
                self._require_no_failure()
                raise FogError(
                    f"the replica of {self.stage.name} on {node} does not stay: {self._last_words(node)}",
                    hint=f"fogctl app logs {self.app.name} {self.stage.name}.executor.{node}",
                    exit_code=FAILED,
                )
            time.sleep(_LOOK_EVERY_S)

    def _require_no_failure(self, status: Mapping[str, Any] | None = None) -> None:
        """FogError with the app's own error, in one sentence, if the query failed."""
        status = status or self.status()
        if status["state"] == "failed":
            raise FogError(f"stage {self.stage.name} failed: {status['error']}", exit_code=FAILED)

    def _last_words(self, node: str) -> str:
        log = self.services.log(self.pool.service(f"executor.{node}"))
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        errors = [line for line in lines if " ERROR " in line]
        return errors[-1].partition(" ERROR ")[2].strip()[:300] if errors else "its log tells no error"

    def remove(self, node: str) -> None:
        """Decommission the executor on a node: it finishes its tasks, takes no more, and ends."""
        name = self.pool.service(f"executor.{node}")
        pid = self.services.pid(name)
        if pid is not None:
            os.kill(pid, signal.SIGPWR)
            # Its last tasks belong to a batch, which may take as long as the freshness allows and more.
            deadline = time.monotonic() + max(10.0, 3 * self.stage.freshness_ms / 1000)
            while node in self.nodes() and time.monotonic() < deadline:
                time.sleep(_LOOK_EVERY_S)
        self.services.stop(name)
        self.running.remove_part(node, self.part)
        shutil.rmtree(self._blocks(node), ignore_errors=True)

    def lift(self, node: str) -> None:
        """No CPU limit on a node for now: at a tenth of a core a JVM would take minutes to start."""
        quota.lift(self.running, node, self.part)

    def limit(self, node: str, share: float) -> None:
        """Give the replica on a node this share of it, and the node its quota."""
        quota.limit(self.running, node, self.part, share)

    @property
    def part(self) -> str:
        """The part of a node that this stage's replica runs in."""
        return quota.part(self.app.name, self.stage.name)

    def nodes(self) -> list[str]:
        """The nodes whose executors the driver has."""
        try:
            return [each["node"] for each in ask(self.socket, {"ask": "executors"})["executors"]]
        except (FogError, KeyError):
            return []

    def stop(self) -> None:
        """Stop driver, executors and Master."""
        if self.services.pid(self.pool.service("driver")) is not None:
            with contextlib.suppress(FogError):
                ask(self.socket, {"ask": "stop"})
        prefix = f"{self.app.name}.{self.stage.name}."
        for service in self.services.all():
            if service.name.startswith(prefix):
                if service.part != self.part:
                    self.services.stop(service.name)
                    continue
                # Without a driver it has nothing to finish, and at a tenth of a core ending takes seconds.
                self.services.stop(service.name, (signal.SIGKILL,))
                self.running.remove_part(service.node, self.part)
                shutil.rmtree(self._blocks(service.node), ignore_errors=True)

    def wait_until_running(self) -> None:
        """Return when the query runs; the app's own error, in one sentence, if it fails."""
        name = self.pool.service("driver")

        def runs() -> bool:
            try:
                status = self.status()
            except FogError:
                return False
            self._require_no_failure(status)
            return bool(status["state"] == "running")

        pid = self.services.pid(name)
        self._wait(runs, f"stage {self.stage.name} did not start", lambda: pid is None or alive(pid), name)

    def _wait(self, done: Callable[[], bool], failure: str, lives: Callable[[], bool], service: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and lives():
            if done():
                return
            time.sleep(_LOOK_EVERY_S)
        raise FogError(failure, hint=f"its log: {self.services.log(service)}", exit_code=FAILED)

    def _executor(self, node: str) -> Service:
        blocks = self._blocks(node)
        blocks.mkdir(parents=True, exist_ok=True)
        argv = spark.executor_argv(
            self.pool,
            self._runtime,
            node,
            place=[each.name for each in self.running.testbed.nodes].index(node),
            cores=self.stage.slots,
            memory_mb=self._executor_mb,
            counter=self.folder / f"starts-{node}",
        )
        environment = spark.executor_environment(node, self.java.home, blocks)
        return Service(self.pool.service(f"executor.{node}"), node, argv, environment, self.part)

    def _blocks(self, node: str) -> Path:
        """Where the executor on a node keeps its blocks."""
        return self.folder / f"blocks-{node}"

    @property
    def _runtime(self) -> spark.Runtime:
        return runtime(self.java)

    @property
    def _executor_mb(self) -> int:
        return self.stage.memory_bytes >> 20

    def _driver(self, spec: Path) -> Service:
        environment = (
            *spark.daemon_environment(self.pool.control, self.java.home),
            ("PYSPARK_PYTHON", sys.executable),
        )
        argv = (sys.executable, "-m", "fogctl.runtime.stage_runner", str(spec))
        return Service(self.pool.service("driver"), self.pool.control, argv, environment)

    def _spec(self) -> dict[str, Any]:
        return {
            "app": self.app.name,
            "stage": as_json(self.stage),
            "code": str(self.app.code),
            "origin": app_copy.origin(self.app.code),
            "most_tasks": self.stage.tasks
            or self.stage.slots * max(1, len(edge_nodes(self.running.testbed))),
            "settings": spark.settings(
                self.pool,
                executor_memory_mb=self._executor_mb,
                executor_cores=self.stage.slots,
                runtime=self._runtime,
            ),
            "kafka": app_connection(self.running.testbed).to_json(),
            "input_topics": [self.app.topic(stream) for stream in self.stage.inputs],
            "output_topic": self.app.topic(self.stage.output),
            "warm_up_topic": self.app.warm_up_topic(self.stage),
            "checkpoint": str(self.folder / "checkpoint"),
            "socket": str(self.socket),
            "progress": str(self.folder / "progress.jsonl"),
            "watch": stage_watch(self.running.testbed, self.pool.number).to_json(),
        }


def runtime(java: Java) -> spark.Runtime:
    """What the pools' JVMs are started with; the class-data archive only if it has been made."""
    bare = spark.Runtime(java.executable, jars.class_path(jars.CONNECTOR))
    return replace(bare, archive=class_archive.find(java, bare.class_path))


def prepare(java: Java, say: Callable[[str], None]) -> None:
    """Have everything that the pools' JVMs share: jars, and the class-data archive."""
    bare = spark.Runtime(java.executable, jars.class_path(jars.CONNECTOR))
    class_archive.ensure(java, bare.class_path, say)


def listens(pid: int, port: int) -> bool:
    """Whether somebody listens on this port in the network of a process."""
    wanted = f":{port:04X}"
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[1].endswith(wanted) and fields[3] == "0A":
                    return True
    return False
