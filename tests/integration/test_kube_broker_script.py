"""The script of a cluster's broker pod, run here with the real Kafka: format, start, log in, come back."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError

from fogctl.java import require_java
from fogctl.kube import broker, names
from fogctl.runtime import jars
from fogctl.runtime.broker import as_text, java_options
from fogctl.runtime.kafka_config import KafkaConnection, Security
from fogctl.testbed.model import KafkaSasl
from tests.integration.realtime_probe import free_port

PASSWORD = "a1b2c3d4e5f6"


class Pod:
    """What a kubelet would do with the broker's container, but for the container."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self.controller = free_port(), free_port()
        for name in ("settings", "secret", "log", "tmp"):
            (folder / name).mkdir()
        settings = broker.properties() | {
            "log.dirs": str(folder / "log/log"),
            "controller.quorum.voters": f"1@localhost:{self.controller}",
        }
        (folder / "settings/server.properties").write_text(as_text(settings))
        secret = folder / "secret" / names.KAFKA_PASSWORD
        secret.write_text(PASSWORD)
        secret.chmod(0o600)
        java = require_java().executable
        self.environment = {
            "PATH": f"{java.parent}:/usr/bin:/bin",
            "KAFKA_USER": names.KAFKA_USER,
            "FOG_SECRETS": str(folder / "secret"),
            "FOG_SETTINGS": str(folder / "settings"),
            "LOG_FOLDER": str(folder / "log/log"),
            "NODE_ADDRESS": "127.0.0.1",
            "DATA_PORT": str(self.port),
            "CONTROLLER_PORT": str(self.controller),
            "CLUSTER_ID": "MkU3OEVBNTcwNTJENDM2Qg",
            "CLASS_PATH": ":".join(map(str, jars.class_path(jars.BROKER))),
            "JAVA_OPTIONS": " ".join(java_options(broker.HEAP_MB)),
            "TMPDIR": str(folder / "tmp"),
        }

    @property
    def connection(self) -> KafkaConnection:
        """As pods connect."""
        file = str(self.folder / "secret" / names.KAFKA_PASSWORD)
        return KafkaConnection(
            f"127.0.0.1:{self.port}", Security(sasl=KafkaSasl(broker.MECHANISM, names.KAFKA_USER, file))
        )

    def script(self, command: str) -> subprocess.Popen[bytes]:
        """The script with one command."""
        log = (self.folder / "broker.log").open("ab")
        argv = ["sh", str(Path(broker.__file__).with_name("broker.sh")), command]
        return subprocess.Popen(argv, env=self.environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def format(self) -> None:
        """As the init container does."""
        assert self.script("format").wait(120) == 0, (self.folder / "broker.log").read_text()

    def start(self) -> subprocess.Popen[bytes]:
        """The broker, answering."""
        process = self.script("run")
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and process.poll() is None:
            try:
                KafkaAdminClient(**self.connection.for_kafka_python()).close()
                return process
            except KafkaError:
                time.sleep(0.3)
        process.kill()
        raise AssertionError((self.folder / "broker.log").read_text()[-3000:])


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory) -> Pod:
    made = Pod(tmp_path_factory.mktemp("broker"))
    made.format()
    return made


def test_records_survive_a_killed_broker_and_nobody_gets_in_without_the_password(pod: Pod) -> None:
    process = pod.start()
    try:
        arguments = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        assert b"kafka.Kafka" in arguments
        assert PASSWORD.encode() not in arguments
        admin = KafkaAdminClient(**pod.connection.for_kafka_python())
        admin.create_topics({"rides": {"num_partitions": 2}})
        admin.close()
        producer = KafkaProducer(**pod.connection.for_kafka_python(), acks="all")
        for number in range(100):
            producer.send("rides", str(number).encode())
        producer.flush(60)
        producer.close()
        # A client that is turned away tries again until its time is over.
        wrong = pod.connection.for_kafka_python() | {"sasl_plain_password": "wrong"}
        with pytest.raises(KafkaError):
            KafkaAdminClient(**wrong, bootstrap_timeout_ms=3000)
        with pytest.raises(KafkaError):
            KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{pod.port}", bootstrap_timeout_ms=3000)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(30)
        pod.format()  # a pod that is started anew formats nothing anew
        process = pod.start()
        consumer = KafkaConsumer(
            "rides",
            **pod.connection.for_kafka_python(),
            auto_offset_reset="earliest",
            consumer_timeout_ms=120_000,
        )
        seen = set()
        for record in consumer:
            seen.add(int(record.value))
            if len(seen) == 100:
                break
        consumer.close()
        assert seen == set(range(100))
    finally:
        process.kill()
        process.wait(30)
