"""How to connect to Kafka, as one value, and as the settings of each client: kafka-python, Spark, librdkafka.

A connection holds the names of secret files, never the secrets: those are read when a client is configured,
so they are in no argument list, no log, and no file of fogctl's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fogctl.errors import FogError
from fogctl.testbed.model import KafkaSasl, KafkaTls


@dataclass(frozen=True, slots=True)
class Security:
    """TLS and SASL, each or neither."""

    tls: KafkaTls | None = None
    sasl: KafkaSasl | None = None

    @property
    def protocol(self) -> str:
        """Kafka's name for the combination."""
        below = "PLAINTEXT" if self.tls is None else "SSL"
        return below if self.sasl is None else f"SASL_{below}"


@dataclass(frozen=True, slots=True)
class KafkaConnection:
    """Where the brokers are and how to be let in."""

    servers: str
    """HOST:PORT, several divided by commas."""
    security: Security = Security()

    def for_kafka_python(self) -> dict[str, Any]:
        """Keyword arguments of KafkaProducer, KafkaConsumer and KafkaAdminClient."""
        made: dict[str, Any] = {
            "bootstrap_servers": self.servers.split(","),
            "security_protocol": self.security.protocol,
            # A broker that was killed is back in seconds: look again soon (the default waits up to 30 s).
            "reconnect_backoff_max_ms": 500,
        }
        if (tls := self.security.tls) is not None:
            made |= {"ssl_cafile": tls.ca, "ssl_certfile": tls.cert, "ssl_keyfile": tls.key}
        if (sasl := self.security.sasl) is not None:
            made |= {
                "sasl_mechanism": sasl.mechanism,
                "sasl_plain_username": sasl.username,
                "sasl_plain_password": secret(sasl.password_file),
            }
        return made

    def for_spark(self) -> dict[str, str]:
        """Options of Spark's Kafka source and sink. Certificates are in them: executors need no files."""
        made = {
            "kafka.bootstrap.servers": self.servers,
            "kafka.security.protocol": self.security.protocol,
        }
        if (tls := self.security.tls) is not None:
            if tls.ca is not None:
                made |= {
                    "kafka.ssl.truststore.type": "PEM",
                    "kafka.ssl.truststore.certificates": _text(tls.ca),
                }
            if tls.cert is not None and tls.key is not None:
                made |= {
                    "kafka.ssl.keystore.type": "PEM",
                    "kafka.ssl.keystore.certificate.chain": _text(tls.cert),
                    "kafka.ssl.keystore.key": _text(tls.key),
                }
        if (sasl := self.security.sasl) is not None:
            made |= {
                "kafka.sasl.mechanism": sasl.mechanism,
                "kafka.sasl.jaas.config": _jaas(sasl),
            }
        return made

    def for_librdkafka(self) -> dict[str, str]:
        """Settings of confluent-kafka's clients."""
        made = {"bootstrap.servers": self.servers, "security.protocol": self.security.protocol}
        if (tls := self.security.tls) is not None:
            files = {
                "ssl.ca.location": tls.ca,
                "ssl.certificate.location": tls.cert,
                "ssl.key.location": tls.key,
            }
            made |= {name: file for name, file in files.items() if file is not None}
        if (sasl := self.security.sasl) is not None:
            made |= {
                "sasl.mechanism": sasl.mechanism,
                "sasl.username": sasl.username,
                "sasl.password": secret(sasl.password_file),
            }
        return made

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values, without a secret in them."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> KafkaConnection:
        """The inverse of `to_json`."""
        tls, sasl = data["security"]["tls"], data["security"]["sasl"]
        return cls(
            data["servers"],
            Security(None if tls is None else KafkaTls(**tls), None if sasl is None else KafkaSasl(**sasl)),
        )


def secret(file: str) -> str:
    """The first line of a file that holds a password; FogError if others could read it too."""
    path = Path(file)
    try:
        about = path.stat()
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise FogError(f"the password cannot be read: {reason}", file=file) from error
    # What a cluster mounts into a pod belongs to root and is given to the pod's own group: that is no leak.
    mounted = about.st_uid == 0 and os.geteuid() != 0
    if about.st_mode & (0o007 if mounted else 0o077):
        raise FogError("others can read this password", file=file, hint=f"chmod 600 {file}")
    if not lines or not lines[0]:
        raise FogError("holds no password", file=file, hint="write it into the first line")
    return lines[0]


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not PEM text"
        raise FogError(f"cannot be read: {reason}", file=file) from error


def _jaas(sasl: KafkaSasl) -> str:
    """The login that Java's client wants as one line of configuration."""
    module = "plain.PlainLoginModule" if sasl.mechanism == "PLAIN" else "scram.ScramLoginModule"
    return (
        f"org.apache.kafka.common.security.{module} required "
        f"username={_quoted(sasl.username)} password={_quoted(secret(sasl.password_file))};"
    )


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
