"""Latencies on real machines: what is sent to each, what is done when one has lost them, what is measured.

The machines are played at the level of their shell; tests/vm has real ones.
"""

from __future__ import annotations

import base64
import gzip
import re
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath

import pytest
from fognetem.matrix import LatencyMatrix, Path

from fogctl.errors import FogError
from fogctl.kube import impaired_host, latency
from fogctl.kube.ledger import HostLatency, open_ledger
from fogctl.kube.running import KubeRunning
from fogctl.pi.contact import Answer, NoContactError
from fogctl.testbed.model import Kind, Node, Role, SshHost, Testbed

NODES = ("cloud", "pi1", "pi2")
ADDRESS = {node: f"10.0.0.{place}" for place, node in enumerate(NODES, start=1)}


@dataclass
class Machines:
    """The shells of all machines: what fog-netem there would answer, and what it was told."""

    trees: dict[str, int] = field(default_factory=dict)
    """By node: how many netems are there."""
    told: list[tuple[str, str]] = field(default_factory=list)
    rtt_ms: dict[tuple[str, str], float] = field(default_factory=dict)
    away: set[str] = field(default_factory=set)

    def run(self, host: SshHost, command: str) -> Answer:
        if host.node in self.away:
            raise NoContactError("it does not answer")
        what = command.split("/usr/local/sbin/fog-netem ")[1]
        self.told.append((host.node, what))
        verb, *rest = what.split()
        if verb == "show":
            count = self.trees.get(host.node)
            return Answer(0, "" if count is None else f"eth0 {count}\ncleared at 9min\n", "")
        if verb == "route":
            return Answer(0, "".join(f"{each} {each} eth0\n" for each in rest), "")
        if verb == "apply":
            return self._apply(host.node, command)
        if verb == "clear":
            self.trees.pop(host.node, None)
        if verb == "ping":
            return Answer(0, "".join(self._ping(host.node, each, int(rest[0])) for each in rest[2:]), "")
        return Answer(0, "", "")

    def _apply(self, node: str, command: str) -> Answer:
        packed = command.split()[1]
        lines = gzip.decompress(base64.b64decode(packed)).decode().splitlines()
        self.told += [(node, line) for line in lines]
        if any(line.startswith("qdisc add dev eth0 root") for line in lines):
            if node in self.trees and not any(line.startswith("qdisc del") for line in lines):
                return Answer(1, "", "fog-netem: tc refused a line")
            self.trees[node] = sum("netem" in line for line in lines)
        return Answer(0, "", "")

    def _ping(self, node: str, address: str, count: int) -> str:
        other = next(each for each, known in ADDRESS.items() if known == address)
        trip = 0.1 if node == other else self.rtt_ms.get((min(node, other), max(node, other)))
        return f"{address}{'' if trip is None else f' {trip}' * count}\n"

    def lines(self, node: str) -> list[str]:
        """What tc was told there since it was last asked."""
        found = [line for each, line in self.told if each == node and re.match("qdisc|class|filter", line)]
        self.told = [(each, line) for each, line in self.told if each != node]
        return found


@pytest.fixture
def machines(monkeypatch: pytest.MonkeyPatch) -> Machines:
    made = Machines()
    real = impaired_host.ImpairedHost

    def played(host: SshHost) -> impaired_host.ImpairedHost:
        return real(host, made.run)

    monkeypatch.setattr(latency, "ImpairedHost", played)
    monkeypatch.setattr(latency, "keep_renewed", lambda _running, needed: made.told.append(("", str(needed))))
    return made


def matrix(**rtts: float) -> LatencyMatrix:
    paths = tuple((*pair.split("_"), Path(rtt)) for pair, rtt in rtts.items())
    return LatencyMatrix(NODES, paths)  # type: ignore[arg-type]


@pytest.fixture
def running(tmp_path: FilePath) -> KubeRunning:
    hosts = tuple(SshHost(node, ADDRESS[node], "pi") for node in NODES)
    nodes = tuple(
        Node(node, Role.control if node == "cloud" else Role.edge, "main", "host", None, None)
        for node in NODES
    )
    bed = Testbed("lab", Kind.k3s, nodes, matrix(cloud_pi1=40.0), hosts=hosts)
    return KubeRunning.without_cluster(bed, tmp_path)


def test_every_machine_delays_what_it_sends_to_the_others(machines: Machines, running: KubeRunning) -> None:
    after = latency.change(running, matrix(cloud_pi1=40.0))
    assert after.latencies.rtt_ms("cloud", "pi1") == 40.0
    cloud = machines.lines("cloud")
    assert cloud[0] == "qdisc add dev eth0 root handle f060: htb default 0"
    assert "delay 20000us" in next(line for line in cloud if "netem" in line)
    for port in (22, 6443, 10250):
        assert any(f"dport {port} 0xffff flowid f060:" in line for line in cloud)
    assert ADDRESS["cloud"] not in " ".join(cloud), "nothing is said about the way to itself"
    assert ("", "True") in machines.told, "somebody renews them from now on"
    assert open_ledger(running.state).steps == tuple(HostLatency(node) for node in NODES)


