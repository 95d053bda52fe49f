"""Mosquitto's configuration, users and rights, and how topics are named."""

from __future__ import annotations

import base64
import hashlib
import json
import stat
from pathlib import Path

import pytest

from fogctl.errors import FogError
from fogctl.mqtt import mosquitto, topics
from fogctl.mqtt.credentials import Credentials, write_private
from fogctl.mqtt.device import reading
from fogctl.mqtt.mosquitto import MosquittoConfig


def test_mosquitto_listens_on_one_address_lets_nobody_in_unknown_and_drops_nothing(tmp_path: Path) -> None:
    lines = MosquittoConfig("10.77.0.2", tmp_path).text().splitlines()
    assert [line for line in lines if line.startswith(("listener", "port"))] == ["listener 1883 10.77.0.2"]
    for line in (
        "allow_anonymous false",
        "max_queued_messages 0",
        "max_queued_bytes 0",
        "persistence true",
        f"persistence_location {tmp_path}/store/",
    ):
        assert line in lines


def test_a_password_is_stored_as_mosquitto_checks_it() -> None:
    user, kind, iterations, salt, digest = (
        mosquitto.password_line("pi", "secret").strip().replace(":$", "$", 1).split("$")
    )
    assert (user, kind) == ("pi", "7")
    again = hashlib.pbkdf2_hmac("sha512", b"secret", base64.b64decode(salt), int(iterations))
    assert base64.b64decode(digest) == again
    assert mosquitto.password_line("pi", "secret") != mosquitto.password_line("pi", "secret")


def test_only_the_owner_can_read_passwords_and_old_ones_stay(tmp_path: Path) -> None:
    credentials = Credentials(tmp_path / "credentials.json")
    hashes = tmp_path / "passwords"
    assert credentials.ensure(["bridge"], hashes)
    first = credentials.password("bridge")
    assert credentials.ensure(["bridge", "device-1"], hashes)
    assert not credentials.ensure(["device-1"], hashes)
    assert credentials.password("bridge") == first != credentials.password("device-1")
    assert credentials.users() == ["bridge", "device-1"]
    for file in (credentials.file, hashes):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert first not in hashes.read_text()
    with pytest.raises(FogError, match="no MQTT user device-2"):
        credentials.password("device-2")


def test_a_private_file_is_private_whatever_was_there(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("old")
    file.chmod(0o644)
    write_private(file, "new")
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("new", 0o600)


def test_a_device_topic_is_read_back_and_nothing_else_is_one() -> None:
    topic = topics.DeviceTopic("sensors", "readings", "roof-1")
    assert (topic.mqtt, topic.kafka) == ("fog/sensors/readings/roof-1", "sensors.readings")
    assert topics.DeviceTopic.parse(topic.mqtt) == topic
    for other in ("fog/a/b", "fog/a/b/c/d", "fig/a/b/c", "fog//b/c", "fog/a b/c/d", "fog/é/b/c", ""):
        assert topics.DeviceTopic.parse(other) is None


@pytest.mark.parametrize("name", ["", "a/b", "+", "#", "a b", "-x", "ü", "x" * 65, "a\n"])
def test_a_name_that_could_reach_into_other_topics_is_refused(name: str) -> None:
    with pytest.raises(FogError, match="cannot be the name of a device"):
        topics.check_name(name)


def test_a_missing_mosquitto_is_one_sentence_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(FogError, match="apt-get install mosquitto"):
        mosquitto.find_mosquitto()


def test_readings_are_those_of_the_seed_with_a_time_spark_reads() -> None:
    one = json.loads(reading("device-1", 7, 1, 1_700_000_000.5))
    assert one["time"] == "2023-11-14T22:13:20.500Z"
    assert one == json.loads(reading("device-1", 7, 1, 1_700_000_000.5))
    assert one["value"] != json.loads(reading("device-1", 7, 2, 1_700_000_000.5))["value"]
