"""Talking to the testbed's Kafka from the host, embedded or external: where to connect, topics.

kafka-python is imported by those who use it: most commands do not, and it is a quarter of their start.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fognetem.linux import inside

from fogctl.errors import FAILED, FogError
from fogctl.runtime import broker
from fogctl.runtime.kafka_config import KafkaConnection, Security
from fogctl.testbed import names
from fogctl.testbed.model import ExternalKafka, Role, Testbed
from fogctl.testbed.running import Running

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

_PATIENCE_S = 30.0
_LOOK_EVERY_S = 0.05

Reach = contextlib.AbstractContextManager[KafkaConnection]
"""In its body Kafka can be reached: `Ground.kafka()`, or `reachable(running)`."""


def app_connection(testbed: Testbed) -> KafkaConnection:
    """What apps on the nodes connect to."""
    if testbed.kafka is not None:
        return _external(testbed.kafka)
    return KafkaConnection(broker.data_servers(testbed))


@contextlib.contextmanager
def reachable(running: Running) -> Iterator[KafkaConnection]:
    """Inside the body Kafka can be reached; yields what to connect to.

    The embedded broker is reached through the management network, an external one from the control node.
    Connections opened there stay usable afterwards, and so do the threads started there.
    """
    testbed = running.testbed
    if testbed.kafka is not None:
        control = next(node.name for node in testbed.nodes if node.role is Role.control)
        with inside(running.namespace(control)):
            yield _external(testbed.kafka)
    else:
        with inside(names.switch(testbed.name)):
            yield KafkaConnection(broker.management_servers(testbed))


def _external(kafka: ExternalKafka) -> KafkaConnection:
    return KafkaConnection(",".join(kafka.servers), Security(kafka.tls, kafka.sasl))


@contextlib.contextmanager
def administration(reach: Reach, **settings: Any) -> Iterator[KafkaAdminClient]:
    """An administrator of the testbed's Kafka, for as long as the body lasts."""
    from kafka import KafkaAdminClient

    with reach as connection:
        admin = KafkaAdminClient(**connection.for_kafka_python(), **settings)
        try:
            yield admin
        finally:
            admin.close()


def ensure_topics(reach: Reach, topics: Mapping[str, int]) -> list[str]:
    """Have these topics with exactly so many partitions; FogError if one is there with another number.

    Nothing is made before every topic that is there was looked at. Answers those that were made.
    """
    from kafka.errors import KafkaError, TopicAlreadyExistsError

    try:
        with administration(reach) as admin:
            there = set(admin.list_topics())
            known = [name for name in topics if name in there]
            for found in admin.describe_topics(known) if known else []:
                check_partitions(found["name"], len(found["partitions"]), topics[found["name"]])
            lacking = {name: count for name, count in topics.items() if name not in there}
            if lacking:
                with contextlib.suppress(TopicAlreadyExistsError):
                    admin.create_topics({name: {"num_partitions": count} for name, count in lacking.items()})
                # Kafka has accepted them by now; the next who asks for them must find them.
                admin.wait_for_topics(list(lacking), timeout_ms=_PATIENCE_S * 1000)
            return list(lacking)
    except (KafkaError, OSError) as error:
        raise FogError(
            f"the broker refused the topics {', '.join(topics)}: {error}",
            hint="fogctl app status shows whether it runs",
            exit_code=FAILED,
        ) from error


def require_topic(reach: Reach, topic: str) -> None:
    """FogError if Kafka does not answer or has no such topic."""
    from kafka.errors import KafkaError

    try:
        with administration(reach) as admin:
            there = topic in admin.list_topics()
    except (KafkaError, OSError) as error:
        raise FogError(
            f"Kafka does not answer: {error}", hint="fogctl app status says more", exit_code=FAILED
        ) from error
    if not there:
        raise FogError(f"there is no topic {topic}", hint="deploy its app again", exit_code=FAILED)


def check_partitions(topic: str, found: int, asked: int) -> None:
    """Refuse a topic whose number of partitions is not the one the app asks for.

    Changing it would move keys to other partitions and break the checkpoints of the topic's readers.
    """
    if found != asked:
        way = f"deploy it so, then: fogctl app rm {topic.partition('.')[0]}"
        raise FogError(
            f"topic {topic} has {found} partitions, but the app asks for {asked}",
            hint=f"say partitions: {found} in its app.yaml; to start anew, {way}",
        )


def delete_topics(reach: Reach, topics: list[str]) -> None:
    """Remove these topics, and return when Kafka lists them no more; those that are gone do not matter."""
    from kafka.errors import KafkaError

    with contextlib.suppress(KafkaError, OSError), administration(reach) as admin:
        there = set(admin.list_topics())
        if gone := [name for name in topics if name in there]:
            admin.delete_topics(gone)
            deadline = time.monotonic() + _PATIENCE_S
            while not set(gone).isdisjoint(admin.list_topics()) and time.monotonic() < deadline:
                time.sleep(_LOOK_EVERY_S)
