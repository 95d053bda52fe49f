"""The embedded broker on a node: what keeps it from starting, ready, small, killed while it takes records.

One testbed for all tests here: those in which nothing starts come first.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path

import pytest
from kafka import KafkaProducer
from live_testbed import Fogctl, SharedTestbed, Tell

from fogctl.errors import FogError
from fogctl.runtime import audit, broker, kafka
from fogctl.runtime.service import Services, alive
from fogctl.testbed.running import Running

pytestmark = pytest.mark.timeout(600)
NODES = ("{name: pi1, role: edge, site: field, board: rpi4-2g}",)


@pytest.fixture
def bed(shared_testbed: SharedTestbed) -> Running:
    return shared_testbed.running


@pytest.fixture
def fogctl(shared_testbed: SharedTestbed) -> Fogctl:
    return shared_testbed.fogctl


@pytest.mark.parametrize(
    ("node", "port", "what"),
    [
        ("broker", 9092, "the broker"),
        ("cloud", 7100, "the Master of stage copy"),
        ("cloud", 7500, "the driver of stage copy"),
        ("cloud", 9300, "the metrics of stage copy"),
    ],
)
def test_a_port_that_is_taken_is_named_and_nothing_starts(
    fogctl: Fogctl, bed: Running, node: str, port: int, what: str
) -> None:
    listen = (
        f"import socket, time; s = socket.create_server(('', {port})); "
        "print('up', flush=True); time.sleep(600)"
    )
    taker = subprocess.Popen(
        bed.exec_argv(node, ["python3", "-c", listen]), stdout=subprocess.PIPE, text=True
    )
    try:
        assert taker.stdout is not None
        assert taker.stdout.readline() == "up\n"
        done = fogctl("app", "deploy", "identity", "--on", "pi1")
    finally:
        taker.kill()
        taker.wait()
    assert done.returncode == 1
    assert f"port {port} of node {node} is taken, and {what} needs it" in done.stderr.splitlines()[-1]
    assert Services(bed).status() == []
    assert not (bed.state.folder / "apps" / "identity").exists()


def test_without_network_java_or_a_kafka_nothing_starts(
    fogctl: Fogctl, bed: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deploy = ("app", "deploy", "identity", "--on", "pi1")
    with monkeypatch.context() as without:
        without.setenv("FOGCTL_CACHE_DIR", str(tmp_path / "empty"))
        without.setenv("FOGCTL_MAVEN_ROOT", "http://127.0.0.1:9/maven2")
        done = fogctl(*deploy)
    assert done.returncode == 1
    said = done.stderr.splitlines()[-1]
    assert "http://127.0.0.1:9/maven2 does not answer, or has none of the" in said
    assert "the first download needs a network" in said
    assert list((tmp_path / "empty" / "jars").iterdir()) == []
    with monkeypatch.context() as without:
        without.setenv("JAVA_HOME", str(tmp_path))
        without.setenv("PATH", "/nowhere")
        done = fogctl(*deploy)
    assert done.returncode == 1
    assert "no Java 17 or later on this machine" in done.stderr.splitlines()[-1]
    assert Services(bed).status() == []
    assert not (bed.state.folder / "apps" / "identity" / "deployment.json").exists()


def rss_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def test_a_broker_that_is_killed_while_it_takes_records_loses_none_it_acknowledged(
    bed: Running, tell: Tell
) -> None:
    services = Services(bed)
    ready_s = broker.start(bed, services)
    assert kafka.ensure_topics(kafka.reachable(bed), {"t.numbers": 4}) == ["t.numbers"]
    assert kafka.ensure_topics(kafka.reachable(bed), {"t.numbers": 4}) == []
    with pytest.raises(FogError, match=r"t\.numbers has 4 partitions, but the app asks for 8"):
        kafka.ensure_topics(kafka.reachable(bed), {"t.others": 2, "t.numbers": 8})
    with kafka.administration(kafka.reachable(bed)) as admin:
        assert "t.others" not in admin.list_topics()

    acknowledged: list[int] = []
    acknowledged_at: list[float] = []
    stop = threading.Event()

    def note(number: int) -> None:
        acknowledged.append(number)
        acknowledged_at.append(time.monotonic())

    with kafka.reachable(bed) as connection:
        producer = KafkaProducer(
            **connection.for_kafka_python(), acks="all", retries=1_000_000, delivery_timeout_ms=120_000
        )

    def produce() -> None:
        number = 0
        while not stop.is_set():
            key = b"%d" % number
            producer.send("t.numbers", key=key, value=key * 10).add_callback(lambda _, n=number: note(n))
            number += 1
            time.sleep(0.001)

    sender = threading.Thread(target=produce, daemon=True)
    sender.start()
    patience = time.monotonic() + 60
    while len(acknowledged) < 500 and time.monotonic() < patience:
        time.sleep(0.01)
    pid = services.pid(broker.NAME)
    assert pid is not None
    used_mb = rss_mb(pid)
    killed_at = time.monotonic()
    assert services.kill(broker.NAME) == 1
    while alive(pid):
        time.sleep(0.01)
    # The supervisor would do this; a second start beside it does no harm.
    broker.start(bed, services)
    back_s = time.monotonic() - killed_at
    before = len(acknowledged)
    while len(acknowledged) < before + 500 and time.monotonic() < killed_at + 120:
        time.sleep(0.01)
    first_s = next(at for at in acknowledged_at if at > killed_at + 0.5) - killed_at
    stop.set()
    sender.join()
    producer.flush(timeout=60)
    producer.close()
    assert len(acknowledged) >= before + 500
    with kafka.reachable(bed) as connection:
        found = audit.count(audit.keys_of(connection, "t.numbers"), max(acknowledged) + 1)
        seen = {int(key or b"-1") for key in audit.keys_of(connection, "t.numbers")}
    assert set(acknowledged) <= seen
    assert found.lost == 0
    tell(
        f"ready in {ready_s:.1f} s, {used_mb:.0f} MiB resident; after kill -9 it answers after "
        f"{back_s:.1f} s and acknowledges after {first_s:.1f} s; "
        f"{len(acknowledged)} acknowledged, 0 lost, {found.duplicates} twice"
    )
    kafka.delete_topics(kafka.reachable(bed), ["t.numbers", "t.none"])
    with pytest.raises(FogError, match=r"there is no topic t\.numbers"), kafka.reachable(bed) as connection:
        audit.keys_of(connection, "t.numbers")
