"""From a device on a Pi to a windowed mean: MQTT, bridge, Kafka and Spark, checked by plain arithmetic."""

from __future__ import annotations

import json
import math
import shutil
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from kafka import KafkaConsumer, TopicPartition
from live_testbed import PATIENCE_S, Fogctl, ok

from fogctl.runtime import app as apps
from fogctl.runtime import kafka
from fogctl.testbed.running import Running

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        shutil.which("mosquitto", path="/usr/sbin:/usr/bin") is None, reason="Mosquitto is not installed"
    ),
]
WINDOW_S = 2.0


def test_the_means_of_sensors_are_those_of_what_the_devices_published(
    fogctl: Fogctl, bring_up: Callable[..., Running], tmp_path: Path
) -> None:
    bed = bring_up()
    # The shipped app with shorter windows, so that some are over soon.
    folder = tmp_path / "sensors"
    shutil.copytree(
        apps.shipped_apps()["sensors"].parent, folder, ignore=shutil.ignore_patterns("__pycache__")
    )
    described = (folder / "app.yaml").read_text().replace("window_s: 10, late_s: 5", "window_s: 2, late_s: 2")
    assert "window_s: 2" in described
    (folder / "app.yaml").write_text(described)

    for command in ("mqtt up", "app deploy sensors --on pi2"):
        ok(fogctl(*command.split()))
    publish = "mqtt publish --app sensors --stream readings --devices 3 --rate 30/s --count 240 --from pi1"
    said = json.loads(ok(fogctl(*publish.split(), "--record", "sent.jsonl", "-o", "json")))
    print(said)
    assert (said["sent"], said["confirmed"], said["refused"]) == (240, 240, "")
    audit = json.loads(ok(fogctl("audit", "sensors", "--stream", "readings", "-o", "json")))["readings"]
    assert (audit["sent"], audit["lost"], audit["foreign"]) == (240, 0, 0)

    expected, last_s = means((tmp_path / "sent.jsonl").read_text().splitlines())
    over = {key for key in expected if key[1] + WINDOW_S <= last_s}
    assert len(over) >= 6, "too few windows are over"

    def one_more() -> None:
        # Results come in the batch after the one that ends a window: a stream that stops leaves it open.
        ok(fogctl("mqtt", "publish", "--app", "sensors", "--devices", "3", "--count", "3", "--rate", "max"))

    found = results(bed, over, one_more)
    for key in over:
        assert found[key][1] == expected[key][1], key
        assert math.isclose(found[key][0], expected[key][0], rel_tol=1e-9), key
    assert fogctl("down").returncode == 0


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def means(lines: list[str]) -> tuple[dict[tuple[str, float], tuple[float, int]], float]:
    """Mean and count by sensor and window start; and when the last reading was taken."""
    values: dict[tuple[str, float], list[float]] = defaultdict(list)
    last_s = 0.0
    for line in lines:
        reading = json.loads(json.loads(line)["payload"])
        taken_s = seconds(reading["time"])
        last_s = max(last_s, taken_s)
        values[reading["sensor"], taken_s // WINDOW_S * WINDOW_S].append(reading["value"])
    return {key: (math.fsum(found) / len(found), len(found)) for key, found in values.items()}, last_s


def results(
    running: Running, wanted: set[tuple[str, float]], one_more: Callable[[], None]
) -> dict[tuple[str, float], tuple[float, int]]:
    """The app's results, read until the wanted windows are among them."""
    with kafka.reachable(running) as connection:
        consumer = KafkaConsumer(**connection.for_kafka_python(), enable_auto_commit=False)
    try:
        topic = "sensors.means"
        parts = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        consumer.assign(parts)
        consumer.seek_to_beginning(*parts)
        found: dict[tuple[str, float], tuple[float, int]] = {}
        deadline = time.monotonic() + PATIENCE_S
        while not wanted <= found.keys():
            assert time.monotonic() < deadline, f"no result for {sorted(wanted - found.keys())}"
            if not (polled := consumer.poll(timeout_ms=1000)):
                one_more()
            for records in polled.values():
                for record in records:
                    row = json.loads(record.value)
                    found[row["sensor"], seconds(row["from"])] = (row["mean"], row["count"])
        return found
    finally:
        consumer.close()
