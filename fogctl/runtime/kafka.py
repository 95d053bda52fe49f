"""Talking to the testbed's broker from the host: topics, and where clients connect."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from fognetem.linux import inside
from kafka import KafkaAdminClient
from kafka.errors import KafkaError, TopicAlreadyExistsError

from fogctl.errors import FAILED, FogError
from fogctl.runtime import broker
from fogctl.testbed import names
from fogctl.testbed.running import Running


@contextlib.contextmanager
def reachable(running: Running) -> Iterator[str]:
    """Inside the body the broker can be reached; yields what to connect to.

    Connections opened there stay usable afterwards, and so do the threads started there.
    """
    with inside(names.switch(running.testbed.name)):
        yield broker.management_servers(running.testbed)


def ensure_topics(running: Running, topics: Mapping[str, int]) -> None:
    """Have these topics with at least so many partitions; FogError if one has another number."""
    try:
        with reachable(running) as servers:
            admin = KafkaAdminClient(bootstrap_servers=servers)
            try:
                there = set(admin.list_topics())
                lacking = {name: count for name, count in topics.items() if name not in there}
                if lacking:
                    with contextlib.suppress(TopicAlreadyExistsError):
                        admin.create_topics(
                            {
                                name: {"num_partitions": count, "replication_factor": 1}
                                for name, count in lacking.items()
                            }
                        )
            finally:
                admin.close()
    except (KafkaError, OSError) as error:
        raise FogError(
            f"the broker refused the topics {', '.join(topics)}: {error}",
            hint="fogctl app status shows whether it runs",
            exit_code=FAILED,
        ) from error


def delete_topics(running: Running, topics: list[str]) -> None:
    """Remove these topics; those that are gone already do not matter."""
    with contextlib.suppress(KafkaError, OSError), reachable(running) as servers:
        admin = KafkaAdminClient(bootstrap_servers=servers)
        try:
            there = set(admin.list_topics())
            if gone := [name for name in topics if name in there]:
                admin.delete_topics(gone)
        finally:
            admin.close()
