"""The delay line: one process that holds back every packet between the nodes for as long as the matrix says.

Run as `python -m fognetem.delayline RUN_DIR/delayline.sock`. The kernel queues what arrives at each node's
data interface (NFQUEUE, without bypass: if this process dies, traffic stops); the verdict is given when the
delay is over.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import signal
import socket
import sys
from collections.abc import Callable
from heapq import heappop, heappush
from pathlib import Path as FilePath
from time import monotonic_ns, sleep
from typing import Any

from fognetem.endpoint import Endpoint
from fognetem.errors import NetemError
from fognetem.lead import MAX_LEAD_NS, calibrate
from fognetem.line import BEHIND, GO, LOST, Pipe
from fognetem.linux import become_realtime
from fognetem.matrix import LatencyMatrix
from fognetem.nfqueue import ACCEPT, ACCEPTED, DROPPED, Inbox, Queues
from fognetem.path import Path
from fognetem.rules import FIRST_QUEUE, LAST_QUEUE

QUEUES = range(FIRST_QUEUE, LAST_QUEUE + 1)
"""Queue numbers in each namespace. The kernel walks a queue to find a packet: several keep walks short."""


_LEARN_NS = 2_000
_WINDOW_NS = 5_000_000
_BUSY_PACKETS = 40
"""From so many packets in a window on (8,000 a second), they are taken together rather than one by one."""
_GATHER_S = 60e-6


class Receiver:
    """One node's queues and a pipe from each other node, found by source address."""

    def __init__(self, endpoint: Endpoint, queues: Queues) -> None:
        self.endpoint = endpoint
        self.queues = queues
        self.pipes: dict[bytes, tuple[Pipe, int]] = {}
        self.verdicts: list[bytes] = []


class DelayLine:
    """All receivers, all pipes, and the order in which packets are due."""

    def __init__(self, endpoints: list[Endpoint], matrix: LatencyMatrix, lead_ns: int) -> None:
        self.matrix = matrix
        self.lead_ns = lead_ns
        self.taken = 0
        self._inbox = Inbox()
        self._rng = random.Random()
        self._due: list[tuple[int, int]] = []
        self._pipes: list[tuple[Pipe, Receiver]] = []
        self._receivers = {e.node: Receiver(e, Queues(e.namespace, QUEUES)) for e in endpoints}
        self._by_pair: dict[tuple[str, str], int] = {}
        for receiver in self._receivers.values():
            for sender in endpoints:
                if sender.node != receiver.endpoint.node:
                    number = len(self._pipes)
                    pipe = Pipe(matrix.path(sender.node, receiver.endpoint.node), lead_ns, self._rng)
                    receiver.pipes[socket.inet_aton(sender.address)] = (pipe, number)
                    self._pipes.append((pipe, receiver))
                    self._by_pair[sender.node, receiver.endpoint.node] = number
        self._cut_where_needed()

    def _cut_where_needed(self) -> None:
        """Loss and rate must see packets of wire size, not the kernel's 64 KiB ones."""
        for name, receiver in self._receivers.items():
            paths = (self.matrix.path(name, other) for other in self._receivers if other != name)
            receiver.queues.segment(any(path.loss or path.rate_bit_s for path in paths))

    def watch(self, register: Callable[[int, Callable[[], None]], None]) -> None:
        """Register every queue's socket with the function that takes from it."""
        for receiver in self._receivers.values():
            register(receiver.queues.socket.fileno(), lambda receiver=receiver: self._take(receiver))  # type: ignore[misc]

    def _take(self, receiver: Receiver) -> None:
        packets = receiver.queues.take(self._inbox)
        self.taken += len(packets)
        now_ns = monotonic_ns()
        find = receiver.pipes.get
        verdicts = receiver.verdicts
        due = self._due
        for queue, packet_id, source, length in packets:
            message = ACCEPT + queue + ACCEPTED + packet_id
            found = find(source)
            if found is None:  # not from a node of ours: none of our business
                verdicts.append(message)
                continue
            when = found[0].enter(message, length, now_ns)
            if when > BEHIND:
                heappush(due, (when, found[1]))
            elif when == GO:
                verdicts.append(message)
            elif when == LOST:
                verdicts.append(ACCEPT + queue + DROPPED + packet_id)
        if verdicts:
            receiver.queues.send(verdicts)
            verdicts.clear()

    def release(self, early_ns: int) -> int | None:
        """Let go what is due within `early_ns`; when the next packet is, in ns of the monotonic clock."""
        due = self._due
        now_ns = monotonic_ns() + early_ns
        touched: set[Receiver] = set()
        while due and due[0][0] <= now_ns:
            _, number = heappop(due)
            pipe, receiver = self._pipes[number]
            following = pipe.leave(now_ns, receiver.verdicts.append)
            if following is not None:
                heappush(due, (following, number))
            touched.add(receiver)
        for receiver in touched:
            receiver.queues.send(receiver.verdicts)
            receiver.verdicts.clear()
        return due[0][0] if due else None

    def set(self, changes: list[tuple[str, str, Path]]) -> None:
        """Other paths between some pairs, from now on; nothing is lost, nothing overtakes."""
        matrix = self.matrix
        changed = {(a, b) for a, b, _ in changes}
        kept = [
            (a, b, path) for a, b, path in matrix.paths if (a, b) not in changed and (b, a) not in changed
        ]
        self.matrix = LatencyMatrix(matrix.nodes, (*kept, *changes))
        now_ns = monotonic_ns()
        for a, b, path in changes:
            for pair in ((a, b), (b, a)):
                number = self._by_pair[pair]
                following = self._pipes[number][0].change(path, self.lead_ns, now_ns)
                if following is not None:
                    heappush(self._due, (following, number))
        self._cut_where_needed()

    def counters(self) -> dict[str, Any]:
        """What became of the packets, in all and by direction of the paths that saw any."""
        pairs: list[dict[str, Any]] = []
        total = {"delayed": 0, "lost": 0, "overflowed": 0, "queue_full": 0, "socket_full": 0, "waiting": 0}
        for (sender, receiver), number in self._by_pair.items():
            seen = self._pipes[number][0].counters
            if seen.delayed or seen.lost or seen.overflowed:
                row = {"delayed": seen.delayed, "lost": seen.lost, "overflowed": seen.overflowed}
                pairs.append({"from": sender, "to": receiver, **row})
                for key, value in row.items():
                    total[key] += value
        for each in self._receivers.values():
            waiting, queue_full, socket_full = each.queues.dropped()
            total["waiting"] += waiting
            total["queue_full"] += queue_full
            total["socket_full"] += socket_full
        return {"total": total, "pairs": pairs}


