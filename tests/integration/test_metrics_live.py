"""Metrics of a real stage: counted against what was sent, read directly and through a real Prometheus."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator

import pytest
from kafka import KafkaProducer
from live_testbed import PATIENCE_S, Fogctl, Tell, eventually, ok

from fogctl.metrics.direct import DirectReader
from fogctl.metrics.prometheus import PrometheusReader
from fogctl.metrics.values import NodeMetrics, StageMetrics
from fogctl.runtime import kafka
from fogctl.testbed import processes
from fogctl.testbed.running import Running

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def bed(bring_up: Callable[..., Running]) -> Running:
    """A control node that is also the broker, and two Pis."""
    return bring_up(broker=None)


class Sender:
    """Puts numbered records on the app's topic."""

    def __init__(self, running: Running) -> None:
        self.sent = 0
        with kafka.reachable(running) as connection:
            self._producer = KafkaProducer(**connection.for_kafka_python(), acks="all")

    def send(self, records: int) -> None:
        for number in range(self.sent, self.sent + records):
            self._producer.send("identity.records", b"x", key=str(number).encode())
        self._producer.flush()
        self.sent += records


@contextlib.contextmanager
def standing_still(running: Running, node: str) -> Iterator[None]:
    """In the body every process on a node is stopped, as if a batch took very long."""
    stopped = list(processes.in_group(running.groups(node)[0]))
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def wait_for(look: Callable[[], StageMetrics | None], wanted: Callable[[StageMetrics], bool]) -> StageMetrics:
    """The first look that is as wanted; fails with the last one after a while."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = look()
        if found is not None and wanted(found):
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.2)


def compare(direct: DirectReader, through: PrometheusReader, instants: int) -> tuple[int, int]:
    """Look through both until so many instants of the stage, and of each node, were seen by both."""
    stages: dict[float, StageMetrics] = {}
    nodes: dict[tuple[str, float], NodeMetrics] = {}
    same_stages: set[float] = set()
    same_nodes: set[tuple[str, float]] = set()
    deadline = time.monotonic() + PATIENCE_S
    while len(same_stages) < instants or len(same_nodes) < instants * 3:
        assert time.monotonic() < deadline, (same_stages, same_nodes)
        stages |= {each.at_s: each for each in direct.stages("identity")}
        nodes |= {(each.node, each.at_s): each for each in direct.nodes()}
        for stage in through.stages("identity"):
            if stage.at_s in stages:
                assert stage == stages[stage.at_s]
                same_stages.add(stage.at_s)
        for node in through.nodes():
            if (node.node, node.at_s) in nodes:
                assert node == nodes[node.node, node.at_s]
                same_nodes.add((node.node, node.at_s))
        time.sleep(0.1)
    return len(same_stages), len(same_nodes)


def test_metrics_count_what_was_sent_and_are_the_same_through_prometheus(
    fogctl: Fogctl, bed: Running, tell: Tell
) -> None:
    ok(fogctl("app", "deploy", "identity", "--on", "pi1"))
    started = json.loads(ok(fogctl("metrics", "up", "--prometheus", "-o", "json")))["started"]
    assert started == ["metrics.nodes", "metrics.prometheus"]
    assert json.loads(ok(fogctl("metrics", "up", "--prometheus", "-o", "json")))["started"] == []

    # A window long enough for everything the test sends: rates then must account for every record.
    long, direct, sender = DirectReader(bed, window_s=300), DirectReader(bed), Sender(bed)

    def look() -> StageMetrics | None:
        found = long.stages("identity")
        return found[0] if found else None

    ready = wait_for(look, lambda seen: seen.nodes == ("pi1",))
    assert (ready.lag, ready.input_rate) == (0, 0)
    assert ready.slots >= 1
    sender.send(200)

    def counted(seen: StageMetrics) -> tuple[int, int]:
        """Records in and out; a look at which the broker did not answer tells too little of those in."""
        return round(seen.input_rate * seen.window_s), round(seen.processed_rate * seen.window_s)

    done = wait_for(look, lambda seen: seen.lag == 0 and counted(seen) == (200, 200))
    assert done.batch_rows > 0
    assert done.true_rate > 0
    assert 0 < done.busyness <= 1
    assert sum(done.batch_split_ms.values()) <= done.batch_ms + 5
    assert set(done.batch_split_ms) >= {"addBatch", "walCommit"}

    # In the middle of a batch that does not end, Spark says nothing; lag and input rate grow all the same.
    with standing_still(bed, "pi1"):
        sender.send(100)
        stuck = wait_for(look, lambda seen: seen.lag == 100)
        sender.send(50)
        stuck = wait_for(look, lambda seen: seen.lag == 150 and counted(seen)[0] == sender.sent)
        assert stuck.newest_batch_at_s == done.newest_batch_at_s
        assert sum(stuck.lag_by_partition.values()) == 150
        assert set(stuck.lag_by_partition) == {f"identity.records-{number}" for number in range(8)}
    idle = wait_for(look, lambda seen: seen.lag == 0)
    # Idle is not stale: looks go on, the newest batch stays.
    later = wait_for(look, lambda seen: seen.at_s > idle.at_s + 2)
    assert (later.lag, later.newest_batch_at_s) == (0, idle.newest_batch_at_s)
    assert later.true_rate == pytest.approx(idle.true_rate)

    through = PrometheusReader.of(bed)
    sender.send(100)
    instants = compare(direct, through, 4)
    tell(f"equal through Prometheus: {instants[0]} looks at the stage, {instants[1]} at nodes")

    status = json.loads(ok(fogctl("app", "status", "identity", "-o", "json")))["stages"][0]["metrics"]
    assert (status["stage"], status["nodes"]) == ("copy", ["pi1"])
    assert "trend" in ok(fogctl("app", "status", "identity"))
    shown = json.loads(ok(fogctl("metrics", "show", "--prometheus", "-o", "json")))
    assert [node["node"] for node in shown["nodes"]] == ["cloud", "pi1", "pi2"]
    assert shown["stages"][0].keys() == status.keys()
    assert shown["nodes"][1]["cpu_quota_cores"] == pytest.approx(bed.node("pi1").cpu_cores)
    assert "identity-copy" in shown["nodes"][1]["cpu_used_by_part"]
    assert "throttled" in ok(fogctl("metrics", "show"))

    # What is gone is missing, not old.
    ok(fogctl("app", "rm", "identity"))
    assert direct.stages("identity") == ()
    eventually(lambda: not through.stages("identity"), "Prometheus has no stage any more", pause_s=0.2)
    eventually(lambda: len(through.nodes()) == 3, "Prometheus has the nodes still", pause_s=0.2)
    ok(fogctl("metrics", "down"))
    assert fogctl("metrics", "show", "--prometheus").returncode == 1
    assert [node.node for node in direct.nodes()] == ["cloud", "pi1", "pi2"]
