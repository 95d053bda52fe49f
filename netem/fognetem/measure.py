"""Measuring every pair of nodes: one process with a UDP socket in each namespace sends, echoes and times.

Kernel receive timestamps are of no use here: they are taken before the user-space delay line holds a packet.
The process therefore asks for real-time priority while it measures, so that a busy host does not fake errors.
"""

from __future__ import annotations

import contextlib
import gc
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath

from fognetem.endpoint import Endpoint
from fognetem.errors import NetemError
from fognetem.linux import REALTIME_PRIORITY, inside, realtime
from fognetem.matrix import LatencyMatrix

ECHOES_PER_S = 2000.0
"""Echoes started a second in all: a tenth of what the delay line carries; probes do not delay each other."""
_BASELINE_ECHOES = 15
_BASELINE_NODES = 8
_SHORTEST_ROUND_S = 0.015
_GRACE_S = 1.0
_PROBE = struct.Struct("=BIIqq")
FRAME_BYTES = _PROBE.size + 8 + 20 + 14
"""A probe on the wire: payload, UDP, IPv4 and Ethernet headers."""
_PING, _PONG = 0, 1

Progress = Callable[[float], None]
"""Told the fraction done, 0 to 1."""


@dataclass(slots=True)
class Samples:
    """What was seen between two nodes; times in ms."""

    sent: int = 0
    there: list[float] = field(default_factory=list)
    back: list[float] = field(default_factory=list)
    round_trips: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Measurement:
    """Samples of every pair and the circumstances they were taken in."""

    pairs: dict[tuple[str, str], Samples]
    baseline_ms: float
    """What an echo costs without any network between."""
    busy: float
    """How busy the host's CPUs were, 0 to 1."""
    duration_s: float
    stolen: float
    """Share of the CPU time that a hypervisor gave to others, 0 to 1: no priority helps against that."""
    warning: str | None
    """Why the figures may be off, if anything is known."""


def measure(
    endpoints: Sequence[Endpoint], matrix: LatencyMatrix, probes: int, progress: Progress | None = None
) -> Measurement:
    """Echo between every two nodes of the matrix, `probes` times each, all pairs at once."""
    by_node = {endpoint.node: endpoint for endpoint in endpoints}
    pairs = [(a, b) for a, b, _ in matrix.pairs()]
    with contextlib.ExitStack() as opened:
        sockets = [opened.enter_context(_socket(by_node[node])) for node in matrix.nodes]
        refused = opened.enter_context(realtime(REALTIME_PRIORITY - 1))
        opened.enter_context(_no_collector())
        before, start = _cpu_times(), time.monotonic()
        echo = _Echo(sockets)
        baseline_ms = echo.baseline()
        number = {node: place for place, node in enumerate(matrix.nodes)}
        numbered = [(number[a], number[b]) for a, b in pairs]
        echo.run(numbered, probes, _round_s(matrix, len(pairs), baseline_ms), _wait_s(matrix), progress)
        busy, stolen = _shares(before, _cpu_times())
        duration_s = time.monotonic() - start
    measured = dict(zip(pairs, echo.samples, strict=True))
    if refused is None and any(not seen.round_trips for seen in echo.samples):
        refused = _crowded(len(matrix.nodes))
    return Measurement(measured, baseline_ms, busy, duration_s, stolen, refused)


def _round_s(matrix: LatencyMatrix, pairs: int, echo_ms: float) -> float:
    """Time between two probes of the same pair: long enough that one does not wait for the other.

    On a slow machine, where an echo costs much, three quarters of the time stay free for the network itself.
    """
    jitter_s = max((path.jitter_ms / 1000 for _, _, path in matrix.paths), default=0.0)
    per_s = min(ECHOES_PER_S, 250 / echo_ms)
    return max(pairs / per_s, _SHORTEST_ROUND_S, min(jitter_s, 0.05), min(_sending_s(matrix), 1.0))


def _wait_s(matrix: LatencyMatrix) -> float:
    """How long an answer may take."""
    return 2 * matrix.max_one_way_ms() / 1000 + 2 * _sending_s(matrix) + _GRACE_S


def _sending_s(matrix: LatencyMatrix) -> float:
    """How long two probes take to be sent on the slowest path."""
    slowest = min((path.rate_bit_s for _, _, path in matrix.paths if path.rate_bit_s), default=None)
    return 2 * FRAME_BYTES * 8 / slowest if slowest else 0.0


@contextlib.contextmanager
def _socket(endpoint: Endpoint) -> Iterator[socket.socket]:
    try:
        with inside(endpoint.namespace):
            opened = socket.socket(
                socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
            )
    except OSError as error:
        raise NetemError(f'node "{endpoint.node}" cannot be reached: {error.strerror or error}') from None
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        try:
            opened.bind((endpoint.address, 0))
        except OSError as error:
            raise NetemError(
                f'node "{endpoint.node}" does not have the address {endpoint.address}: {error.strerror}'
            ) from None
        yield opened
    finally:
        opened.close()


