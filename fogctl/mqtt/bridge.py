"""The bridge from MQTT to Kafka: every message is acknowledged to Mosquitto only after Kafka has it.

Run as `python -m fogctl.mqtt.bridge SPEC`, a JSON file that says where both are and which file holds the
password. It outlives both sides: without Kafka it keeps what it was given, unacknowledged, up to `WINDOW`
messages, and Mosquitto keeps the rest; without Mosquitto it finishes its writes and connects again.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import select
import signal
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kafka.errors import KafkaError
from paho.mqtt.client import MQTTMessage
from paho.mqtt.subscribeoptions import SubscribeOptions

from fogctl.mqtt import mosquitto, topics
from fogctl.mqtt.credentials import Credentials
from fogctl.mqtt.deliveries import Acknowledge, Deliveries, Message, Write
from fogctl.mqtt.kafka_writer import KafkaWriter, Writer
from fogctl.mqtt.link import Link
from fogctl.runtime.kafka_config import KafkaConnection

WINDOW = 10_000
"""How many messages the bridge has in hand at once: with small readings some tens of megabytes at most."""
_TURN_S = 0.2
_RETRY_S = 1.0
_FINISH_S = 6.0
_SILENCE_S = 3.0
"""Kafka is called silent when it acknowledged nothing for so long though something is on its way."""


@dataclass(slots=True)
class Counts:
    """What the bridge has done since it started."""

    received: int = 0
    again: int = 0
    """Of those received, how many Mosquitto had sent before."""
    spared: int = 0
    """Of those, how many Kafka had, or was getting, already."""
    written: int = 0
    refused: int = 0
    """Written to the topic for what belongs to no stream."""
    acknowledged: int = 0
    confirmed: int = 0
    connections: int = 0


@dataclass(slots=True)
class Status:
    """What the bridge says of itself, in a file that is written anew each second."""

    pid: int
    mosquitto: str = "connecting"
    kafka: str = "connecting"
    in_hand: int = 0
    counts: Counts = field(default_factory=Counts)


class Bridge:
    """The process: one thread for MQTT and the bookkeeping, Kafka's client with its own."""

    def __init__(self, address: str, password: str, status_file: Path) -> None:
        self.status = Status(os.getpid())
        self._status_file = status_file
        self._said = ""
        self._next_status_s = 0.0
        self._deliveries = Deliveries()
        self._finished: collections.deque[tuple[int, BaseException | None]] = collections.deque()
        self._writes: dict[int, Message] = {}
        self._waiting: list[Write] = []
        self._last_written_s = time.monotonic()
        self._wait_until_s = 0.0
        self._writer: Writer | None = None
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._stopping = False
        self._link = Link(
            address,
            mosquitto.BRIDGE,
            password,
            keep_session=True,
            receive_maximum=WINDOW,
            on_up=self._up,
            on_down=self._down,
            on_refused=self._not_let_in,
        )

    # The loop

    def run(self, connection: KafkaConnection) -> None:
        """Carry messages until told to stop."""
        while not self._stopping:
            now_s = time.monotonic()
            if self._writer is None:
                self._connect_kafka(connection)
                continue
            self._link.tend(now_s)
            self._turn(_TURN_S)
            if self._waiting and now_s >= self._wait_until_s:
                waiting, self._waiting = self._waiting, []
                for write in waiting:
                    self._write(write)
            self._tell()
        self._finish()

    def stop(self) -> None:
        """End after what is in hand is finished."""
        self._stopping = True
        self._woken()

    def _turn(self, timeout_s: float) -> None:
        """Wait for either side, then do what came."""
        sockets = [found.fileno()] if (found := self._link.socket) is not None else []
        wanting = sockets if self._link.client.want_write() else []
        ready, writable, _ = select.select([*sockets, self._wake], wanting, [], timeout_s)
        if self._wake in ready:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._wake)
        acknowledged = self._take_finished()
        if any(number in ready for number in sockets) and not self._stopping:
            for message in self._link.read():
                if (answer := self._take(message)) is not None:
                    acknowledged.append(answer)
        self._acknowledge(acknowledged)
        if writable:
            self._link.write()

    def _finish(self) -> None:
        """Stop reading, let Kafka finish, acknowledge that; Mosquitto keeps the rest."""
        deadline = time.monotonic() + _FINISH_S
        while self._deliveries.unwritten and self._writer is not None and time.monotonic() < deadline:
            self._turn(0.05)
        self._turn(0)
        self._link.close()
        if self._writer is not None:
            self._writer.close(1.0)
        self.status.mosquitto = self.status.kafka = "stopped"
        self._tell(now=True)

    # Kafka's side

    def _connect_kafka(self, connection: KafkaConnection) -> None:
        try:
            self._writer = KafkaWriter(connection, self._done)
        except (KafkaError, OSError) as error:
            self._kafka_is(f"away: {error}")
            self._tell()
            time.sleep(_RETRY_S)
            return
        self._kafka_is("connected")

    def _done(self, token: int, error: BaseException | None) -> None:
        """In Kafka's thread. Whoever takes what is finished takes all of it, so the first one wakes."""
        self._finished.append((token, error))
        if len(self._finished) == 1:
            self._woken()

    def _woken(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_write(self._wake, 1)

    def _take_finished(self) -> list[Acknowledge]:
        found: list[Acknowledge] = []
        while self._finished:
            token, error = self._finished.popleft()
            if error is not None:
                self._postpone(Write(token, self._writes[token]), error)
                continue
            self._writes.pop(token)
            self.status.counts.written += 1
            self._last_written_s = time.monotonic()
            self._kafka_is("connected")
            if (answer := self._deliveries.written(token)) is not None:
                found.append(answer)
        return found

    def _write(self, write: Write) -> None:
        assert self._writer is not None
        message = write.message
        self._writes[write.token] = message
        target = topics.DeviceTopic.parse(message.topic)
        try:
            if target is not None and self._writer.has_topic(target.kafka):
                key = (message.number or target.device).encode()
                self._writer.write(write.token, target.kafka, key, message.payload)
            else:
                self._writer.write(
                    write.token, topics.REFUSED, message.topic.encode(errors="replace"), message.payload
                )
                self.status.counts.refused += 1
        except (KafkaError, OSError) as error:
            self._postpone(write, error)

    def _postpone(self, write: Write, error: BaseException) -> None:
        """Kafka did not take it: keep it and try again."""
        self._kafka_is(f"away: {type(error).__name__}: {error}")
        target = topics.DeviceTopic.parse(write.message.topic)
        if target is not None and self._writer is not None:
            self._writer.forget_topic(target.kafka)
        self._waiting.append(write)
        self._wait_until_s = time.monotonic() + _RETRY_S

    # Mosquitto's side

    def _up(self, session_present: bool) -> None:
        self.status.mosquitto = "connected"
        self.status.counts.connections += 1
        self._deliveries.connected(session_present=session_present)
        say(f"connected to Mosquitto, {'with' if session_present else 'without'} the old session")
        self._link.client.subscribe(topics.EVERY_DEVICE, options=SubscribeOptions(qos=1))

    def _down(self, reason: str) -> None:
        self.status.mosquitto = f"away: {reason}"
        self._deliveries.disconnected()
        say(f"Mosquitto is away: {reason}")

    def _not_let_in(self, reason: str) -> None:
        self.status.mosquitto = f"refused: {reason}"
        say(f"Mosquitto refused the bridge: {reason}")

    def _take(self, received: MQTTMessage) -> Acknowledge | None:
        counts = self.status.counts
        counts.received += 1
        counts.again += received.dup
        if received.qos == 0:
            # Nobody promised anything about it, and there is nothing to acknowledge.
            received.mid = 0
        answer = self._deliveries.delivered(received.mid, message_of(received), again=received.dup)
        if isinstance(answer, Write):
            if self._waiting:
                self._waiting.append(answer)
                self._writes[answer.token] = answer.message
            else:
                self._write(answer)
            return None
        counts.spared += 1
        return answer

    def _acknowledge(self, answers: list[Acknowledge]) -> None:
        """Confirm to the devices that asked, then acknowledge to Mosquitto.

        In this order: who is killed in between confirms again when Mosquitto delivers again.
        """
        confirmed: dict[str, list[str]] = {}
        for answer in answers:
            message = answer.message
            target = topics.DeviceTopic.parse(message.topic)
            if message.confirm and message.number is not None and target is not None:
                confirmed.setdefault(target.device, []).append(message.number)
        for device, numbers in confirmed.items():
            self._link.client.publish(topics.confirmations(device), " ".join(numbers), qos=0)
            self.status.counts.confirmed += len(numbers)
        for answer in answers:
            if answer.mid:
                self._link.client.ack(answer.mid, 1)
                self.status.counts.acknowledged += 1

    # What others see

    def _kafka_is(self, state: str) -> None:
        if state != self.status.kafka:
            say(f"Kafka is {state}")
        self.status.kafka = state

    def _tell(self, *, now: bool = False) -> None:
        """Write the status file, at most once a second and only if something changed."""
        if not now and time.monotonic() < self._next_status_s:
            return
        self._next_status_s = time.monotonic() + 1
        if not self.status.in_hand:
            self._last_written_s = time.monotonic()
        elif time.monotonic() > self._last_written_s + _SILENCE_S and self.status.kafka == "connected":
            self._kafka_is("silent")
        self.status.in_hand = self._deliveries.unwritten
        text = json.dumps(asdict(self.status))
        if text != self._said:
            fresh = self._status_file.with_suffix(".new")
            fresh.write_text(text)
            fresh.replace(self._status_file)
            self._said = text


def message_of(received: MQTTMessage) -> Message:
    """What a device published, with the number it gave and whether it wants to hear of it."""
    number, confirm = None, False
    if received.properties is not None:
        named: list[tuple[str, str]] = getattr(received.properties, "UserProperty", [])
        number = next((value for name, value in named if name == topics.NUMBER), None)
        confirm = hasattr(received.properties, "ResponseTopic")
    try:
        topic = received.topic
    except UnicodeDecodeError:
        topic = "(no text)"
    return Message(topic, bytes(received.payload), number, confirm)


def say(line: str) -> None:
    """A line in the log, with the time."""
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


def main(spec_file: Path) -> None:
    """Run the bridge that a spec describes."""
    spec: dict[str, Any] = json.loads(spec_file.read_text())
    bridge = Bridge(
        spec["address"],
        Credentials(Path(spec["credentials"])).password(mosquitto.BRIDGE),
        Path(spec["status"]),
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: bridge.stop())
    bridge.run(KafkaConnection.from_json(spec["kafka"]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
