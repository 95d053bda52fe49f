"""Latency emulation on real namespaces, the same assertions for every backend this kernel can run."""

from __future__ import annotations

import os
import signal
import socket
import statistics
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path as FilePath

import pytest
from fognetem import (
    Backend,
    Endpoint,
    Kernel,
    LatencyMatrix,
    LocalHost,
    NetemError,
    Path,
    UserSpace,
    apply,
    change,
    clear,
    difference,
    plan,
    show,
    verify,
)
from fognetem.choose import kernel_trouble, userspace_trouble
from fognetem.control import find
from fognetem.linux import inside
from fognetem.measure import measure
from netem_net import network

pytestmark = [
    pytest.mark.root,
    pytest.mark.alone,
    pytest.mark.skipif(
        sys.platform != "linux" or os.geteuid() != 0, reason="network namespaces need root on Linux"
    ),
]
TROUBLES: dict[str, Callable[[], str | None]] = {"kernel": kernel_trouble, "userspace": userspace_trouble}
_found: dict[str, str | None] = {}


@dataclass(frozen=True)
class Net:
    """A network of a few nodes and the backend that impairs it."""

    endpoints: tuple[Endpoint, ...]
    backend: Backend
    host: LocalHost
    slack_ms: float
    """How far a median may be off here: little on an idle machine, more on an emulated or crowded one."""

    def matrix(self, **rtts: Path) -> LatencyMatrix:
        """n0_n1=Path(80) and so on."""
        nodes = tuple(endpoint.node for endpoint in self.endpoints)
        return LatencyMatrix(nodes, tuple((*pair.split("_"), path) for pair, path in rtts.items()))  # type: ignore[misc]


@pytest.fixture(params=["kernel", "userspace"])
def net(request: pytest.FixtureRequest, tmp_path: FilePath) -> Iterator[Net]:
    name = request.param
    if name not in _found:
        _found[name] = TROUBLES[name]()
    if _found[name] is not None:
        pytest.skip(f"the {name} backend does not work here: {_found[name]}")
    with network(3) as endpoints:
        run_dir = str(tmp_path / "net")
        backend = Kernel(endpoints) if name == "kernel" else UserSpace(endpoints, run_dir)
        host = LocalHost()
        try:
            yield Net(endpoints, backend, host, 6 + 3 * unimpaired_ms(endpoints))
        finally:
            clear(backend, host)


