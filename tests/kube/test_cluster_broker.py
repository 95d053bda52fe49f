"""A testbed's Kafka on real kubelets: its broker as a pod, killed; state on shared storage; one outside."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fogctl.kube import broker, names
from fogctl.kube.running import KubeRunning
from fogctl.runtime.service import Services
from fogctl.testbed.names import data_address
from tests.integration import secured_kafka
from tests.integration.live_testbed import audited, ok
from tests.kube.control_plane import until
from tests.kube.kubelets import Kubelets
from tests.kube.stage_image import StageImage
from tests.kube.storage import SHARED_CLASS

NAME = "pods"
SPACE = names.namespace(NAME)
POD = f"{names.BROKER}-0"

CLIENT = """
import json, sys
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from fogctl.runtime.kafka_config import KafkaConnection
settings = KafkaConnection.from_json(json.loads(sys.argv[2])).for_kafka_python()
if sys.argv[1] == "write":
    admin = KafkaAdminClient(**settings)
    admin.create_topics({"rides": {"num_partitions": 2}})
    producer = KafkaProducer(**settings, acks="all")
    for number in range(500):
        producer.send("rides", str(number).encode())
    producer.flush(60)
    print(500)
elif sys.argv[1] == "count":
    first, number = int(sys.argv[3]), int(sys.argv[4])
    producer = KafkaProducer(**settings, acks="all")
    for each in range(first, first + number):
        producer.send("tally.words", key=f"k{each % 8}".encode(), value=b"x")
    producer.flush(60)
    print(number)
elif sys.argv[1] == "counted":
    # The newest count of each key, added up.
    patience = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 3000}
    consumer = KafkaConsumer("tally.counts", **settings, **patience)
    newest = {}
    for record in consumer:
        newest[record.key] = max(int(record.value), newest.get(record.key, 0))
    print(sum(newest.values()))
else:
    consumer = KafkaConsumer("rides", **settings, auto_offset_reset="earliest", consumer_timeout_ms=20000)
    seen = set()
    for record in consumer:
        seen.add(int(record.value))
        if len(seen) == 500:
            break
    print(len(seen))
"""


@pytest.fixture(scope="module")
def bed(kubelets: Kubelets, stage_image: StageImage) -> Iterator[KubeRunning]:
    """A testbed of all nodes, written by fogctl from what the cluster says, and brought up."""
    kubelets.load(stage_image.archive)
    file = kubelets.folder / "pods.yaml"
    made = kubelets.fogctl(
        *("init", NAME, "--kind", "k3s", "--kubeconfig", str(kubelets.kubeconfig)),
        *("--testbed", str(file), "--no-up"),
    )
    assert made.returncode == 0, made.stderr
    # Nothing tells which of these nodes the cluster is run from: the roles are the user's to say.
    roles = {"cloud": "control", "broker": "broker"}
    text = re.sub(
        r"name: (\w+), role: \w+",
        lambda found: f"name: {found[1]}, role: {roles.get(found[1], 'edge')}",
        file.read_text(),
    )
    shared = f"kube:\n  storage_class: {SHARED_CLASS}\n  shared_storage: true\n"
    file.write_text(text.replace("kube:\n", shared))
    up = kubelets.fogctl("up", "--testbed", str(file), timeout=600)
    assert up.returncode == 0, up.stderr
    yield KubeRunning.load(NAME, kubelets.state_dir)
    down = kubelets.fogctl("down", NAME, timeout=600)
    assert down.returncode == 0, down.stderr


def client(kubelets: Kubelets, bed: KubeRunning, what: str, *more: int) -> int:
    """How many records a client on the control node wrote or read."""
    connection = json.dumps(broker.outside(bed).to_json())
    argv = kubelets.inside([sys.executable, "-c", CLIENT, what, connection, *map(str, more)])
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1])


def test_records_survive_a_killed_broker(
    kubelets: Kubelets, bed: KubeRunning, tell: Callable[[str], None]
) -> None:
    plane = kubelets.plane
    pod = plane.read("pod", POD, "-n", SPACE)
    assert pod["spec"]["nodeName"] == "broker"
    assert broker.outside(bed).servers == f"{pod['status']['hostIP']}:9092"
    assert client(kubelets, bed, "write") == 500
    began = time.monotonic()
    plane.kubectl("delete", "pod", POD, "-n", SPACE, "--grace-period=0", "--force")

    def back() -> bool:
        found = [each for each in plane.read("pods", "-n", SPACE)["items"] if each["metadata"]["name"] == POD]
        return any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for each in found
            if each["metadata"]["uid"] != pod["metadata"]["uid"]
            for condition in each["status"].get("conditions", [])
        )

    until(back, "the broker is back")
    tell(f"a killed broker pod answered again after {time.monotonic() - began:.1f} s")
    assert client(kubelets, bed, "read") == 500


def test_the_broker_is_no_root_and_shows_its_password_to_nobody(kubelets: Kubelets, bed: KubeRunning) -> None:
    password = (bed.folder / "kafka.password").read_bytes().strip()
    listed = dict(processes())
    brokers = [pid for pid, argv in listed.items() if b"kafka.Kafka" in argv and in_pod(kubelets, pid)]
    users = [Path(f"/proc/{pid}/status").read_text().partition("Uid:")[2].split()[:4] for pid in brokers]
    assert users == [[str(broker.USER_ID)] * 4]
    assert not [argv for argv in listed.values() if password in b" ".join(argv)]
    assert password not in Path(f"/proc/{brokers[0]}/environ").read_bytes()


def processes() -> Iterator[tuple[int, list[bytes]]]:
    """All processes of this host with their whole argument lists, which `ps` cuts off as it likes."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            yield int(folder.name), (folder / "cmdline").read_bytes().split(b"\0")


