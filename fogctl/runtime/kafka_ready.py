"""Has Kafka ready before an app starts: Java, jars, and a broker that answers; or one sentence why not."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence

from kafka.errors import KafkaError

from fogctl.errors import FAILED, FogError
from fogctl.java import require_java
from fogctl.runtime import broker, jars, kafka
from fogctl.runtime.service import Services
from fogctl.testbed.model import ExternalKafka, Kind, Role
from fogctl.testbed.running import Running

CONNECT_PATIENCE_S = 5
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
        say("starting the broker")
        broker.start(running, services)
    else:
        say(f"trying {', '.join(external.servers)}")
        require_reachable(running, external, nodes)
        require_admission(running, external)


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


def require_admission(running: Running, external: ExternalKafka) -> None:
    """FogError if the servers do not let us in: certificate, name or password."""
    try:
        with kafka.administration(running) as admin:
            admin.list_topics()
    except (KafkaError, OSError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise FogError(
            f"the Kafka at {', '.join(external.servers)} does not let us in: {reason}",
            key="kafka",
            hint="check tls and sasl in testbed.yaml",
            exit_code=FAILED,
        ) from error


def _some(nodes: Sequence[str]) -> str:
    shown = ", ".join(nodes[:3])
    return f"nodes {shown} and {len(nodes) - 3} more" if len(nodes) > 3 else f"node {shown}"
