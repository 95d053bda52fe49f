"""A streaming app on emulated nodes: real Kafka, real Spark, scaled under load, every record counted.

One testbed for all tests here: those that start nothing come first.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from kafka import KafkaConsumer, TopicPartition
from live_testbed import PATIENCE_S, Fogctl, Replay, SharedTestbed, Tell, audited, eventually, ok

from fogctl.errors import FogError
from fogctl.runtime import faults, kafka, pool
from fogctl.runtime.control import ask, stage_socket
from fogctl.runtime.operate import Apps
from fogctl.runtime.service import Services
from fogctl.testbed.running import Running

pytestmark = pytest.mark.timeout(900)
NODES = ('{name: "pi[1-3]", role: edge, site: field, board: rpi4-2g}',)


@pytest.fixture
def bed(shared_testbed: SharedTestbed) -> Running:
    return shared_testbed.running


@pytest.fixture
def fogctl(shared_testbed: SharedTestbed) -> Fogctl:
    return shared_testbed.fogctl


BAD_INPUT = {
    ("app", "deploy", "identity", "--on", "pi9"): "has no node pi9",
    ("app", "deploy", "identity", "--on", "cloud"): "role control",
    ("app", "deploy", "nothing", "--on", "pi1"): 'there is no app "nothing"',
    ("app", "deploy", "identity", "--on", "copi=pi1"): "no stage copi",
    ("app", "deploy", "taxi", "--on", "pi1", "--set", "nearest.wrk=1"): 'did you mean "work"?',
    ("app", "scale", "identity", "copy", "--nodes", "pi1"): "is not deployed",
    ("app", "rm", "identity"): "is not deployed",
    ("app", "logs", "identity", "copy.driver"): "has no log copy.driver",
}


def test_bad_input_is_one_sentence_and_starts_nothing(fogctl: Fogctl, bed: Running) -> None:
    for arguments, sentence in BAD_INPUT.items():
        done = fogctl(*arguments)
        assert done.returncode in (1, 2)
        assert sentence in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    assert Services(bed).status() == []


def test_an_app_that_raises_is_refused_with_its_own_line_and_leaves_nothing(
    fogctl: Fogctl, bed: Running, shared_testbed: SharedTestbed
) -> None:
    folder = shared_testbed.folder / "broken"
    folder.mkdir()
    (folder / "app.yaml").write_text(
        "name: broken\nstages:\n  - {name: boom, inputs: [a], output: b, partitions: 2}\n"
    )
    (folder / "app.py").write_text("def boom(records, options):\n    return records.select(1 / 0)\n")
    failed = fogctl("app", "deploy", "broken", "--on", "pi1")
    assert failed.returncode == 1
    assert "app.py:2: ZeroDivisionError" in failed.stderr.splitlines()[-1]
    assert "was undone" in failed.stderr.splitlines()[-1]
    assert [status.service.name for status in Services(bed).status()] == ["broker"]
    assert Apps.on(bed).deployments() == []
    assert not (bed.state.folder / "apps" / "broken").exists()


def nodes(bed: Running) -> list[str]:
    """Those whose executors the driver has, once it answers: it may be busy."""
    found: list[str] = []

    def answered() -> bool:
        (stage,) = Apps.on(bed).status("identity")["stages"]
        found[:] = sorted(executor["node"] for executor in stage["executors"])
        return bool(stage["state"] != "no answer")

    eventually(answered, "the driver answers")
    return found


def warm_up_keys(bed: Running) -> Counter[bytes]:
    """How often each made-up record was written."""
    with kafka.reachable(bed) as where:
        consumer = KafkaConsumer(**where.for_kafka_python(), enable_auto_commit=False)
        topic = "identity.copy.warm-up"
        parts = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        consumer.assign(parts)
        consumer.seek_to_beginning(*parts)
        ends = consumer.end_offsets(parts)
        keys: Counter[bytes] = Counter()
        while any(consumer.position(part) < ends[part] for part in parts):
            for records in consumer.poll(timeout_ms=500).values():
                keys.update(record.key for record in records)
        consumer.close()
    return keys


def assert_its_own_query_warmed_it_up(bed: Running) -> None:
    """Made-up records went through the stage's function, and nobody counts them as its work."""
    # A deployment does not wait for it beyond its patience: on a busy machine it may still be at it.
    eventually(
        lambda: max(warm_up_keys(bed).values(), default=0) > 1,
        "made up once, and written again by the query",
    )
    folder = bed.state.folder / "apps" / "identity" / "copy"
    eventually(lambda: list(folder.glob("warm-up-*")) == [], "its checkpoint is gone")
    batches = (folder / "progress.jsonl").read_text() if (folder / "progress.jsonl").exists() else ""
    assert all(json.loads(line)["numInputRows"] == 0 for line in batches.splitlines())


def would(fogctl: Fogctl, *arguments: str) -> list[str]:
    """What a dry run says it would change."""
    said = json.loads(ok(fogctl("app", *arguments, "--dry-run", "-o", "json")))
    assert said["dry_run"] is True
    found: list[str] = said["changes"]
    return found


def scale(fogctl: Fogctl, nodes: str) -> list[str]:
    """What was changed."""
    done = ok(fogctl("app", "scale", "identity", "copy", "--nodes", nodes, "-o", "json"))
    found: list[str] = json.loads(done)["changes"]
    return found