def in_pod(kubelets: Kubelets, pid: int) -> bool:
    """Whether a process belongs to a pod of these kubelets."""
    try:
        return kubelets.group("broker") in Path(f"/proc/{pid}/cgroup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_second_up_leaves_the_broker_alone(kubelets: Kubelets, bed: KubeRunning) -> None:
    before = kubelets.plane.read("pod", POD, "-n", SPACE)["metadata"]["uid"]
    again = kubelets.fogctl("up", "--testbed", str(kubelets.folder / "pods.yaml"), "-o", "json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["made"] == []
    assert kubelets.plane.read("pod", POD, "-n", SPACE)["metadata"]["uid"] == before
    assert bed.testbed.name == NAME


COUNTING = """
from pyspark.sql import functions as f

def count(records, options):
    counted = records.groupBy("key").count()
    return counted.select("key", f.col("count").cast("string").alias("value"))
"""
STAGE = "{name: count, inputs: [words], output: counts, partitions: 4, freshness: 2s, output_mode: update}"


def test_a_stage_keeps_its_state_when_the_node_that_had_it_leaves(
    kubelets: Kubelets, bed: KubeRunning, tell: Callable[[str], None]
) -> None:
    """Counts go on where they were: executors keep them on the volume that all nodes share."""
    folder = kubelets.folder / "tally"
    folder.mkdir()
    (folder / "app.yaml").write_text(f"name: tally\nstages:\n  - {STAGE}\n")
    (folder / "app.py").write_text(COUNTING)

    def run(*arguments: str) -> None:
        ok(kubelets.fogctl("app", *arguments, "--testbed", NAME, timeout=600))

    def has_counted(number: int) -> None:
        until(lambda: client(kubelets, bed, "counted") == number, f"{number} records are counted", 300)

    run("deploy", "tally", "--on", "pi1,pi2")
    client(kubelets, bed, "count", 0, 400)
    has_counted(400)
    (volume,) = [
        claim["spec"]["volumeName"]
        for claim in kubelets.plane.read("pvc", "-n", SPACE)["items"]
        if claim["metadata"]["name"] == names.STATE_CLAIM
    ]
    kept = kubelets.folder / "shared" / volume.removeprefix(f"{SHARED_CLASS}-")
    assert list(kept.glob("tally-*/count/checkpoint/state/0/*/*.delta")), "the executors' state is there"
    began = time.monotonic()
    run("scale", "tally", "count", "--nodes", "pi2")
    client(kubelets, bed, "count", 400, 400)
    has_counted(800)
    tell(f"counts went on {time.monotonic() - began:.1f} s after a node with half of the state was to leave")
    run("rm", "tally")


def test_a_testbed_turns_to_a_kafka_outside_and_shows_its_password_to_nobody(
    kubelets: Kubelets, bed: KubeRunning, tell: Callable[[str], None]
) -> None:
    """A Kafka that fogctl did not start, with TLS and a log-in: the testbed's own broker goes."""
    outside = data_address(kubelets.nodes.index("broker"))
    folder = kubelets.folder / "outside"
    folder.mkdir()
    secured_kafka.certificates(folder, outside)
    secured_kafka.start(kubelets.running, Services(kubelets.running), "broker", outside, folder)
    password = folder / "password"
    password.touch(0o600)
    file = kubelets.folder / "pods.yaml"
    login = f"{{username: {secured_kafka.USER}, password_file: outside/password}}"
    section = f"servers: ['{outside}:{secured_kafka.PORT}'], tls: {{ca: outside/ca.pem}}, sasl: {login}"
    file.write_text(f"{file.read_text()}kafka: {{{section}}}\n")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return kubelets.fogctl(*arguments, "--testbed", NAME, timeout=600)

    def up_with(text: str) -> list[str]:
        password.write_text(f"{text}\n")
        done = ok(kubelets.fogctl("up", "--testbed", str(file), "-o", "json", timeout=600))
        return [*json.loads(done)["removed"], *json.loads(done)["made"]]

    changed = up_with("guessed")
    assert {f"StatefulSet {names.BROKER} in {SPACE}", f"Secret {names.SECRET} in {SPACE}"} <= set(changed)
    refused = run("app", "deploy", "identity", "--on", "pi1")
    assert refused.returncode == 1
    assert "it refuses the name or the password" in refused.stderr.splitlines()[-1]
    assert "guessed" not in refused.stderr
    assert up_with(secured_kafka.PASSWORD) == [f"Secret {names.SECRET} in {SPACE}"]
    began = time.monotonic()
    ok(run("app", "deploy", "identity", "--on", "pi1"))
    tell(f"a stage on a Kafka outside, with TLS and a log-in, deployed: {time.monotonic() - began:.1f} s")

    made = ("--days", "0.002", "--rides", "500000", "--start", "2013-05-01T09:00:00")
    ok(kubelets.fogctl("trace", "make", "outside.csv", *made))
    replay = ("trace", "replay", "outside.csv", "--app", "identity", "--speed", "30", "-o", "json")
    sent = json.loads(ok(run(*replay)))["records"]
    assert sent > 500
    result = audited(run, "identity")
    assert (result["sent"], result["lost"], result["foreign"]) == (sent, 0, 0)

    secret = kubelets.plane.read("secret", names.SECRET, "-n", SPACE)["data"]
    assert base64.b64decode(secret[names.KAFKA_PASSWORD]).decode() == secured_kafka.PASSWORD
    said = ok(run("app", "logs", "identity"))
    assert "copy.driver" in said
    assert_nobody_shows(secured_kafka.PASSWORD, kubelets, bed, said)
    ok(run("app", "rm", "identity"))
    Services(kubelets.running).stop(secured_kafka.NAME)


def assert_nobody_shows(password: str, kubelets: Kubelets, bed: KubeRunning, said: str) -> None:
    """It is in no argument list, environment, object but the Secret, log, or file that fogctl wrote."""
    spellings = [
        password.encode(),
        json.dumps(password)[1:-1].encode(),
        base64.b64encode(password.encode()),
    ]

    def shows(text: bytes) -> bool:
        return any(spelling in text for spelling in spellings)

    assert not shows(said.encode())
    for process in Path("/proc").glob("[0-9]*"):
        for file in ("cmdline", "environ"):
            with contextlib.suppress(OSError):
                assert not shows((process / file).read_bytes()), f"{process}/{file}"
    for kind in ("pods", "statefulsets", "configmaps", "events", "controllerrevisions", "jobs"):
        found = kubelets.plane.read(kind, "-n", SPACE)
        assert not shows(json.dumps(found).encode()), kind
    looked_at = 0
    logs = [*kubelets.folder.glob("*/*.log")]
    logs += [
        log for each in kubelets.folder.iterdir() for log in _files(each / "log") if log.suffix == ".log"
    ]
    for written in (*logs, *_files(bed.folder)):
        with contextlib.suppress(FileNotFoundError):  # kubelets leave links to logs that are gone
            assert not shows(written.read_bytes()), written
            looked_at += written.suffix == ".log"
    assert looked_at > len(kubelets.nodes)


def _files(folder: Path) -> list[Path]:
    """Those below a folder; what is removed meanwhile is passed over."""
    found = (Path(at, name) for at, _, files in os.walk(folder) for name in files)
    return [file for file in found if file.is_file()]
