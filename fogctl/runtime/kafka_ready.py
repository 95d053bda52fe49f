"""Has Kafka ready before an app starts: Java, jars, and a broker that answers; or one sentence why not."""

from __future__ import annotations

import contextlib
import logging
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence

from fogctl.errors import FAILED, FogError
from fogctl.java import require_java
from fogctl.runtime import broker, jars, kafka
from fogctl.runtime.service import Services
from fogctl.testbed.model import ExternalKafka, Kind, Role
from fogctl.testbed.running import Running

CONNECT_PATIENCE_S = 5
ADMISSION_PATIENCE_S = 10
FIRST_TRY_S = 3
"""A refusal that was clear after so long is believed: kafka-python would try again until its time is over."""
_AT_A_TIME = 16


def ready(running: Running, services: Services, nodes: Sequence[str], say: Callable[[str], None]) -> None:
    """Have Kafka answer to apps on these nodes. Nothing is started before everything else was found good."""
    require_java()
    external = running.testbed.kafka
    for part in (jars.CONNECTOR,) if external is not None else (jars.BROKER, jars.CONNECTOR):
        if lacking := jars.missing(part, jars.cache_dir()):
            say(f"fetching {len(lacking)} jars, once")
        jars.fetch(part, jars.cache_dir())
    if external is None:
        if services.pid(broker.NAME) is None:
            broker.prepare(say)
            say("starting the broker")
        broker.start(running, services)
    else:
        say(f"trying {', '.join(external.servers)}")
        require_reachable(running, external, nodes)
        require_admission(kafka.reachable(running), external)


def require_reachable(running: Running, external: ExternalKafka, nodes: Sequence[str]) -> None:
    """FogError if one of the nodes, or the control node, reaches none of the servers."""
    control = [node.name for node in running.testbed.nodes if node.role is Role.control]
    asked = list(dict.fromkeys([*control, *nodes]))
    for start in range(0, len(asked), _AT_A_TIME):
        tries = {node: _try(running, node, external) for node in asked[start : start + _AT_A_TIME]}
        failed = [node for node, process in tries.items() if process.wait() != 0]
        if failed:
            emulated = running.testbed.kind is Kind.virtual
            raise FogError(
                f"{_some(failed)} cannot reach the Kafka at {', '.join(external.servers)}",
                key="kafka.servers",
                hint="emulated nodes have no route out of the testbed: the servers must listen inside it"
                if emulated
                else "check names, routes and firewalls from there",
                exit_code=FAILED,
            )


def _try(running: Running, node: str, external: ExternalKafka) -> subprocess.Popen[bytes]:
    places = (server.rsplit(":", 1) for server in external.servers)
    tries = " || ".join(
        f"timeout {CONNECT_PATIENCE_S} bash -c '3<>/dev/tcp/{host}/{port}'" for host, port in places
    )
    return subprocess.Popen(
        running.exec_argv(node, ["bash", "-c", tries]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def require_admission(reach: kafka.Reach, external: ExternalKafka) -> None:
    """FogError if the servers do not let us in: certificate, name or password."""
    from kafka.errors import KafkaError

    with _overheard() as said:
        try:
            _enter(reach, said)
        except (KafkaError, OSError) as error:
            key, reason = _refusal([*said, repr(error)]) or _guess([*said, repr(error)], external)
            raise FogError(
                f"the Kafka at {', '.join(external.servers)} does not let us in: {reason}",
                key=key,
                hint="mend it in testbed.yaml, then: fogctl up",
                exit_code=FAILED,
            ) from error


def _enter(reach: kafka.Reach, said: Sequence[str]) -> None:
    """Return when we are let in; the error if we are refused, or nobody answers in time."""
    from kafka.errors import KafkaError

    with reach as connection:

        def wait(patience_s: int) -> None:
            here = contextlib.nullcontext(connection)
            with kafka.administration(here, bootstrap_timeout_ms=patience_s * 1000) as admin:
                admin.list_topics()

        try:
            wait(FIRST_TRY_S)
        except (KafkaError, OSError) as error:
            if _refusal([*said, repr(error)]):
                raise
            wait(ADMISSION_PATIENCE_S - FIRST_TRY_S)


@contextlib.contextmanager
def _overheard() -> Iterator[list[str]]:
    """What kafka-python logs in the body: it says why a connection failed nowhere else."""
    said: list[str] = []

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    logger, ear = logging.getLogger("kafka"), Ear(logging.WARNING)
    logger.addHandler(ear)
    try:
        yield said
    finally:
        logger.removeHandler(ear)


def _refusal(said: Sequence[str]) -> tuple[str, str] | None:
    """The key to look at, and why, if that was said."""
    whole = "\n".join(said)
    if found := re.search(r"certificate verify failed: ([^(\n]*)", whole):
        return "kafka.tls", f"its certificate is not to be trusted: {found[1].strip()}"
    if found := re.search(r"does not support \S+ sasl mechanism[^\n]*", whole):
        return "kafka.sasl.mechanism", f"it {found[0]}"
    if "SaslAuthenticationFailed" in whole:
        return "kafka.sasl", "it refuses the name or the password"
    return None


def _guess(said: Sequence[str], external: ExternalKafka) -> tuple[str, str]:
    """The same, from what was not said."""
    whole = "\n".join(said)
    if external.sasl is not None and "socket disconnected" in whole and "Handshake failed" not in whole:
        # Kafka says why only in time for some: it answers late and closes at once.
        return "kafka.sasl", "it refuses the name or the password (it ends the connection at the log-in)"
    given = [name for name, value in (("tls", external.tls), ("sasl", external.sasl)) if value is not None]
    return "kafka", f"it ends the connection, which has {' and '.join(given) or 'neither tls nor sasl'}"


def _some(nodes: Sequence[str]) -> str:
    shown = ", ".join(nodes[:3])
    return f"nodes {shown} and {len(nodes) - 3} more" if len(nodes) > 3 else f"node {shown}"
