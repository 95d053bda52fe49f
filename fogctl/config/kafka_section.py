"""The `kafka:` section of testbed.yaml: a Kafka that runs already, instead of the testbed's own broker."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from fogctl.config.fields import Entry
from fogctl.config.problems import KeyPath, Problem
from fogctl.config.units import quoted
from fogctl.testbed.model import ExternalKafka, KafkaSasl, KafkaTls

_SERVER = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?:[0-9]{1,5}")
# Kafka's Java client reads no other form of a key.
_PLAIN_KEY = "-----BEGIN PRIVATE KEY-----"


def _server(raw: object) -> str:
    if not isinstance(raw, str) or not _SERVER.fullmatch(raw) or not 0 < int(raw.rpartition(":")[2]) < 65536:
        shown = quoted(str(raw))
        raise ValueError(f"{shown} is not HOST:PORT (write for example kafka1.example.org:9093)")
    return raw


class Mechanism(StrEnum):
    """How a password is shown to the brokers."""

    plain = "PLAIN"
    scram_256 = "SCRAM-SHA-256"
    scram_512 = "SCRAM-SHA-512"


class TlsEntry(Entry):
    """TLS, with host names checked; PEM files, relative to this file."""

    ca: str | None = Field(
        default=None,
        description="certificates of those who are trusted; default: whom the system trusts",
        examples=["ca.pem"],
    )
    cert: str | None = Field(default=None, description="our certificate and its chain", examples=["fog.pem"])
    key: str | None = Field(
        default=None, description="our key: PKCS#8, not encrypted, readable by its owner only"
    )

    @model_validator(mode="after")
    def _both_or_neither(self) -> TlsEntry:
        if (self.cert is None) != (self.key is None):
            raise ValueError("a certificate needs its key and the other way round (give cert and key)")
        return self


class SaslEntry(Entry):
    """A log-in by name and password."""

    mechanism: Annotated[Mechanism, Field(strict=False)] = Field(
        default=Mechanism.scram_512, examples=["SCRAM-SHA-512"]
    )
    username: str = Field(min_length=1, examples=["fog"])
    password_file: str = Field(
        description="a file with the password in its first line, readable by its owner only",
        examples=["kafka.password"],
    )


class KafkaEntry(Entry):
    """Where an external Kafka is and how to be let in."""

    servers: list[
        Annotated[
            str,
            BeforeValidator(_server),
            WithJsonSchema({"type": "string", "pattern": f"^{_SERVER.pattern}$"}),
        ]
    ] = Field(
        min_length=1,
        max_length=100,
        description="HOST:PORT of some of its brokers, as the nodes reach them",
        examples=["[kafka1.example.org:9093]"],
    )
    tls: TlsEntry | None = Field(default=None, description="default: not encrypted")
    sasl: SaslEntry | None = Field(default=None, description="default: no log-in")


def external(entry: KafkaEntry, folder: Path) -> tuple[ExternalKafka, list[Problem]]:
    """The Kafka of an entry, with its files as whole paths, and what is wrong with those."""
    problems: list[Problem] = []

    def file(name: str | None, *key: str, secret: bool = False) -> str | None:
        if name is None:
            return None
        path = (folder / Path(name.replace("\0", "")).expanduser()).absolute()
        problems.extend(_file_problems(path, ("kafka", *key), secret))
        return str(path)

    tls = None
    if (given := entry.tls) is not None:
        tls = KafkaTls(
            file(given.ca, "tls", "ca"),
            file(given.cert, "tls", "cert"),
            key := file(given.key, "tls", "key", secret=True),
        )
        if key is not None and not problems and _PLAIN_KEY not in Path(key).read_text(errors="replace"):
            hint = f"openssl pkcs8 -topk8 -nocrypt -in {given.key} -out KEY"
            problems.append(Problem("is not a plain PKCS#8 key", key=("kafka", "tls", "key"), hint=hint))
    sasl = None
    if entry.sasl is not None:
        password = file(entry.sasl.password_file, "sasl", "password_file", secret=True)
        sasl = KafkaSasl(entry.sasl.mechanism.value, entry.sasl.username, str(password))
    return ExternalKafka(tuple(entry.servers), tls, sasl), problems


def _file_problems(path: Path, key: KeyPath, secret: bool) -> list[Problem]:
    try:
        with path.open("rb"):
            mode = path.stat().st_mode
    except OSError as error:
        return [Problem(f"{path} cannot be read: {error.strerror}", key=key)]
    if secret and mode & 0o077:
        return [Problem(f"others can read {path}", key=key, hint=f"chmod 600 {path}")]
    return []
