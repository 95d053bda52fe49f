"""A Kafka outside that does not let us in: a clear refusal is told at once, silence is given its time."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError

from fogctl.errors import FogError
from fogctl.runtime import kafka, kafka_ready
from fogctl.runtime.kafka_config import KafkaConnection
from fogctl.testbed.model import ExternalKafka

OUTSIDE = ExternalKafka(servers=("10.0.0.1:9092",), tls=None, sasl=None)


def refusing(
    monkeypatch: pytest.MonkeyPatch, said: str | None, tries: int = 99
) -> tuple[list[int], Callable[[], None]]:
    """Ask a Kafka that so many times does not let us in, and logs that; the patience of each try."""
    asked: list[int] = []

    class Admin:
        def list_topics(self) -> list[str]:
            return []

    @contextlib.contextmanager
    def administration(reach: kafka.Reach, **settings: Any) -> Iterator[Admin]:
        with reach:
            asked.append(settings["bootstrap_timeout_ms"])
            if len(asked) <= tries:
                if said is not None:
                    logging.getLogger("kafka.net").warning(said)
                raise KafkaConnectionError("no bootstrap")
            yield Admin()

    monkeypatch.setattr(kafka, "administration", administration)
    reach = contextlib.nullcontext(KafkaConnection("10.0.0.1:9092"))
    return asked, lambda: kafka_ready.require_admission(reach, OUTSIDE)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "Handshake failed: certificate verify failed: unknown CA (_ssl.c:1)",
            "not to be trusted: unknown CA",
        ),
        ("SaslAuthenticationFailedError: bad", "it refuses the name or the password"),
        ("broker does not support PLAIN sasl mechanism", "it does not support PLAIN sasl mechanism"),
    ],
)
def test_a_clear_refusal_is_told_after_the_first_try(
    monkeypatch: pytest.MonkeyPatch, said: str, told: str
) -> None:
    asked, admit = refusing(monkeypatch, said)
    with pytest.raises(FogError, match=told):
        admit()
    assert asked == [kafka_ready.FIRST_TRY_S * 1000]


def test_who_does_not_say_why_is_given_all_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, admit = refusing(monkeypatch, None)
    with pytest.raises(FogError, match="it ends the connection, which has neither tls nor sasl"):
        admit()
    assert sum(asked) == kafka_ready.ADMISSION_PATIENCE_S * 1000


def test_who_lets_us_in_at_the_second_try_does(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, admit = refusing(monkeypatch, None, tries=1)
    admit()
    assert len(asked) == 2
