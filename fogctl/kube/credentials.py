"""A testbed's secrets: made once, kept in its state folder for their owner only, and given to its pods."""

from __future__ import annotations

import base64
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from fogctl.kube import names
from fogctl.kube.access import Manifest
from fogctl.runtime.kafka_config import Security, secret
from fogctl.testbed.model import ExternalKafka, KafkaSasl, KafkaTls, Testbed

KAFKA_PASSWORD_FILE = "kafka.password"
CONTROL_TOKEN_FILE = "control.token"
_TLS_KEYS = {"ca": "kafka-ca.pem", "cert": "kafka-cert.pem", "key": "kafka-key.pem"}


@dataclass(frozen=True, slots=True)
class Credentials:
    """The passwords of one testbed."""

    kafka_password: str
    control_token: str

    @classmethod
    def of(cls, folder: Path) -> Credentials:
        """Those of the state folder; made there if there are none."""
        return cls(_kept(folder / KAFKA_PASSWORD_FILE), _kept(folder / CONTROL_TOKEN_FILE))

    @classmethod
    def fresh(cls) -> Credentials:
        """New ones, kept nowhere."""
        return cls(_made(), _made())


def control_token(folder: Path) -> str:
    """What the drivers' control endpoints ask for."""
    return secret(str(folder / CONTROL_TOKEN_FILE))


def manifest(testbed: Testbed, given: Credentials) -> Manifest:
    """The Secret that the testbed's pods mount."""
    data = {
        names.KAFKA_PASSWORD: given.kafka_password.encode(),
        names.CONTROL_TOKEN: given.control_token.encode(),
    }
    if (kafka := testbed.kafka) is not None:
        if kafka.sasl is not None:
            data[names.KAFKA_PASSWORD] = secret(kafka.sasl.password_file).encode()
        for part, file in _tls_files(kafka).items():
            data[_TLS_KEYS[part]] = Path(file).read_bytes()
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {
            "name": names.SECRET,
            "namespace": names.namespace(testbed.name),
            "labels": names.labels(testbed.name),
        },
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }


def in_pods(kafka: ExternalKafka) -> Security:
    """How pods log in to a Kafka outside, with the files that their Secret is mounted as."""
    tls = sasl = None
    if kafka.tls is not None:
        tls = KafkaTls(**{part: f"{names.SECRET_FOLDER}/{_TLS_KEYS[part]}" for part in _tls_files(kafka)})
    if kafka.sasl is not None:
        file = f"{names.SECRET_FOLDER}/{names.KAFKA_PASSWORD}"
        sasl = KafkaSasl(kafka.sasl.mechanism, kafka.sasl.username, file)
    return Security(tls, sasl)


def write_private(file: Path, text: str) -> None:
    """Write a file that only its owner can read, in one piece."""
    scratch = file.with_name(f".{file.name}.new")
    with os.fdopen(os.open(scratch, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    scratch.replace(file)


def _kept(file: Path) -> str:
    if not file.exists():
        write_private(file, _made() + "\n")
    return secret(str(file))


def _made() -> str:
    """Digits and letters only: one word to every shell and parser on its way."""
    return secrets.token_hex(24)


def _tls_files(kafka: ExternalKafka) -> dict[str, str]:
    tls = kafka.tls
    if tls is None:
        return {}
    return {part: file for part, file in (("ca", tls.ca), ("cert", tls.cert), ("key", tls.key)) if file}
