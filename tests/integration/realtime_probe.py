"""Runs the logs and taxi apps in Spark's real-time mode against a real broker; prints what came out as JSON.

A program of its own, because Spark takes the Kafka connector only when its JVM starts.
Usage: realtime_probe.py FOLDER LINES SEED
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fogapps.logs.lines import lines
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError
from pyspark.sql import DataFrame, SparkSession

from fogctl.java import find_java
from fogctl.runtime import jars, realtime, realtime_plan
from fogctl.runtime.app import App, OutputMode, Stage, load
from fogctl.runtime.broker import BrokerConfig
from fogctl.runtime.realtime import Facts
from fogctl.runtime.stage_query import load_function
from fogctl.trace.make import MakeOptions, make

PARTITIONS = 2
SLOTS = 10
WORK = {"work": "50"}
STAGES = [("taxi", "nearest"), ("logs", "parser"), ("logs", "counter"), ("logs", "matcher")]


_reserved: list[socket.socket] = []


def free_port() -> int:
    """A port that is given to nobody else for as long as this process lives; who asks for it can listen."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    _reserved.append(held)
    return int(held.getsockname()[1])


@contextlib.contextmanager
def broker(folder: Path) -> Iterator[str]:
    """fogctl's broker with its own settings, on ports that are free here."""
    java = find_java()
    assert java is not None
    os.environ["JAVA_HOME"] = str(java.home)
    ports = {port: str(free_port()) for port in ("9092", "9093", "9094")}
    text = BrokerConfig("127.0.0.1", "127.0.0.1", str(folder / "log")).text()
    for old, new in ports.items():
        text = text.replace(f":{old}", f":{new}")
    settings = folder / "server.properties"
    settings.write_text(text)
    command = [str(java.executable), "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"]
    command.append(":".join(map(str, jars.class_path(jars.BROKER))))
    identity = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    tool = ["kafka.tools.StorageTool", "format", "-t", identity, "-c", str(settings)]
    subprocess.run([*command, *tool], check=True, capture_output=True)
    with (folder / "broker.log").open("w") as log:
        process = subprocess.Popen([*command, "kafka.Kafka", str(settings)], stdout=log, stderr=log)
    try:
        yield f"127.0.0.1:{ports['9092']}"
    finally:
        process.kill()
        process.wait()


def administrator(bootstrap: str) -> KafkaAdminClient:
    """Waits for the broker."""
    deadline = time.monotonic() + 90
    while True:
        try:
            admin = KafkaAdminClient(bootstrap_servers=bootstrap)
            admin.list_topics()
            return admin
        except (KafkaError, OSError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def spark() -> SparkSession:
    settings = {
        "spark.master": f"local[{SLOTS}]",
        "spark.jars": ",".join(map(str, jars.class_path(jars.CONNECTOR))),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "700m",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "OFF",
    }
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def start(session: SparkSession, bootstrap: str, folder: Path, app: App, stage: Stage) -> Facts:
    """Start a stage's query in real-time mode; what the checks know of it."""
    raw = (
        session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", app.topic(stage.inputs[0]))
        .option("startingOffsets", "earliest")
        .load()
    )
    source = raw.selectExpr("cast(key as string)", "cast(value as string)", "timestamp")
    options = {**dict(stage.options), **WORK}
    result: DataFrame = load_function(app.code, stage.function)(source, options)
    facts = Facts(
        stage.name, OutputMode.update, 5000, (PARTITIONS,), 1, SLOTS, realtime_plan.facts(result)
    )  # fmt: skip
    realtime.check(facts)
    (
        result.writeStream.format("kafka")
        .queryName(f"{app.name}.{stage.name}")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", app.topic(stage.output))
        .option("checkpointLocation", str(folder / f"{app.name}.{stage.name}"))
        .outputMode("update")
        .trigger(realTime="5 seconds")
        .start()
    )
    return facts


def complete(seen: dict[str, list[tuple[str, str]]], rides: int, lines: int) -> bool:
    """Whether every record came out of each stage, and every line was counted."""
    counted: dict[str, int] = {}
    for key, value in seen["logs.counts"]:
        counted[key] = max(json.loads(value)["count"], counted.get(key, 0))
    wanted = {"taxi.places": rides, "logs.entries": lines, "logs.matches": lines}
    return all(len(seen[topic]) >= n for topic, n in wanted.items()) and sum(counted.values()) >= lines


def main(folder: Path, count: int, seed: int) -> dict[str, Any]:
    rides = [
        ride.decode() for ride in make(MakeOptions(seed=seed, days=0.01, rides_per_day=count * 100)).values()
    ]
    sent = {"taxi.rides": rides, "logs.lines": [line.text for line in lines(count, seed, dirt=0.2)]}
    read = ("taxi.places", "logs.entries", "logs.matches", "logs.counts")
    with broker(folder) as bootstrap:
        admin = administrator(bootstrap)
        topics = {topic for name in ("taxi", "logs") for topic in load(name).topics}
        admin.create_topics({t: {"num_partitions": PARTITIONS, "replication_factor": 1} for t in topics})
        producer = KafkaProducer(bootstrap_servers=bootstrap)
        session = spark()
        facts = []
        for app_name, stage in STAGES:
            app = load(app_name)
            facts.append(start(session, bootstrap, folder, app, app.stage(stage)))
        for topic, values in sent.items():
            for number, value in enumerate(values):
                producer.send(topic, key=str(number).encode(), value=value.encode())
        producer.flush()
        consumer = KafkaConsumer(*read, bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        seen: dict[str, list[tuple[str, str]]] = {topic: [] for topic in read}
        deadline = time.monotonic() + 120
        quiet_since = time.monotonic()
        # Until all that must come has come and nothing followed it for a while.
        while time.monotonic() < deadline:
            for partition, records in consumer.poll(timeout_ms=300).items():
                seen[partition.topic] += [(r.key.decode(), r.value.decode()) for r in records]
                quiet_since = time.monotonic()
            if complete(seen, len(rides), count) and time.monotonic() - quiet_since > 4:
                break
        failures = [str(query.exception()) for query in session.streams.active if query.exception()]
        active = sorted(query.name for query in session.streams.active)
        return {"sent": sent, "seen": seen, "active": active, "failures": failures,
                "tasks": sum(one.tasks for one in facts)}  # fmt: skip


if __name__ == "__main__":
    made = main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
    (Path(sys.argv[1]) / "made.json").write_text(json.dumps(made))
    os._exit(0)  # the queries need not be stopped in order: their broker is gone
