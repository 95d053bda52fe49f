"""Devices, Mosquitto, the bridge and Kafka, all real, all killed: every record counted; rights tried out."""

from __future__ import annotations

import functools
import json
import shutil
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fognetem.linux import inside
from kafka import KafkaConsumer, TopicPartition
from live_testbed import PATIENCE_S, Fogctl, eventually, ok
from paho.mqtt.client import Client
from paho.mqtt.reasoncodes import ReasonCode

from fogctl.mqtt import topics
from fogctl.mqtt.credentials import device_names
from fogctl.mqtt.device import Job, Published
from fogctl.mqtt.link import Link
from fogctl.mqtt.operate import BRIDGE_SERVICE, MOSQUITTO_SERVICE, Mqtt
from fogctl.runtime import audit as audits
from fogctl.runtime import kafka
from fogctl.runtime.broker import NAME as KAFKA_SERVICE
from fogctl.runtime.service import alive
from fogctl.testbed.running import Running

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        shutil.which("mosquitto", path="/usr/sbin:/usr/bin") is None, reason="Mosquitto is not installed"
    ),
]


@pytest.fixture
def mqtt(fogctl: Fogctl, bring_up: Callable[..., Running]) -> Mqtt:
    """A broker node and two Pis 10 ms away, with MQTT up and one stream."""
    pis = '{name: "pi[1-2]", role: edge, site: field, board: rpi4-2g, cpu: 20%, memory: 256MiB}'
    running = bring_up(pis, scale=None, rtt="10ms")
    ok(fogctl("mqtt", "up"))
    made = Mqtt.on(running)
    kafka.ensure_topics(kafka.reachable(made.running), {"lab.readings": 4})
    return made


def job(mqtt: Mqtt, count: int, *, first: int = 0, confirm: bool = True, rate_per_s: float = 120.0) -> Job:
    return Job(
        address=mqtt.address,
        credentials=str(mqtt.credentials.file),
        app="lab",
        stream="readings",
        devices=tuple(device_names(4)),
        count=count,
        rate_per_s=rate_per_s,
        first_number=first,
        confirm=confirm,
    )


@contextmanager
def publishing(mqtt: Mqtt, asked: Job) -> Iterator[list[Published]]:
    """Devices publish during the body; afterwards the list holds what they did."""
    result: list[Published] = []
    thread = threading.Thread(target=lambda: result.append(mqtt.publish("pi1", asked)), daemon=True)
    thread.start()
    eventually(lambda: mqtt.status()["bridge"]["counts"]["received"] > 0, "a record")
    yield result
    print("faults were over before the devices were:", thread.is_alive())
    thread.join(PATIENCE_S)
    assert not thread.is_alive(), "the devices still wait"


def kill(mqtt: Mqtt, *services: str) -> None:
    """kill -9, all at once; the supervisor would start them again, this does so without its pause."""
    old = {service: mqtt.services.pid(service) for service in services}
    for service in services:
        mqtt.services.kill(service)
    for service, pid in old.items():
        eventually(functools.partial(ended, mqtt, service, pid), f"the end of {service}")
        mqtt.services.restart(service)


def ended(mqtt: Mqtt, service: str, pid: int | None) -> bool:
    return mqtt.services.pid(service) != pid


def connected(mqtt: Mqtt) -> bool:
    """Whether the bridge that runs now has both sides and nothing is stuck in it."""
    said = json.loads((mqtt.folder / "bridge.status.json").read_text())
    return (said["pid"], said["mosquitto"], said["kafka"]) == (
        mqtt.services.pid(BRIDGE_SERVICE),
        "connected",
        "connected",
    )


def audited(mqtt: Mqtt, sent: int) -> audits.Audit:
    with kafka.reachable(mqtt.running) as connection:
        return audits.count(audits.keys_of(connection, "lab.readings"), sent)


