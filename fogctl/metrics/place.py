"""Where metrics are served: addresses, ports, services and files of a testbed. Pure."""

from __future__ import annotations

from pathlib import Path

from fogctl.errors import FogError
from fogctl.metrics.stage_side import StageWatch
from fogctl.testbed import names
from fogctl.testbed.model import Role, Testbed

NODES_SERVICE = "metrics.nodes"
PROMETHEUS_SERVICE = "metrics.prometheus"
NODES_PORT = 9290
PROMETHEUS_PORT = 9291
FIRST_STAGE_PORT = 9300
"""A stage's port is this plus its number among all stages of the testbed."""


def control_node(testbed: Testbed) -> str:
    """The node on which drivers, the node exporter and Prometheus run."""
    for node in testbed.nodes:
        if node.role is Role.control:
            return node.name
    raise FogError("the testbed has no control node", key="nodes", hint="give one the role control")


def control_address(testbed: Testbed) -> str:
    """The control node's address on the management network, which impairments never touch."""
    return names.management_address([node.name for node in testbed.nodes].index(control_node(testbed)))


def stage_watch(testbed: Testbed, number: int) -> StageWatch:
    """Where the stage of that number serves, and how it asks the broker: not through the impaired network."""
    # Whoever only reads metrics needs no Kafka client.
    from fogctl.runtime import broker
    from fogctl.runtime.kafka import app_connection
    from fogctl.runtime.kafka_config import KafkaConnection

    kafka = app_connection(testbed)
    if testbed.kafka is None:
        kafka = KafkaConnection(broker.management_servers(testbed))
    return StageWatch(control_address(testbed), FIRST_STAGE_PORT + number, kafka)


def folder(state: Path) -> Path:
    """Where metrics keep their files, in a testbed's state folder."""
    return state / "metrics"


def nodes_socket(state: Path) -> Path:
    """Where the node exporter answers, in a testbed's state folder."""
    return folder(state) / "nodes.sock"


def prometheus_url(testbed: Testbed) -> str:
    """The testbed's Prometheus, as seen from inside its namespaces."""
    return f"http://{control_address(testbed)}:{PROMETHEUS_PORT}"
