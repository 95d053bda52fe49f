"""Topics made and removed: Kafka says so before everybody is told, so both wait until the topics are seen."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from fogctl.runtime import kafka


class Cluster:
    """A Kafka whose metadata follow two questions late."""

    def __init__(self) -> None:
        self.there: set[str] = set()
        self._late: list[set[str]] = []

    def list_topics(self) -> list[str]:
        if self._late:
            return sorted(self._late.pop(0))
        return sorted(self.there)

    def create_topics(self, topics: dict[str, Any]) -> None:
        self._late = [set(self.there)] * 2
        self.there |= set(topics)

    def delete_topics(self, topics: Iterable[str]) -> None:
        self._late = [set(self.there)] * 2
        self.there -= set(topics)

    def describe_topics(self, topics: Iterable[str]) -> list[dict[str, Any]]:
        return [{"name": name, "partitions": [{}] * 4} for name in topics]

    def wait_for_topics(self, topics: Iterable[str], timeout_ms: float) -> None:
        assert timeout_ms > 0
        while not set(topics) <= set(self.list_topics()):
            pass


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()

    @contextlib.contextmanager
    def administration(*_: object) -> Iterator[Cluster]:
        yield made

    monkeypatch.setattr(kafka, "administration", administration)
    return made


def test_what_was_made_is_there_for_the_next_and_what_was_removed_is_not(cluster: Cluster) -> None:
    reach: Any = None
    assert kafka.ensure_topics(reach, {"rides": 4}) == ["rides"]
    assert kafka.ensure_topics(reach, {"rides": 4}) == []
    kafka.delete_topics(reach, ["rides", "none"])
    assert cluster.list_topics() == []