def test_nothing_is_lost_over_kills_and_restarts_of_bridge_mosquitto_and_kafka(mqtt: Mqtt) -> None:
    with publishing(mqtt, job(mqtt, 2400)) as confirmed:
        kill(mqtt, BRIDGE_SERVICE)
        time.sleep(1)
        kill(mqtt, MOSQUITTO_SERVICE)
        time.sleep(1)
        # As when the node loses its power: what Mosquitto accepted meanwhile is in nobody's memory any more.
        kill(mqtt, BRIDGE_SERVICE, MOSQUITTO_SERVICE)
        time.sleep(1)
        kill(mqtt, KAFKA_SERVICE)
        time.sleep(1)
        kill(mqtt, BRIDGE_SERVICE)
        time.sleep(1)
        for service in (BRIDGE_SERVICE, MOSQUITTO_SERVICE):
            known = mqtt.services.get(service)
            assert known is not None
            mqtt.services.stop(service)
            time.sleep(0.5)
            mqtt.services.ensure(known)
        eventually(lambda: connected(mqtt), "the bridge with both sides")
    (result,) = confirmed
    print(result)
    assert (result.sent, result.done, result.confirmed) == (2400, 2400, 2400)
    found = audited(mqtt, 2400)
    print(found)
    assert (found.lost, found.foreign) == (0, 0)

    # Devices that trust Mosquitto's PUBACK: the bridge, a Mosquitto whose bridge listens, and Kafka may die.
    with publishing(mqtt, job(mqtt, 900, first=2400, confirm=False)) as accepted:
        kill(mqtt, BRIDGE_SERVICE)
        eventually(lambda: connected(mqtt), "the bridge with both sides")
        time.sleep(1)
        kill(mqtt, MOSQUITTO_SERVICE)
        time.sleep(1)
        kill(mqtt, KAFKA_SERVICE)
    (result,) = accepted
    assert (result.sent, result.done) == (900, 900)
    eventually(lambda: audited(mqtt, 3300).lost == 0, "the last record")
    print(result, audited(mqtt, 3300), mqtt.status())

    # A new device while the bridge is away and Mosquitto has its session from the disk only.
    bridge = mqtt.services.get(BRIDGE_SERVICE)
    assert bridge is not None
    mqtt.services.stop(BRIDGE_SERVICE)
    kill(mqtt, MOSQUITTO_SERVICE)
    late = replace(job(mqtt, 100, first=3300, confirm=False), devices=("attic",))
    assert mqtt.publish("pi2", late).done == 100
    mqtt.services.ensure(bridge)
    eventually(lambda: audited(mqtt, 3400).lost == 0, "the records of the new device")


class Visitor:
    """Somebody on a node who speaks MQTT."""

    def __init__(self, mqtt: Mqtt, user: str, password: str) -> None:
        self.refused, self.published, self.subscribed = "", "", ""
        self.heard: list[tuple[str, bytes]] = []
        self._node = mqtt.running.namespace("pi2")
        with inside(self._node):
            self.link = Link(mqtt.address, user, password, on_up=lambda _: None, on_refused=self._not_let_in)
        self.link.client.on_publish = self._answered
        self.link.client.on_subscribe = self._listening
        self.run(lambda: self.link.up or self.refused)

    def run(self, until: Callable[[], Any]) -> None:
        def turn() -> Any:
            with inside(self._node):
                self.link.tend(time.monotonic())
            self.heard += [(message.topic, bytes(message.payload)) for message in self.link.read()]
            self.link.write()
            return until()

        eventually(turn, "an answer")

    def publish(self, topic: str) -> str:
        self.published = ""
        self.link.client.publish(topic, b"x", qos=1)
        self.run(lambda: self.published)
        return self.published

    def subscribe(self, topic: str) -> str:
        self.subscribed = ""
        self.link.client.subscribe(topic, qos=1)
        self.run(lambda: self.subscribed)
        return self.subscribed

    def _not_let_in(self, reason: str) -> None:
        self.refused = reason

    def _answered(self, _client: Client, _data: Any, _mid: int, reason: ReasonCode, _properties: Any) -> None:
        self.published = str(reason)

    def _listening(
        self, _client: Client, _data: Any, _mid: int, reasons: list[ReasonCode], _properties: Any
    ) -> None:
        self.subscribed = str(reasons[0])


