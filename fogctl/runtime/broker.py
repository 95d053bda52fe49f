"""The embedded broker: a real Apache Kafka in KRaft mode, one small JVM on the broker node."""

from __future__ import annotations

import base64
import contextlib
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fognetem.linux import inside

from fogctl.errors import FAILED, FogError
from fogctl.java import Java, require_java
from fogctl.runtime import class_archive, jars, ports
from fogctl.runtime.service import Service, Services, alive
from fogctl.testbed import names
from fogctl.testbed.model import Role, Testbed
from fogctl.testbed.running import Running

NAME = "broker"
DATA_PORT = 9092
"""Where apps connect: through the impaired network."""
MANAGEMENT_PORT = 9094
"""Where replay, audit and administration connect: through the network that impairments never touch."""
CONTROLLER_PORT = 9093
READY_PATIENCE_S = 120.0
CLASSES = Path(__file__).with_name("broker.classes.gz")
"""Names of the classes that a broker loads until it answers."""


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """A single-node KRaft broker. Heap and buffers are small: it shares a Pi, or a laptop, with the apps."""

    node: str
    management_address: str
    """Given as a number, because whoever manages has not the nodes' names."""
    log_folder: str
    heap_mb: int = 96
    topic_partitions: int = 1

    def properties(self) -> dict[str, str]:
        """The broker's settings."""
        return {
            "listeners": (
                f"DATA://{self.node}:{DATA_PORT},MANAGEMENT://{self.management_address}:{MANAGEMENT_PORT},"
                f"CONTROLLER://localhost:{CONTROLLER_PORT}"
            ),
            "advertised.listeners": (
                f"DATA://{self.node}:{DATA_PORT},MANAGEMENT://{self.management_address}:{MANAGEMENT_PORT}"
            ),
            "listener.security.protocol.map": ("DATA:PLAINTEXT,MANAGEMENT:PLAINTEXT,CONTROLLER:PLAINTEXT"),
            "inter.broker.listener.name": "MANAGEMENT",
            "controller.listener.names": "CONTROLLER",
            **small_broker(self.log_folder, self.topic_partitions),
        }

    def text(self) -> str:
        """The settings as a properties file."""
        return as_text(self.properties())


def small_broker(log_folder: str, topic_partitions: int = 1) -> dict[str, str]:
    """The settings of any single-node broker of ours, whoever may connect to it and from where."""
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@localhost:{CONTROLLER_PORT}",
        "log.dirs": log_folder,
        "num.partitions": str(topic_partitions),
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "num.network.threads": "2",
        "num.io.threads": "2",
        "log.segment.bytes": str(64 << 20),
        # The default of 128 MB does not fit into a small heap.
        "log.cleaner.dedupe.buffer.size": str(4 << 20),
        # A broker that was killed is taken back at once instead of after 9 s.
        "broker.session.timeout.ms": "2000",
        "broker.heartbeat.interval.ms": "500",
    }


def as_text(properties: Mapping[str, str]) -> str:
    """Settings as a properties file."""
    return "".join(f"{key}={value}\n" for key, value in properties.items())


