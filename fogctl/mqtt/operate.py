"""MQTT on a running testbed: Mosquitto and the bridge started, observed, stopped; devices that publish."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fognetem.linux import inside

from fogctl.errors import FAILED, FogError
from fogctl.mqtt import mosquitto, topics
from fogctl.mqtt.credentials import Credentials, write_private
from fogctl.mqtt.device import Job, Published
from fogctl.mqtt.mosquitto import BRIDGE, PORT, MosquittoConfig
from fogctl.runtime import broker, kafka, kafka_ready, ports
from fogctl.runtime.service import Service, Services, alive
from fogctl.testbed.running import Running

MOSQUITTO_SERVICE = "mqtt"
BRIDGE_SERVICE = "mqtt.bridge"
READY_PATIENCE_S = 60.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Mqtt:
    """MQTT of one running testbed. Its files are in the testbed's state folder and go with it."""

    running: Running
    services: Services

    @classmethod
    def on(cls, running: Running) -> Mqtt:
        """MQTT on this testbed."""
        return cls(running, Services(running))

    @property
    def node(self) -> str:
        """Where Mosquitto and the bridge run: with the broker."""
        return broker.broker_node(self.running.testbed)

    @property
    def address(self) -> str:
        """Where devices connect, through the impaired network."""
        return ports.data_address(self.running, self.node)

    @property
    def folder(self) -> Path:
        """Passwords, rights, stored messages, status."""
        return self.running.state.folder / "mqtt"

    @property
    def config(self) -> MosquittoConfig:
        """How Mosquitto is set up."""
        return MosquittoConfig(self.address, self.folder)

    @property
    def credentials(self) -> Credentials:
        """Everybody's passwords."""
        return Credentials(self.folder / "credentials.json")

    # What is there

    def status(self) -> dict[str, Any]:
        """Which of the two run, and what the bridge says of itself."""
        pids = {name: self.services.pid(name) for name in (MOSQUITTO_SERVICE, BRIDGE_SERVICE)}
        said: dict[str, Any] = {}
        with contextlib.suppress(OSError, ValueError):
            said = json.loads(self._status_file.read_text())
        stored = self.config.store / "mosquitto.db"
        return {
            "node": self.node,
            "address": f"{self.address}:{PORT}",
            "mosquitto": {"pid": pids[MOSQUITTO_SERVICE]},
            "bridge": {**said, "pid": pids[BRIDGE_SERVICE]},
            "devices": [user for user in self.credentials.users() if user != BRIDGE],
            "stored_bytes": stored.stat().st_size if stored.exists() else 0,
        }

    def require_up(self) -> None:
        """FogError unless both are to run; one that was killed a moment ago comes back."""
        for name, what in ((MOSQUITTO_SERVICE, "Mosquitto"), (BRIDGE_SERVICE, "the bridge")):
            if self.services.get(name) is None:
                raise FogError(f"{what} does not run", hint="fogctl mqtt up", exit_code=FAILED)

    # What changes it

    def plan(self) -> list[str]:
        """What `up` would do, in words."""
        running = {name for name in (MOSQUITTO_SERVICE, BRIDGE_SERVICE) if self.services.pid(name)}
        steps = [
            (MOSQUITTO_SERVICE, f"start Mosquitto on {self.node}, listening on {self.address}:{PORT}"),
            (BRIDGE_SERVICE, f"start the bridge to Kafka on {self.node}"),
        ]
        return [what for name, what in steps if name not in running]

    def up(self, say: Say = lambda _: None) -> None:
        """Have Mosquitto and the bridge run; returns when the bridge listens to the devices."""
        program = mosquitto.find_mosquitto()
        if self.services.pid(MOSQUITTO_SERVICE) is None:
            ports.require_free(self.running, self.node, self.address, PORT, "Mosquitto")
        kafka_ready.ready(self.running, self.services, [self.node], say)
        kafka.ensure_topics(kafka.reachable(self.running), {topics.REFUSED: 1})
        self._write_files()
        say("starting Mosquitto")
        pid = self.services.ensure(mosquitto_service(self.node, program, self.config))
        self._wait(MOSQUITTO_SERVICE, pid, self._mosquitto_listens, "Mosquitto")
        say("starting the bridge")
        pid = self.services.ensure(bridge_service(self.node, self._spec_file))
        self._wait(BRIDGE_SERVICE, pid, lambda: self._bridge_listens(pid), "the bridge")
        self._save_session()

    def down(self, *, forget: bool = False) -> None:
        """Stop both, the bridge last; messages that Kafka does not have yet are kept unless forgotten."""
        self.services.stop(BRIDGE_SERVICE)
        self.services.stop(MOSQUITTO_SERVICE)
        if forget:
            shutil.rmtree(self.folder, ignore_errors=True)

    def add_devices(self, names: Sequence[str]) -> None:
        """Have a user for each of these devices. For new ones Mosquitto is restarted, in order."""
        for name in names:
            topics.check_name(name)
            if name == BRIDGE:
                raise FogError(f"no device can be called {BRIDGE}", hint="that is the bridge's own name")
        if self.credentials.ensure([BRIDGE, *names], self.config.passwords):
            self._restart_mosquitto()

    def publish(
        self, node: str, job: Job, progress: Callable[[int, int], None] = lambda _sent, _done: None
    ) -> Published:
        """Have devices on a node publish; returns when all is done. Ctrl-C: nothing new is sent."""
        self.add_devices(job.devices)
        spec = self.folder / f"publish-{os.getpid()}.json"
        spec.write_text(json.dumps(asdict(job)))
        try:
            return self._publish(node, spec, progress)
        finally:
            spec.unlink(missing_ok=True)

    # Inner workings

    def _publish(self, node: str, spec: Path, progress: Callable[[int, int], None]) -> Published:
        argv = [sys.executable, "-P", "-m", "fogctl.mqtt.device", str(spec)]
        with subprocess.Popen(
            self.running.exec_argv(node, argv),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as fleet:
            assert fleet.stdout is not None
            assert fleet.stderr is not None
            try:
                for data in _until_interrupted(fleet, fleet.stdout):
                    if "result" in data:
                        return Published(**data["result"])
                    progress(data["sent"], data["done"])
                raise FogError(f"the devices on {node} ended: {_last_line(fleet.stderr)}", exit_code=FAILED)
            finally:
                if fleet.poll() is None:
                    fleet.terminate()

    @property
    def _spec_file(self) -> Path:
        return self.folder / "bridge.spec.json"

    @property
    def _status_file(self) -> Path:
        return self.folder / "bridge.status.json"

    def _restart_mosquitto(self) -> None:
        """End it in order and start it again, so that it reads the passwords anew.

        Not by SIGHUP: Mosquitto 2.0.11 then checks the passwords of all sessions, finds none in one that it
        restored and that has not connected since, and from then on drops, after a PUBACK, what is for it.
        """
        pid = self.services.pid(MOSQUITTO_SERVICE)
        if pid is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + READY_PATIENCE_S
        while alive(pid) and time.monotonic() < deadline:
            time.sleep(0.02)
        started = self.services.restart(MOSQUITTO_SERVICE) or self.services.pid(MOSQUITTO_SERVICE) or pid
        self._wait(MOSQUITTO_SERVICE, started, self._mosquitto_listens, "Mosquitto")

    def _mosquitto_listens(self) -> bool:
        return listens(self.running, self.node, self.address, PORT)

    def _write_files(self) -> None:
        config = self.config
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder.chmod(0o700)
        config.store.mkdir(exist_ok=True, mode=0o700)
        self.credentials.ensure([BRIDGE], config.passwords)
        write_private(config.rights, mosquitto.rights())
        write_private(config.file, config.text())
        spec = {
            "address": self.address,
            "credentials": str(self.credentials.file),
            "status": str(self._status_file),
            "kafka": kafka.app_connection(self.running.testbed).to_json(),
        }
        write_private(self._spec_file, json.dumps(spec))

    def _save_session(self) -> None:
        """Have the bridge's session on disk: a killed Mosquitto then knows for whom it keeps messages."""
        stored, pid = self.config.store / "mosquitto.db", self.services.pid(MOSQUITTO_SERVICE)
        if pid is None:
            return
        before_ns = stored.stat().st_mtime_ns if stored.exists() else 0
        os.kill(pid, signal.SIGUSR1)
        self._wait(
            MOSQUITTO_SERVICE,
            pid,
            lambda: stored.exists() and stored.stat().st_mtime_ns > before_ns,
            "Mosquitto's store",
        )

    def _bridge_listens(self, pid: int) -> bool:
        bridge = self.status()["bridge"]
        try:
            told = json.loads(self._status_file.read_text())
        except (OSError, ValueError):
            return False
        return bool(told["pid"] == pid == bridge["pid"] and told["mosquitto"] == "connected")

    def _wait(self, service: str, pid: int, ready: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + READY_PATIENCE_S
        while alive(pid) and time.monotonic() < deadline:
            if ready():
                return
            time.sleep(0.05)
        log = self.services.log(service)
        raise FogError(
            f"{what} did not come up: {broker.last_error(log)}", hint=f"its log: {log}", exit_code=FAILED
        )


def mosquitto_service(node: str, program: Path, config: MosquittoConfig) -> Service:
    """Mosquitto as a process."""
    return Service(MOSQUITTO_SERVICE, node, (str(program), "-c", str(config.file)))


def bridge_service(node: str, spec: Path) -> Service:
    """The bridge as a process."""
    return Service(BRIDGE_SERVICE, node, (sys.executable, "-P", "-m", "fogctl.mqtt.bridge", str(spec)))


def listens(running: Running, node: str, address: str, port: int) -> bool:
    """Whether something on that node accepts connections there."""
    with inside(running.namespace(node)), socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((address, port)) == 0


def _until_interrupted(fleet: subprocess.Popen[str], lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """What the devices say; Ctrl-C has them send nothing new, and then goes on listening."""
    told = iter(lines)
    while True:
        try:
            line = next(told, None)
        except KeyboardInterrupt:
            fleet.terminate()
            continue
        if line is None:
            return
        yield json.loads(line)


def _last_line(stream: Iterable[str]) -> str:
    lines = [line.strip() for line in stream if line.strip()]
    return lines[-1] if lines else "without a word"