def test_a_change_touches_the_two_ends_of_the_path_in_place(machines: Machines, running: KubeRunning) -> None:
    running = latency.change(running, matrix(cloud_pi1=40.0))
    for node in NODES:
        machines.lines(node)
    running = latency.change(running, matrix(cloud_pi1=80.0))
    for node in ("cloud", "pi1"):
        (line,) = machines.lines(node)
        assert line.startswith("qdisc change dev eth0 parent f060:1 ")
        assert "delay 40000us" in line
    assert machines.lines("pi2") == []


def test_a_machine_that_has_lost_its_tree_gets_it_whole(machines: Machines, running: KubeRunning) -> None:
    running = latency.change(running, matrix(cloud_pi1=40.0))
    del machines.trees["pi1"]
    assert latency.lacking(running) == [HostLatency("pi1")]
    latency.tend(running)
    assert machines.trees == dict.fromkeys(NODES, 2)
    assert latency.lacking(running) == []


def test_a_tree_of_another_size_is_made_anew(machines: Machines, running: KubeRunning) -> None:
    machines.trees["pi1"] = 7
    latency.change(running, matrix(cloud_pi1=40.0))
    assert machines.trees["pi1"] == 2


def test_clearing_leaves_nothing_and_nobody_renews(machines: Machines, running: KubeRunning) -> None:
    running = latency.change(running, matrix(cloud_pi1=40.0))
    running = latency.change(running, matrix())
    assert machines.trees == {}
    assert ("", "False") in machines.told
    assert open_ledger(running.state).steps == ()


def test_a_machine_that_is_away_is_named_and_the_others_are_done(
    machines: Machines, running: KubeRunning
) -> None:
    machines.away = {"pi2"}
    with pytest.raises(FogError, match="pi2: it does not answer"):
        latency.change(running, matrix(cloud_pi1=40.0))
    assert set(machines.trees) == {"cloud", "pi1"}
    assert HostLatency("cloud") in open_ledger(running.state).steps, "down will clear it"
    machines.away = set()
    latency.change(running, matrix(cloud_pi1=40.0))
    assert machines.trees == dict.fromkeys(NODES, 2)


def test_a_path_the_kernel_cannot_hold_is_refused_before_anything(
    machines: Machines, running: KubeRunning
) -> None:
    with pytest.raises(FogError, match="cannot delay by more than"):
        latency.change(running, matrix(cloud_pi1=600_000.0))
    assert machines.told == []


def test_measured_against_asked(machines: Machines, running: KubeRunning) -> None:
    running = latency.change(running, matrix(cloud_pi1=40.0))
    machines.rtt_ms = {("cloud", "pi1"): 40.6, ("cloud", "pi2"): 0.4, ("pi1", "pi2"): 0.5}
    found = latency.verify(running, 2.0, 10, None)
    assert found.ok
    assert found.measured()["cloud", "pi1"] == pytest.approx(40.5)
    machines.rtt_ms["cloud", "pi1"] = 55.0
    found = latency.verify(running, 2.0, 10, None)
    assert not found.ok
    assert "cloud–pi1 measured 54.9 ms, asked 40 ms" in found.sentence()


def test_an_unanswered_ping_is_a_lost_pair(machines: Machines, running: KubeRunning) -> None:
    machines.rtt_ms = {("cloud", "pi1"): 0.4, ("cloud", "pi2"): 0.4}
    found = latency.verify(running, 2.0, 10, None)
    assert "pi1–pi2 did not answer any of 20 probes" in found.sentence()


def test_lost_latencies_are_told_before_anything_is_measured(
    machines: Machines, running: KubeRunning
) -> None:
    running = latency.change(running, matrix(cloud_pi1=40.0))
    machines.trees.clear()
    with pytest.raises(FogError, match="the latencies are not all injected: cloud has cleared them"):
        latency.verify(running, 2.0, 10, None)


def test_without_hosts_there_is_one_sentence(running: KubeRunning) -> None:
    bare = replace(running, record=replace(running.record, testbed=replace(running.testbed, hosts=())))
    for call in (
        lambda: latency.change(bare, matrix(cloud_pi1=1.0)),
        lambda: latency.verify(bare, 2.0, None, None),
        lambda: latency.require_possible(bare.testbed),
    ):
        with pytest.raises(FogError, match="names no hosts, so no latency can be injected"):
            call()


def test_a_machine_without_the_helper_says_how_to_get_it() -> None:
    def nothing(_host: SshHost, _command: str) -> Answer:
        return Answer(1, "", "sudo: /usr/local/sbin/fog-netem: command not found")

    host = impaired_host.ImpairedHost(SshHost("pi1", "10.0.0.1", "pi"), nothing)
    with pytest.raises(FogError, match="pi1: it is not ready for latencies: fogctl pi provision -p netem"):
        host.renew()


def test_an_address_that_leads_back_is_refused() -> None:
    def loop(_host: SshHost, command: str) -> Answer:
        return Answer(0, "10.0.0.2 127.0.0.1 lo\n" if " route " in command else "", "")

    host = impaired_host.ImpairedHost(SshHost("pi1", "10.0.0.1", "root"), loop)
    with pytest.raises(FogError, match=r"10\.0\.0\.2 leads back to the same machine"):
        host.bring_to({"pi2": Path(40.0)}, None, {"pi2": "10.0.0.2"}, [22])