def unimpaired_ms(endpoints: tuple[Endpoint, ...]) -> float:
    """What nine of ten echoes take at most without any impairment."""
    nothing = LatencyMatrix(tuple(endpoint.node for endpoint in endpoints))
    seen = measure(endpoints, nothing, 15)
    trips = sorted(trip for samples in seen.pairs.values() for trip in samples.round_trips)
    return trips[len(trips) * 9 // 10]


def udp(endpoint: Endpoint, buffer: int = 8 << 20) -> socket.socket:
    with inside(endpoint.namespace):
        opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    opened.setsockopt(socket.SOL_SOCKET, 33, buffer)  # SO_RCVBUFFORCE
    opened.bind((endpoint.address, 0))
    opened.settimeout(3)
    return opened


def flow(
    net: Net, packets: int, per_s: float, during: Callable[[], None] = lambda: None, size: int = 4
) -> tuple[list[int], list[float]]:
    """Numbered packets from n0 to n1 at a rate; the numbers in order of arrival, and when each arrived."""
    sender, receiver = udp(net.endpoints[0]), udp(net.endpoints[1], 64 << 20)
    to = receiver.getsockname()

    def send() -> None:
        start = time.monotonic()
        for number in range(packets):
            left = start + number / per_s - time.monotonic()
            if left > 0:
                time.sleep(left)
            sender.sendto(struct.pack("I", number) + bytes(size - 4), to)

    arrived: list[int] = []
    times: list[float] = []
    done = threading.Event()

    def receive() -> None:
        receiver.settimeout(0.2)
        quiet = 0
        while len(arrived) < packets and not (done.is_set() and quiet > 5):
            try:
                data = receiver.recv(65536)
            except TimeoutError:
                quiet += 1
                continue
            quiet = 0
            arrived.append(struct.unpack_from("I", data)[0])
            times.append(time.monotonic())

    threads = [threading.Thread(target=receive), threading.Thread(target=send)]
    for thread in threads:
        thread.start()
    during()
    threads[1].join()
    done.set()
    threads[0].join()
    sender.close()
    receiver.close()
    return arrived, times


def test_every_pair_has_the_asked_latency_both_ways(net: Net) -> None:
    matrix = net.matrix(n0_n1=Path(80), n0_n2=Path(300), n1_n2=Path(10))
    apply(matrix, net.backend, net.host)
    # The machine may be busy with anything: judge the median of each pair, generously.
    result = verify(matrix, net.backend, tolerance_ms=net.slack_ms, probes=31)
    assert result.ok, result.sentence()
    for pair in result.pairs:
        assert pair.sent == pair.answered == 31
        assert pair.there_ms == pytest.approx(pair.asked_ms / 2, abs=net.slack_ms)
        assert pair.back_ms == pytest.approx(pair.asked_ms / 2, abs=net.slack_ms)


def test_verify_names_a_pair_that_is_off(net: Net) -> None:
    injected = net.matrix(n0_n1=Path(300), n0_n2=Path(20))
    apply(injected, net.backend, net.host)
    result = verify(
        injected.with_path("n0", "n1", Path(40)),
        net.backend,
        tolerance_ms=min(15 + net.slack_ms, 100),
        probes=15,
    )
    assert not result.ok
    assert [(pair.a, pair.b) for pair in result.pairs if not pair.ok] == [("n0", "n1")]
    assert result.sentence().startswith("n0–n1 measured")
    assert "asked 40 ms" in result.sentence()


def test_what_is_shown_is_what_was_planned(net: Net) -> None:
    matrix = net.matrix(
        n0_n1=Path(80, 8), n0_n2=Path(300, 0, 0.25), n1_n2=Path(10, 4, 0.001, 8e6, reorder=False)
    )
    steps = apply(matrix, net.backend, net.host)
    assert steps
    assert all(step.present(net.host) for step in plan(matrix, net.backend))
    read_back = show(net.backend, net.host)
    assert read_back.nodes == matrix.nodes
    for a, b, path in matrix.pairs():
        there = read_back.path(a, b)
        assert (there.rtt_ms, there.jitter_ms, there.rate_bit_s) == (
            path.rtt_ms,
            path.jitter_ms,
            path.rate_bit_s,
        )
        assert there.loss == pytest.approx(path.loss, abs=1e-6)
    assert apply(matrix, net.backend, net.host) == []
    changed = matrix.with_path("n0", "n1", Path(20)).with_path("n1", "n2", Path())
    changes = difference(matrix, changed, net.backend)
    assert not any(step.present(net.host) for step in changes)
    change(matrix, changed, net.backend, net.host)
    assert all(step.present(net.host) for step in changes)
    assert show(net.backend, net.host).path("n0", "n1") == Path(20)
    for step in reversed(changes):
        step.undo(net.host)
    assert show(net.backend, net.host).rtt_ms("n1", "n2") == 10


def test_live_changes_lose_and_reorder_nothing_under_load(net: Net) -> None:
    matrix = net.matrix(n0_n1=Path(40), n0_n2=Path(10))
    apply(matrix, net.backend, net.host)
    current = matrix

    def during() -> None:
        nonlocal current
        for rtt in (200, 10, 120, 0, 60, 20):
            time.sleep(0.25)
            wanted = current.with_path("n0", "n1", Path(rtt))
            change(current, wanted, net.backend, net.host)
            current = wanted

    arrived, _ = flow(net, 4000, 2000, during)
    assert len(arrived) == 4000
    assert arrived == sorted(arrived)
    result = verify(current, net.backend, tolerance_ms=net.slack_ms, probes=15)
    assert result.ok, result.sentence()


def test_jitter_varies_the_delay_and_keeps_the_order(net: Net) -> None:
    matrix = net.matrix(n0_n1=Path(60, 40))
    apply(matrix, net.backend, net.host)
    arrived, _ = flow(net, 1500, 1000)
    assert len(arrived) == 1500
    assert arrived == sorted(arrived)
    (pair, *_) = verify(matrix, net.backend, tolerance_ms=net.slack_ms + 4, probes=60).pairs
    assert pair.ok, pair.trouble
    assert pair.jitter_ms is not None
    assert 20 < pair.jitter_ms < 60 + net.slack_ms


def test_jitter_with_reordering_reorders(net: Net) -> None:
    apply(net.matrix(n0_n1=Path(60, 40, reorder=True)), net.backend, net.host)
    arrived, _ = flow(net, 1500, 1000)
    assert sorted(arrived) == list(range(1500))
    assert arrived != sorted(arrived)


def test_loss_is_about_what_was_asked(net: Net) -> None:
    apply(net.matrix(n0_n1=Path(10, loss=0.1)), net.backend, net.host)
    arrived, _ = flow(net, 3000, 3000)
    lost = 3000 - len(arrived)
    assert 300 - 5 * 16.4 < lost < 300 + 5 * 16.4  # five standard deviations
    assert arrived == sorted(arrived)


def test_total_loss_on_one_pair_leaves_the_others_alone(net: Net) -> None:
    matrix = net.matrix(n0_n1=Path(10, loss=1.0), n0_n2=Path(20))
    apply(matrix, net.backend, net.host)
    result = verify(matrix, net.backend, tolerance_ms=net.slack_ms, probes=10)
    assert result.ok, result.sentence()
    assert [pair.answered for pair in result.pairs] == [0, 10, 10]


def test_rate_is_about_what_was_asked(net: Net) -> None:
    apply(net.matrix(n0_n1=Path(10, rate_bit_s=1e6)), net.backend, net.host)
    # Twice the rate for two seconds: what arrives between the first and the last packet passed at the rate.
    arrived, times = flow(net, 500, 250, size=1000)
    assert 100 < len(arrived) < 450, "a buffer of 200 ms cannot hold a second's excess"
    measured = (len(arrived) - 1) * 1042 * 8 / (times[-1] - times[0])
    assert measured == pytest.approx(1e6, rel=0.15)


def test_tcp_passes_whole_and_is_delayed(net: Net) -> None:
    apply(net.matrix(n0_n1=Path(30)), net.backend, net.host)
    with inside(net.endpoints[1].namespace):
        listener = socket.create_server((net.endpoints[1].address, 0))
    with inside(net.endpoints[0].namespace):
        client = socket.socket()
    size, received = 8 << 20, 0

    def serve() -> None:
        nonlocal received
        connection, _ = listener.accept()
        with connection:
            while chunk := connection.recv(1 << 20):
                received += len(chunk)
            connection.send(b"done")

    server = threading.Thread(target=serve)
    server.start()
    client.settimeout(60)
    began = time.monotonic()
    client.connect(listener.getsockname())
    connected = time.monotonic() - began
    client.sendall(bytes(size))
    client.shutdown(socket.SHUT_WR)
    assert client.recv(16) == b"done"
    server.join()
    client.close()
    listener.close()
    assert received == size
    assert connected >= 0.028


def test_clear_removes_everything(net: Net) -> None:
    def state() -> list[str]:
        found = []
        for endpoint in net.endpoints:
            found.append(net.host.run(endpoint.namespace, ["tc", "qdisc", "show", "dev", "data0"]))
            found.append(net.host.run(endpoint.namespace, ["iptables-save", "-t", "mangle"]))
        # Counters, dates and policies without rules are not ours to compare.
        return [line for text in found for line in text.splitlines() if line.startswith(("qdisc", "-A"))]

    before = state()
    matrix = net.matrix(n0_n1=Path(80), n1_n2=Path(20, 5, 0.1, 1e6))
    apply(matrix, net.backend, net.host)
    assert state() != before
    clear(net.backend, net.host)
    clear(net.backend, net.host)
    assert state() == before
    if isinstance(net.backend, UserSpace):
        assert find(net.backend.run_dir) is None
        assert not FilePath(net.backend.run_dir).exists()
    assert verify(LatencyMatrix(matrix.nodes), net.backend, tolerance_ms=net.slack_ms, probes=11).ok


def test_a_failing_plan_leaves_nothing_behind(net: Net) -> None:
    broken = (
        *net.endpoints[:2],
        Endpoint("n2", net.endpoints[2].namespace, "nosuch0", net.endpoints[2].address),
    )
    backend: Backend = Kernel(broken)
    if isinstance(net.backend, UserSpace):
        broken = (*net.endpoints[:2], Endpoint("n2", "fog-test-nowhere", "data0", net.endpoints[2].address))
        backend = UserSpace(broken, net.backend.run_dir)
    matrix = net.matrix(n0_n1=Path(80), n0_n2=Path(20))
    with pytest.raises((NetemError, OSError)):
        apply(matrix, backend, net.host)
    assert verify(LatencyMatrix(matrix.nodes), net.endpoints, tolerance_ms=net.slack_ms, probes=11).ok


def test_median_error_is_small_when_judged_over_many_probes(net: Net) -> None:
    matrix = net.matrix(n0_n1=Path(50), n0_n2=Path(5), n1_n2=Path(150))
    apply(matrix, net.backend, net.host)
    result = verify(matrix, net.backend, tolerance_ms=net.slack_ms, probes=60)
    errors = [abs(pair.error_ms) for pair in result.pairs if pair.error_ms is not None]
    assert len(errors) == 3
    assert statistics.median(errors) < net.slack_ms / 2


@pytest.fixture
def delay_line(net: Net) -> int:
    assert isinstance(net.backend, UserSpace), "the kernel backend has no process that could die"
    apply(net.matrix(n0_n1=Path(20)), net.backend, net.host)
    pid = find(net.backend.run_dir)
    assert pid is not None
    return pid


@pytest.mark.parametrize("net", ["userspace"], indirect=True)
def test_killed_delay_line_stops_traffic_instead_of_letting_it_run_free(net: Net, delay_line: int) -> None:
    os.kill(delay_line, signal.SIGKILL)
    os.waitpid(delay_line, 0)
    arrived, _ = flow(net, 20, 200)
    assert arrived == []
    assert not all(step.present(net.host) for step in plan(net.matrix(n0_n1=Path(20)), net.backend))
    apply(net.matrix(n0_n1=Path(20)), net.backend, net.host)
    arrived, _ = flow(net, 20, 200)
    assert arrived == list(range(20))


@pytest.mark.parametrize("net", ["userspace"], indirect=True)
def test_live_change_of_a_dead_delay_line_is_one_sentence(net: Net, delay_line: int) -> None:
    os.kill(delay_line, signal.SIGKILL)
    os.waitpid(delay_line, 0)
    matrix = net.matrix(n0_n1=Path(20))
    with pytest.raises(NetemError, match="does not answer"):
        change(matrix, matrix.with_path("n0", "n1", Path(5)), net.backend, net.host)