class Server:
    """The loop: packets, due times and the control socket, in one thread."""

    def __init__(
        self, line: DelayLine, listener: socket.socket, early_ns: int, facts: dict[str, Any]
    ) -> None:
        self._line = line
        self._facts = facts
        self._early_ns = early_ns
        self._epoll = select.epoll()
        self._handlers: dict[int, Callable[[], None]] = {}
        self._listener = listener
        self._register(listener.fileno(), self._accept)
        line.watch(self._register)
        self.stopped = False

    def _register(self, descriptor: int, handler: Callable[[], None]) -> None:
        self._handlers[descriptor] = handler
        self._epoll.register(descriptor, select.EPOLLIN)

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        connection.setblocking(False)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 20)
        received = bytearray()

        def read() -> None:
            try:
                chunk = connection.recv(1 << 20)
            except BlockingIOError:
                return
            except OSError:
                chunk = b""
            received.extend(chunk)
            if chunk and not received.endswith(b"\n"):
                return
            if chunk:
                answer = json.dumps(self._answer(bytes(received))).encode() + b"\n"
                # A reader that does not read is cut off rather than waited for: packets come first.
                with contextlib.suppress(OSError):
                    connection.send(answer)
            self._epoll.unregister(connection.fileno())
            del self._handlers[connection.fileno()]
            connection.close()

        self._register(connection.fileno(), read)

    def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            request = json.loads(line)
            match request["op"]:
                case "status":
                    leads = {"lead_us": self._line.lead_ns / 1000, "early_us": self._early_ns / 1000}
                    return {"ok": True, **self._facts, **leads}
                case "show":
                    return {"ok": True, "matrix": self._line.matrix.to_dict()}
                case "counters":
                    return {"ok": True, **self._line.counters()}
                case "set":
                    changes = [(a, b, Path.from_dict(path)) for a, b, path in request["changes"]]
                    for a, b, _ in changes:
                        self._line.matrix.path(a, b)
                    self._line.set(changes)
                    return {"ok": True}
                case "stop":
                    self.stopped = True
                    return {"ok": True}
                case other:
                    return {"ok": False, "error": f'unknown operation "{other}"'}
        except (ValueError, KeyError, TypeError) as error:
            return {"ok": False, "error": f"bad request: {error}"}

    def run(self) -> None:
        """Serve until stopped."""
        handlers, epoll = self._handlers, self._epoll
        waitable = [epoll]
        window_ns, taken, busy = monotonic_ns(), 0, False
        following = self._line.release(self._early_ns)
        while not self.stopped:
            if following is None:
                select.select(waitable, (), ())
            else:
                wake_ns = following - self._early_ns
                left_ns = wake_ns - monotonic_ns()
                # select, unlike epoll, waits with microsecond precision.
                if left_ns > 0 and not select.select(waitable, (), (), left_ns / 1e9)[0]:
                    self._learn(monotonic_ns() - wake_ns)
            now_ns = monotonic_ns()
            if now_ns - window_ns > _WINDOW_NS:
                rate = (self._line.taken - taken) * _WINDOW_NS / (now_ns - window_ns)
                window_ns, taken, busy = now_ns, self._line.taken, rate > _BUSY_PACKETS
            if busy:
                # A wake-up costs as much as ten packets: let some more arrive before looking.
                sleep(_GATHER_S)
            for descriptor, _ in epoll.poll(0):
                if handler := handlers.get(descriptor):
                    handler()
            following = self._line.release(self._early_ns)

    def _learn(self, late_ns: int) -> None:
        """Follow the median of how late timers fire: it changes with load and the depth of CPU sleep."""
        step = _LEARN_NS if late_ns > self._early_ns else -_LEARN_NS
        self._early_ns = min(max(0, self._early_ns + step), MAX_LEAD_NS)


def main(socket_path: str) -> None:
    """Read the configuration beside the socket, become real-time, and serve."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    run_dir = FilePath(socket_path).parent
    config = json.loads((run_dir / "delayline.json").read_text())
    endpoints = [Endpoint(**entry) for entry in config["endpoints"]]
    matrix = LatencyMatrix.from_dict(config["matrix"])
    refused = become_realtime()
    if refused:
        print(refused, flush=True)
    lead_ns, early_ns = calibrate()
    print(f"a queued packet is {lead_ns / 1000:.0f} µs late, a timer {early_ns / 1000:.0f} µs", flush=True)
    line = DelayLine(endpoints, matrix, lead_ns)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    os.umask(0o177)
    FilePath(socket_path).unlink(missing_ok=True)
    listener.bind(socket_path)
    listener.listen(64)
    facts = {
        "pid": os.getpid(),
        "realtime": refused is None,
        "warning": refused,
        "endpoints": config["endpoints"],
    }
    Server(line, listener, early_ns, facts).run()


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except NetemError as failure:
        print(failure, flush=True)
        sys.exit(1)