def test_everybody_writes_and_reads_only_what_is_theirs_and_down_leaves_nothing(
    mqtt: Mqtt, fogctl: Fogctl, name: str
) -> None:
    mqtt.add_devices(["roof", "cellar"])
    passwords = {user: mqtt.credentials.password(user) for user in ("roof", "cellar", "bridge")}
    assert not Visitor(mqtt, "roof", passwords["roof"]).refused
    assert Visitor(mqtt, "roof", "wrong").refused == "Not authorized"
    assert Visitor(mqtt, "nobody", "wrong").refused == "Not authorized"
    assert Visitor(mqtt, "roof", passwords["cellar"]).refused == "Not authorized"

    # Who tries is shown the door, so each is a visit of its own.
    for topic in ("fog/lab/readings/cellar", "confirmed/cellar", "other", "$SYS/broker/version"):
        assert Visitor(mqtt, "roof", passwords["roof"]).publish(topic) == "Not authorized", topic
    roof, cellar = (Visitor(mqtt, user, passwords[user]) for user in ("roof", "cellar"))
    # Mosquitto lets anybody subscribe; what may not be read is not delivered.
    for topic in ("#", "fog/#", "confirmed/#", "$SYS/#"):
        roof.subscribe(topic)
    assert cellar.publish("fog/lab/readings/cellar") == "Success"
    assert roof.publish("fog/lab/readings/roof") == "Success"
    assert roof.publish("fog/nothing/there/roof") == "Success"
    in_kafka = values_of(mqtt, "lab.readings", 2)
    # Without a number the key is the device, and what belongs to no stream is kept where it can be found.
    assert sorted(key or b"" for key, _ in in_kafka) == [b"cellar", b"roof"]
    assert values_of(mqtt, topics.REFUSED, 1) == [(b"fog/nothing/there/roof", b"x")]
    assert roof.heard == []
    roof.link.close()
    cellar.link.close()

    # The bridge's own rights, while the bridge is away: it reads, and writes confirmations only.
    mqtt.services.stop(BRIDGE_SERVICE)
    for topic in ("fog/lab/readings/bridge", "fog/lab/readings/roof", "other"):
        assert Visitor(mqtt, "bridge", passwords["bridge"]).publish(topic) == "Not authorized", topic

    for file in mqtt.folder.iterdir():
        # Mosquitto, which runs, may replace its own file meanwhile.
        with suppress(FileNotFoundError):
            if file.is_file() and file.name not in ("bridge.status.json",):
                assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    assert stat.S_IMODE(mqtt.folder.stat().st_mode) == 0o700
    assert fogctl("mqtt", "up").returncode == 0
    for password in passwords.values():
        assert all(password not in line for line in command_lines())
        for log in (mqtt.running.state.folder / "logs").iterdir():
            assert password not in log.read_text(errors="replace")

    pids = [mqtt.services.pid(service) for service in (MOSQUITTO_SERVICE, BRIDGE_SERVICE)]
    assert None not in pids
    assert fogctl("down").returncode == 0
    assert not any(alive(pid or 0) for pid in pids)
    assert not mqtt.folder.exists()


def values_of(mqtt: Mqtt, topic: str, count: int) -> list[tuple[bytes | None, bytes]]:
    """The first so many records of a topic, key and value."""
    with kafka.reachable(mqtt.running) as connection:
        consumer = KafkaConsumer(**connection.for_kafka_python(), enable_auto_commit=False)
    try:
        parts = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        consumer.assign(parts)
        consumer.seek_to_beginning(*parts)
        found: list[tuple[bytes | None, bytes]] = []

        def enough() -> bool:
            for records in consumer.poll(timeout_ms=200).values():
                found.extend((record.key, record.value) for record in records)
            return len(found) >= count

        eventually(enough, f"{count} records in {topic}")
        return found
    finally:
        consumer.close()


def command_lines() -> list[str]:
    return subprocess.run(
        ["ps", "-eo", "args"], capture_output=True, text=True, check=True
    ).stdout.splitlines()


def test_bad_input_is_one_sentence(fogctl: Fogctl, testbed_file: Callable[..., Path]) -> None:
    testbed_file()
    assert "is not up" in fogctl("mqtt", "up").stderr
    assert fogctl("up").returncode == 0
    for arguments, sentence in {
        ("publish", "--app", "sensors"): "app sensors is not deployed",
        ("credentials", "a/b"): '"a/b" cannot be the name of a device',
        ("credentials", "bridge"): "no device can be called bridge",
    }.items():
        done = fogctl("mqtt", *arguments)
        assert done.returncode in (1, 2)
        assert sentence in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    assert fogctl("mqtt", "status").returncode == 1