@contextlib.contextmanager
def _no_collector() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Echo:
    """Sends, answers and times; everything in one loop over all sockets."""

    def __init__(self, sockets: list[socket.socket]) -> None:
        self._sockets = sockets
        self._names = [opened.getsockname() for opened in sockets]
        self._epoll = select.epoll()
        self._by_descriptor = {opened.fileno(): opened for opened in sockets}
        for descriptor in self._by_descriptor:
            self._epoll.register(descriptor, select.EPOLLIN)
        self.samples: list[Samples] = []
        self._answered = 0

    def baseline(self) -> float:
        """The median echo of nodes to themselves, one after the other, in ms: the measurement's own cost."""
        chosen = [(node, node) for node in range(min(len(self._sockets), _BASELINE_NODES))]
        self.samples = [Samples() for _ in chosen]
        self._answered = 0
        for place in range(_BASELINE_ECHOES * len(chosen)):
            before = self._answered
            self._send(chosen, place)
            deadline_ns = time.monotonic_ns() + int(_GRACE_S * 1e9)
            while self._answered == before and time.monotonic_ns() < deadline_ns:
                self._receive_until(min(deadline_ns, time.monotonic_ns() + 1_000_000))
            if not self._answered:
                raise NetemError("no node reaches its own address; are the nodes up?")
        trips = sorted(trip for samples in self.samples for trip in samples.round_trips)
        return trips[len(trips) // 2]

    def run(
        self,
        pairs: list[tuple[int, int]],
        probes: int,
        round_s: float,
        wait_s: float,
        progress: Progress | None,
    ) -> None:
        """Every pair once a round; leaves the samples in `samples`, in the order of the pairs."""
        self.samples = [Samples() for _ in pairs]
        self._answered = 0
        total = probes * len(pairs)
        gap_ns = int(round_s * 1e9 / len(pairs)) if pairs else 0
        next_ns = time.monotonic_ns()
        told = 0
        for place in range(total):
            self._receive_until(next_ns)
            # Counted from when it is really sent: a slow machine gets fewer probes a second, never a burst.
            next_ns = time.monotonic_ns() + gap_ns
            self._send(pairs, place)
            if progress is not None and place - told > ECHOES_PER_S / 4:
                told = place
                progress(place / total)
        deadline_ns = time.monotonic_ns() + int(wait_s * 1e9)
        while self._answered < total and time.monotonic_ns() < deadline_ns:
            self._receive_until(min(deadline_ns, time.monotonic_ns() + 20_000_000))
        if progress is not None:
            progress(1.0)

    def _send(self, pairs: list[tuple[int, int]], place: int) -> None:
        number = place % len(pairs)
        sender, receiver = pairs[number]
        self.samples[number].sent += 1
        try:
            self._sockets[sender].sendto(
                _PROBE.pack(_PING, sender, number, time.monotonic_ns(), 0), self._names[receiver]
            )
        except OSError:
            return  # counts as lost: the pair cannot be reached

    def _receive_until(self, until_ns: int) -> None:
        """Take what comes until then; what has come already is taken in any case."""
        while True:
            left_ns = max(0, until_ns - time.monotonic_ns())
            # select, unlike epoll, waits with microsecond precision.
            if not select.select((self._epoll,), (), (), left_ns / 1e9)[0]:
                return
            for descriptor, _ in self._epoll.poll(0):
                self._take(self._by_descriptor[descriptor])

    def _take(self, opened: socket.socket) -> None:
        while True:
            try:
                data, sender = opened.recvfrom(64)
            except BlockingIOError:
                return
            except OSError:
                continue  # an ICMP error from a node that has gone
            now_ns = time.monotonic_ns()
            if len(data) != _PROBE.size:
                continue
            kind, origin, number, sent_ns, came_ns = _PROBE.unpack(data)
            if number >= len(self.samples):
                continue
            if kind == _PING:
                with contextlib.suppress(OSError):
                    opened.sendto(_PROBE.pack(_PONG, origin, number, sent_ns, now_ns), sender)
                self.samples[number].there.append((now_ns - sent_ns) / 1e6)
            else:
                self._answered += 1
                self.samples[number].back.append((now_ns - came_ns) / 1e6)
                self.samples[number].round_trips.append((now_ns - sent_ns) / 1e6)


def _crowded(nodes: int) -> str | None:
    """All network namespaces share one ARP table: if all pairs do not fit it, many stay silent."""
    limit = FilePath("/proc/sys/net/ipv4/neigh/default/gc_thresh3")
    try:
        most = int(limit.read_text())
    except (OSError, ValueError):
        return None
    needed = nodes * (nodes - 1)
    if needed <= most:
        return None
    raise_it = f"sysctl net.ipv4.neigh.default.gc_thresh3={2 * needed}"
    return f"{needed} ARP entries do not fit the kernel's table ({most}): {raise_it}"


def _cpu_times() -> tuple[int, int, int]:
    """All, idle and stolen jiffies of all CPUs since boot."""
    with contextlib.suppress(OSError):
        fields = [int(value) for value in FilePath("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        return sum(fields), fields[3] + fields[4], fields[7]
    return 0, 0, 0


def _shares(before: tuple[int, int, int], after: tuple[int, int, int]) -> tuple[float, float]:
    """The shares of the CPU time that were busy and stolen between two readings."""
    total = after[0] - before[0]
    if total <= 0:
        return 0.0, 0.0
    return 1 - (after[1] - before[1]) / total, (after[2] - before[2]) / total
