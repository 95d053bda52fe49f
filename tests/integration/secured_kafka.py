"""A second, real Kafka with TLS and a log-in, run inside a node: the external Kafka of tests."""

from __future__ import annotations

import os
import subprocess
import uuid
from pathlib import Path

from fogctl.java import require_java
from fogctl.runtime import jars
from fogctl.runtime.broker import cluster_identity
from fogctl.runtime.service import Service, Services
from fogctl.testbed.running import Running

PORT = 9193
NAME = "secured-kafka"
USER = "fog"
PASSWORD = f"a pass;word='{os.getpid()}'"
"""Of this test run alone: another, which formats a Kafka meanwhile, shows its own."""


def certificates(folder: Path, address: str) -> None:
    """ca.pem, and server.pem with key and certificate of a server at that address; other.pem is no one's."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    for name in ("ca", "other"):
        openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"),
            *("-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem"),
        )
    openssl(
        *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=kafka"),
        *("-keyout", "server.key", "-out", "server.csr"),
    )
    (folder / "names").write_text(f"subjectAltName=IP:{address}\n")
    openssl(
        *("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"),
        *("-days", "2", "-extfile", "names", "-out", "server.crt"),
    )
    (folder / "server.pem").write_text(
        (folder / "server.key").read_text() + (folder / "server.crt").read_text()
    )


def properties(folder: Path, address: str) -> dict[str, str]:
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": "1@localhost:19193",
        "listeners": f"CLIENT://{address}:{PORT},INNER://localhost:19194,CONTROLLER://localhost:19193",
        "advertised.listeners": f"CLIENT://{address}:{PORT},INNER://localhost:19194",
        "listener.security.protocol.map": "CLIENT:SASL_SSL,INNER:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "INNER",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(folder / "log"),
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": "1",
        "log.cleaner.dedupe.buffer.size": str(4 << 20),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "server.pem"),
        "listener.name.client.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.client.scram-sha-512.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
    }


def start(running: Running, services: Services, node: str, address: str, folder: Path) -> None:
    """Format and start it; its certificates must be there. It may take some seconds to answer."""
    services.ensure(Service(NAME, node, tuple(formatted(folder, address))))


def formatted(folder: Path, address: str) -> list[str]:
    """Format it; answers the command that runs it."""
    settings = folder / "server.properties"
    settings.write_text("".join(f"{key}={value}\n" for key, value in properties(folder, address).items()))
    java = str(require_java().executable)
    small = [java, "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    small += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    small += ["-cp", ":".join(map(str, jars.class_path(jars.BROKER)))]
    identity = cluster_identity(uuid.uuid4())
    login = f'SCRAM-SHA-512=[name={USER},password="{PASSWORD}"]'
    subprocess.run(
        [*small, "kafka.tools.StorageTool", "format", "-t", identity, "-c", str(settings), "-S", login],
        check=True,
        capture_output=True,
    )
    return [*small, "kafka.Kafka", str(settings)]