def java_options(heap_mb: int) -> tuple[str, ...]:
    """A small JVM that starts fast and ends rather than limp."""
    return (
        *(f"-Xms{heap_mb}m", f"-Xmx{heap_mb}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        *("-XX:+ExitOnOutOfMemoryError", "-Djava.awt.headless=true"),
    )


def broker_node(testbed: Testbed) -> str:
    """The node the broker runs on: the one of that role, else the control node."""
    for role in (Role.broker, Role.control):
        for node in testbed.nodes:
            if node.role is role:
                return node.name
    raise FogError(
        "the testbed has neither a broker nor a control node", key="nodes", hint="give one that role"
    )


def management_address(testbed: Testbed) -> str:
    """The broker node's address on the management network."""
    return names.management_address([node.name for node in testbed.nodes].index(broker_node(testbed)))


def management_servers(testbed: Testbed) -> str:
    """Where the embedded broker is for replay, audit and administration, from the switch's namespace."""
    return f"{management_address(testbed)}:{MANAGEMENT_PORT}"


def data_servers(testbed: Testbed) -> str:
    """Where the embedded broker is for apps."""
    return f"{broker_node(testbed)}:{DATA_PORT}"


def start(running: Running, services: Services, progress: Callable[[str], None] = lambda _: None) -> float:
    """Have the broker run; returns after it answers, with the seconds that took."""
    began = time.monotonic()
    java = require_java()
    class_path = ":".join(map(str, jars.class_path(jars.BROKER)))
    node = broker_node(running.testbed)
    pid = services.pid(NAME)
    if pid is not None and services.get(NAME) is not None:
        _wait_until_ready(running, services, pid)
        return time.monotonic() - began
    _require_free_ports(running, services, node)
    folder = running.state.folder / NAME
    config = BrokerConfig(node, management_address(running.testbed), str(folder / "log"))
    settings = folder / "server.properties"
    if not (folder / "log" / "meta.properties").exists():
        progress("formatting the broker's log")
        folder.mkdir(parents=True, exist_ok=True)
        settings.write_text(config.text())
        _format(java, class_path, settings)
    settings.write_text(config.text())
    progress("starting the broker")
    pid = services.ensure(broker_service(java, class_path, config, settings))
    _wait_until_ready(running, services, pid)
    return time.monotonic() - began


def prepare(say: Callable[[str], None]) -> None:
    """Have what makes the broker start in half the CPU time: class data, made once a user."""
    class_path = ":".join(map(str, jars.class_path(jars.BROKER)))
    class_archive.ensure(require_java(), class_path, say, class_archive.folder() / NAME, CLASSES)


def _class_data(java: Java, class_path: str) -> list[str]:
    found = class_archive.find(java, class_path, class_archive.folder() / NAME, CLASSES)
    return class_archive.options(found).split() if found is not None else []


def _require_free_ports(running: Running, services: Services, node: str) -> None:
    """FogError if another process has one of the broker's ports."""
    try:
        for address, port in (
            (ports.data_address(running, node), DATA_PORT),
            (management_address(running.testbed), MANAGEMENT_PORT),
            (ports.LOOPBACK, CONTROLLER_PORT),
        ):
            ports.require_free(running, node, address, port, "the broker")
    except FogError:
        if services.pid(NAME) is None:  # else the supervisor was quicker, and it is the broker itself
            raise


def broker_service(java: Java, class_path: str, config: BrokerConfig, settings: Path) -> Service:
    """The broker as a process."""
    argv = (
        *(str(java.executable), *java_options(config.heap_mb)),
        *_class_data(java, class_path),
        *("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", class_path, "kafka.Kafka", str(settings)),
    )
    return Service(NAME, config.node, argv)


def cluster_identity(number: uuid.UUID) -> str:
    """A number as Kafka writes it, never beginning with a minus, which its tool would take for an option."""
    return base64.urlsafe_b64encode(number.bytes).decode().rstrip("=").replace("-", "0", 1)


def _format(java: Java, class_path: str, settings: Path) -> None:
    """Give the log folder its identity; Kafka refuses to start without."""
    identity = cluster_identity(uuid.uuid4())
    argv = [str(java.executable), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    argv += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error", *_class_data(java, class_path)]
    argv += ["-cp", class_path, "kafka.tools.StorageTool", "format", "-t", identity, "-c", str(settings)]
    ran = subprocess.run(argv, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        said = (ran.stderr or ran.stdout).strip().splitlines()
        raise FogError(
            f"the broker's log could not be formatted: {said[-1] if said else ''}",
            file=settings,
            exit_code=FAILED,
        )


def _wait_until_ready(running: Running, services: Services, pid: int) -> None:
    """Return when the broker accepts connections; one sentence from its log if it ends instead."""
    where = management_address(running.testbed), MANAGEMENT_PORT
    deadline = time.monotonic() + READY_PATIENCE_S
    while time.monotonic() < deadline:
        if not alive(pid):
            break
        # Asked from here, not by a command on the node: that would cost a starting JVM the CPU it needs.
        with contextlib.suppress(OSError), inside(names.switch(running.testbed.name)):
            socket.create_connection(where, timeout=1).close()
            return
        time.sleep(0.1)
    log = services.log(NAME)
    raise FogError(f"the broker did not come up: {last_error(log)}", hint=f"its log: {log}", exit_code=FAILED)


def last_error(log: Path) -> str:
    """The last line of a log that speaks of an error."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return "it wrote no log"
    errors = [line for line in lines if "ERROR" in line or "Exception" in line or "Error:" in line]
    return (errors or lines or ["its log is empty"])[-1].strip()[:300]
