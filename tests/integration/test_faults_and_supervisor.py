"""Faults and the supervisor on emulated nodes with the smallest of services: no Spark, no Kafka, seconds."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from live_testbed import Fogctl, eventually, ok

from fogctl.errors import FogError
from fogctl.runtime import events, fault_record, faults, quota, supervised, supervisor
from fogctl.runtime.fault_record import Fault, Kind
from fogctl.runtime.service import Service, Services, alive
from fogctl.testbed import cgroups, names, processes
from fogctl.testbed.running import Running

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def bed(fogctl: Fogctl, testbed_file: Callable[..., Path], name: str) -> Running:
    """A control node and two Pis, 10 ms away."""
    testbed_file(pis=2)
    ok(fogctl("up"))
    return Running.load(name)


def answers(fogctl: Fogctl, a: str, b: str) -> bool:
    """One answer within some seconds is enough; without any, every packet was lost."""
    return fogctl("exec", a, "--", "ping", "-c", "1", "-w", "4", b).returncode == 0


def supervisors(bed: Running) -> set[int]:
    return processes.in_group(bed.part_groups(supervised.node(bed.testbed), supervised.PART)[0])


def lasting(name: str, node: str, *argv: str) -> Service:
    return Service(name, node, argv or ("sleep", "1000"))


def quota_of(bed: Running, node: str) -> int | None:
    where = bed.hierarchies.cpu
    assert where is not None
    file = cgroups.cpu_files(where.version, None)[-1][0]
    text = Path(where.group(names.folder(bed.testbed.name), node), file).read_text()
    return cgroups.read_quota(where.version, text)


def test_a_cut_link_loses_every_packet_and_comes_back_exactly_as_it_was(fogctl: Fogctl, bed: Running) -> None:
    ok(fogctl("net", "set", "pi1", "cloud", "--rtt", "14ms", "--jitter", "1ms", "--loss", "0.5%"))
    before = Running.load(bed.testbed.name).latencies.path("pi1", "cloud")
    said = ok(fogctl("fault", "cut", "pi1", "cloud", "--dry-run"))
    assert "pi1–cloud: lose every packet" in said
    assert answers(fogctl, "pi2", "cloud")
    assert Running.load(bed.testbed.name).latencies.path("pi1", "cloud") == before
    ok(fogctl("fault", "cut", "pi1", "cloud"))
    assert not answers(fogctl, "pi1", "cloud")
    assert answers(fogctl, "pi1", "pi2")
    assert answers(fogctl, "pi1", "cloud-mgmt")
    assert "100 %" in ok(fogctl("net", "show"))
    assert "every packet is lost: cloud–pi1" in ok(fogctl("net", "verify"))
    assert fogctl("fault", "cut", "cloud", "pi1").returncode == 2
    ok(fogctl("fault", "restore", "cloud", "pi1"))
    assert Running.load(bed.testbed.name).latencies.path("pi1", "cloud") == before
    what = [event["what"] for event in events.read(bed.state.folder)]
    assert what == ["fault", "restored"]


def test_a_fault_that_was_written_down_but_not_made_is_restored_too(fogctl: Fogctl, bed: Running) -> None:
    """What a fogctl killed at the worst moment leaves."""
    path = bed.latencies.path("pi1", "cloud").to_dict()
    for fault in (
        Fault(Kind.link, ("pi1", "cloud"), time.time(), before={"path": path}),
        Fault(Kind.node, ("pi2",), time.time()),
        Fault(Kind.slow, ("pi1",), time.time(), now={"share": 0.5}),
    ):
        fault_record.add(bed.state.folder, fault)
    ok(fogctl("fault", "restore"))
    assert fault_record.read(bed.state.folder) == ()
    assert answers(fogctl, "pi1", "cloud")
    assert "up" in ok(fogctl("status"))


def test_a_slow_node_has_less_cpu_until_it_is_restored(fogctl: Fogctl, bed: Running) -> None:
    whole = quota_of(bed, "pi1")
    assert whole is not None
    ok(fogctl("fault", "slow", "pi1", "--cpu", "25%"))
    assert quota_of(bed, "pi1") == round(whole / 4)
    quota.lift(bed, "pi1", "some-replica")
    assert quota_of(bed, "pi1") is None
    quota.limit(bed, "pi1", "some-replica", 0.5)
    assert (quota_of(bed, "pi1"), quota_of(bed, "pi1/some-replica")) == (round(whole / 4), round(whole / 8))
    ok(fogctl("fault", "restore", "pi1"))
    assert quota_of(bed, "pi1") == whole
    assert fogctl("fault", "slow", "cloud", "--cpu", "25%").returncode == 2


def test_a_node_without_power_stays_down_until_it_is_restored(fogctl: Fogctl, bed: Running) -> None:
    services = Services(bed)
    first = services.ensure(lasting("clock", "pi1"))
    eventually(lambda: supervised.awake(bed), "a supervisor watches")
    ok(fogctl("fault", "kill", "pi1"))
    assert not alive(first)
    assert not answers(fogctl, "cloud", "pi1")
    assert not answers(fogctl, "cloud", "pi1-mgmt")
    time.sleep(2 * supervisor.CALM_TICK_S)
    assert services.pid("clock") is None
    with pytest.raises(FogError, match="node pi1 is down"):
        services.ensure(lasting("clock", "pi1"))
    refused = fogctl("fault", "kill", "pi1")
    assert "node pi1 is down already" in refused.stderr
    ok(fogctl("fault", "restore", "pi1"))
    assert answers(fogctl, "cloud", "pi1")
    eventually(lambda: services.pid("clock"), "the service runs again")
    assert "up" in ok(fogctl("status"))


def test_the_supervisor_starts_again_what_ended_but_not_in_a_hot_loop(fogctl: Fogctl, bed: Running) -> None:
    services = Services(bed)
    first = services.ensure(lasting("clock", "pi1"))
    services.ensure(lasting("broken", "pi1", "sh", "-c", "echo ERROR no such thing; exit 1"))
    services.ensure(Service("once", "pi2", ("true",), restart=False))
    eventually(lambda: supervised.awake(bed), "a supervisor watches")
    os.kill(first, signal.SIGKILL)
    eventually(lambda: services.pid("clock") not in (None, first), "it runs again")
    eventually(lambda: _restarts(bed, "broken") >= 3, "the broken one is tried again and again")
    starts = [e["at_s"] for e in events.read(bed.state.folder) if e.get("service") == "broken"]
    assert starts[2] - starts[0] > 2.5
    assert _restarts(bed, "once") == 0
    # While an attempt lasts, it is being started.
    said = "broken does not run: ended by itself; its log ends with: ERROR no such thing"
    eventually(lambda: said in ok(fogctl("fault", "list")), "the user is told")
    services.stop("broken")
    services.stop("clock")
    before = _restarts(bed, "clock")
    time.sleep(2 * supervisor.CALM_TICK_S)
    assert (services.pid("clock"), _restarts(bed, "clock")) == (None, before)


def _restarts(bed: Running, service: str) -> int:
    happened = events.read(bed.state.folder)
    return sum(event["what"] == "restarted" and event["service"] == service for event in happened)


def test_a_service_is_kept_down_for_as_long_as_asked(fogctl: Fogctl, bed: Running) -> None:
    services = Services(bed)
    services.ensure(lasting("mqtt.bridge", "pi1"))
    ok(fogctl("fault", "kill", "bridge", "--for", "1h"))
    time.sleep(2 * supervisor.CALM_TICK_S)
    assert services.pid("mqtt.bridge") is None
    (fault,) = fault_record.read(bed.state.folder)
    assert fault.until_s is not None
    with fault_record.changing(bed.state.folder):  # one write: at no moment is it free to run
        fault_record.write(bed.state.folder, [replace(fault, until_s=time.time() + 1)])
    eventually(lambda: services.pid("mqtt.bridge"), "it runs again when its time is over")
    assert fault_record.read(bed.state.folder) == ()


def test_a_dead_supervisor_is_woken_by_the_next_command_and_there_is_only_one(
    fogctl: Fogctl, bed: Running
) -> None:
    services = Services(bed)
    services.ensure(lasting("clock", "pi1"))
    eventually(lambda: supervised.awake(bed), "a supervisor watches")
    (before,) = supervisors(bed)
    supervised.wake(bed)
    os.kill(before, signal.SIGKILL)
    eventually(lambda: not supervised.awake(bed), "it is dead")
    assert services.pid("clock") is not None
    ok(fogctl("fault", "list"))
    supervised.wake(bed)
    eventually(lambda: supervised.awake(bed), "another watches")
    eventually(lambda: len(supervisors(bed)) == 1, "only one")


def test_a_dead_delay_line_stops_packets_and_is_started_again(fogctl: Fogctl, bed: Running) -> None:
    if bed.record.backend != "userspace":
        pytest.skip("latencies are injected by the kernel here")
    ok(fogctl("net", "set", "pi1", "cloud", "--rtt", "24ms"))
    ok(fogctl("fault", "kill", "delay-line", "--for", "1h"))
    assert not answers(fogctl, "pi1", "cloud")
    ok(fogctl("fault", "restore", "delay-line"))
    assert answers(fogctl, "pi1", "cloud")
    ok(fogctl("fault", "kill", "delay-line"))
    eventually(lambda: faults.delay_line(bed), "the supervisor starts it")
    eventually(lambda: answers(fogctl, "pi1", "cloud"), "packets pass again")
    assert faults.delay_line(bed) not in processes.in_group(bed.groups("cloud")[0])
    shown = json.loads(ok(fogctl("net", "show", "-o", "json")))["matrix"]["paths"]
    assert 24 in [path["rtt_ms"] for path in shown]


@pytest.mark.alone
def test_down_leaves_nothing_behind_while_faults_are_active(
    fogctl: Fogctl, testbed_file: Callable[..., Path], name: str, snapshot: Callable[[], dict[str, object]]
) -> None:
    before = snapshot()
    testbed_file(pis=2)
    ok(fogctl("up"))
    bed = Running.load(name)
    Services(bed).ensure(lasting("clock", "pi1"))
    ok(fogctl("fault", "kill", "pi1", "--for", "1h"))
    ok(fogctl("fault", "cut", "pi2"))
    ok(fogctl("fault", "slow", "pi2", "--cpu", "10%"))
    ok(fogctl("down"))
    assert snapshot() == before


BAD_INPUT = {
    ("kill", "pi9"): "there is no node pi9",
    ("kill", "broker"): "no broker runs here",
    ("kill", "executor", "pi1"): "no executor runs here",
    ("cut", "pi1", "pi9"): "there is no node pi9",
    ("cut", "pi1", "pi1"): "are the same node",
    ("slow", "pi1", "--cpu", "0%"): "more than 0 %",
    ("slow", "pi1", "--cpu", "much"): "--cpu",
    ("kill", "pi1", "--for", "soon"): "--for",
    ("restore",): "there is nothing to restore",
    ("restore", "pi1"): "there is nothing to restore for pi1",
}


def test_bad_input_is_one_sentence_and_breaks_nothing(fogctl: Fogctl, bed: Running) -> None:
    for words, sentence in BAD_INPUT.items():
        done = fogctl("fault", *words)
        assert done.returncode in (1, 2), words
        assert sentence in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    assert fault_record.read(bed.state.folder) == ()
    assert list(events.read(bed.state.folder)) == []