def test_a_stage_is_scaled_and_shared_under_load_and_loses_nothing(
    fogctl: Fogctl,
    fogctl_argv: list[str],
    bed: Running,
    shared_testbed: SharedTestbed,
    monkeypatch: pytest.MonkeyPatch,
    tell: Tell,
) -> None:
    made = ("--days", "0.08", "--rides", "250000", "--start", "2013-05-01T08:00:00")
    ok(fogctl("trace", "make", "rides.csv", *made))
    ok(fogctl("app", "deploy", "identity", "--on", "pi1"))
    assert nodes(bed) == ["pi1"]
    (stage,) = json.loads(ok(fogctl("app", "status", "identity", "-o", "json")))["stages"]
    assert [executor["node"] for executor in stage["executors"]] == ["pi1"]
    assert_its_own_query_warmed_it_up(bed)
    die_right_after_joining(fogctl, bed, "pi3", monkeypatch, tell)
    sent_numbers = Apps.on(bed).sent_numbers("identity")
    with Replay(
        fogctl_argv, shared_testbed.folder, "rides.csv", "--app", "identity", "--speed", "20"
    ) as replay:
        dry = would(fogctl, "scale", "identity", "copy", "--nodes", "pi1,pi2,pi3")
        assert dry == [f"add a replica of copy on {node} at 100%" for node in ("pi2", "pi3")]
        assert nodes(bed) == ["pi1"]
        assert scale(fogctl, "pi1,pi2,pi3") == dry
        assert nodes(bed) == ["pi1", "pi2", "pi3"]
        ok(fogctl("app", "share", "identity", "copy", "50%"))
        refused = fogctl("app", "share", "identity", "copy", "150%")
        assert refused.returncode == 2
        assert "a share is more than 0 % and at most 100 %, not 150%" in refused.stderr
        assert scale(fogctl, "pi2") == [f"remove the replica of copy on {node}" for node in ("pi1", "pi3")]
        # What is stopped before it could say good-bye is missed by the driver some seconds later.
        eventually(lambda: nodes(bed) == ["pi2"], "the driver has one executor")
        for gone in ("pi1", "pi3"):
            assert Services(bed).get(f"identity.copy.executor.{gone}") is None
            assert not Path(bed.part_groups(gone, "identity-copy")[0]).exists()
        eventually(lambda: int(sent_numbers.read().sure.sum()) > 1000, "a thousand records are sent")
        replay.stop()
    result = audited(fogctl, "identity")
    assert result["sent"] > 1000
    assert (result["lost"], result["foreign"]) == (0, 0)

    assert_every_log_can_be_read(fogctl)
    quota = Path(bed.part_groups("pi2", "identity-copy")[0])
    dry = would(fogctl, "rm", "identity")
    assert dry == ["stop stage copy", "remove the topics and checkpoints of identity"]
    assert would(fogctl, "rm", "identity", "--keep-state") == dry[:1]
    assert nodes(bed) == ["pi2"]
    assert quota.is_dir()
    ok(fogctl("app", "rm", "identity"))
    assert not quota.exists()
    assert [status.service.name for status in Services(bed).status()] == ["broker"]
    assert fogctl("app", "status", "identity").returncode == 1


def die_right_after_joining(
    fogctl: Fogctl, bed: Running, node: str, monkeypatch: pytest.MonkeyPatch, tell: Tell
) -> None:
    """A replica that registers and does not stay is taken off again, and the rest is as before."""
    # Long enough for the driver to notice, which may take it ten seconds.
    monkeypatch.setattr(pool, "WARM_PATIENCE_S", 15.0)
    socket = stage_socket(bed.state.folder, "identity", "copy")
    joined, killed = threading.Event(), threading.Event()
    warm = pool.StagePool.warm
    there = nodes(bed)
    noticed_s: list[float] = []

    def listed() -> bool:
        with contextlib.suppress(FogError):  # a busy driver may not answer in time
            return node in [each["node"] for each in ask(socket, {"ask": "status"})["executors"]]
        return False

    def warm_when_killed(stage: pool.StagePool, where: str, give_up: threading.Event) -> None:
        """Whoever scales has seen it join by now, and sees nothing more before it is dead."""
        joined.set()
        killed.wait(PATIENCE_S)
        warm(stage, where, give_up)

    def kill() -> None:
        if not joined.wait(PATIENCE_S):
            return
        try:
            faults.kill(bed, *faults.killing(bed, ["executor", node], 3600))
        finally:
            killed.set()
        began = time.monotonic()
        eventually(lambda: not listed(), "the driver notices", pause_s=0.05)
        noticed_s.append(time.monotonic() - began)

    monkeypatch.setattr(pool.StagePool, "warm", warm_when_killed)
    saboteur = threading.Thread(target=kill)
    saboteur.start()
    try:
        with pytest.raises(FogError, match=f"the replica of copy on {node} does not stay: ") as failed:
            Apps.on(bed).scale("identity", "copy", [*there, node])
    finally:
        saboteur.join()
    tell(f"an executor killed while it joins is missed after {noticed_s[0]:.1f} s")
    assert str(failed.value).endswith("what had been changed was undone)")
    eventually(lambda: nodes(bed) == there, "the rest is as before")
    assert list(Apps.on(bed).get("identity").stage("copy").nodes) == there
    ok(fogctl("fault", "restore"))


def assert_every_log_can_be_read(fogctl: Fogctl) -> None:
    """Of each process, executors on their nodes too; also of a replica that is gone."""
    listed = [line.split("\t")[0] for line in ok(fogctl("app", "logs", "identity")).splitlines()]
    assert {"copy.master", "copy.driver", "copy.executor.pi1", "copy.executor.pi2"} <= set(listed)
    said = ok(fogctl("app", "logs", "identity", "copy.executor.pi2", "-n", "1000"))
    assert "CoarseGrainedExecutorBackend" in said or "executor" in said.lower(), said
    assert len(ok(fogctl("app", "logs", "identity", "copy.driver", "-n", "3")).splitlines()) <= 3
