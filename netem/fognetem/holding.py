"""Holding packets back: a pipe for each direction of each pair, behind the queues of every node."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Callable
from heapq import heappop, heappush
from time import monotonic_ns
from typing import Any

from fognetem.endpoint import Endpoint
from fognetem.line import BEHIND, GO, LOST, Pipe
from fognetem.matrix import LatencyMatrix
from fognetem.nfqueue import ACCEPT, ACCEPTED, DROPPED, Inbox, Queues
from fognetem.path import UNIMPAIRED, Path
from fognetem.rules import FIRST_QUEUE, LAST_QUEUE

QUEUES = range(FIRST_QUEUE, LAST_QUEUE + 1)
"""Queue numbers in each namespace. The kernel walks a queue to find a packet: several keep walks short."""
_NEVER = 1 << 62


class Receiver:
    """One node's queues and a pipe from each other node, found by source address."""

    def __init__(self, endpoint: Endpoint, queues: Queues) -> None:
        self.endpoint = endpoint
        self.queues = queues
        self.pipes: dict[bytes, tuple[Pipe, int]] = {}
        self.verdicts: list[bytes] = []
        self.cutting: set[str] = set()
        """The senders whose packets must be of wire size."""


class DelayLine:
    """All receivers, all pipes, and the order in which packets are due."""

    def __init__(self, endpoints: list[Endpoint], matrix: LatencyMatrix, lead_ns: int) -> None:
        self.lead_ns = lead_ns
        self.taken = 0
        self.waited_ns = 0
        """How long nobody looked for packets on purpose: on average, one came in the middle of that time."""
        self.nodes = matrix.nodes
        self._shown: dict[tuple[str, str], str] = {}
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
                    pipe = Pipe(UNIMPAIRED, lead_ns, self._rng)
                    receiver.pipes[socket.inet_aton(sender.address)] = (pipe, number)
                    self._pipes.append((pipe, receiver))
                    self._by_pair[sender.node, receiver.endpoint.node] = number
        self._scheduled = [_NEVER] * len(self._pipes)
        self.set(list(matrix.paths))

    def _schedule(self, when_ns: int, number: int) -> None:
        """Look at a pipe again at that time, unless that happens earlier anyhow."""
        if when_ns < self._scheduled[number]:
            self._scheduled[number] = when_ns
            heappush(self._due, (when_ns, number))

    def watch(self, register: Callable[[int, Callable[[], None]], None]) -> None:
        """Register every queue's socket with the function that takes from it."""
        for receiver in self._receivers.values():
            register(receiver.queues.socket.fileno(), lambda receiver=receiver: self._take(receiver))  # type: ignore[misc]

    def _take(self, receiver: Receiver) -> None:
        packets = receiver.queues.take(self._inbox)
        self.taken += len(packets)
        now_ns = monotonic_ns() - self.waited_ns // 2
        find = receiver.pipes.get
        verdicts = receiver.verdicts
        for queue, packet_id, source, length in packets:
            message = ACCEPT + queue + ACCEPTED + packet_id
            found = find(source)
            if found is None:  # not from a node of ours: none of our business
                verdicts.append(message)
                continue
            when = found[0].enter(message, length, now_ns)
            if when > BEHIND:
                self._schedule(when, found[1])
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
            when_ns, number = heappop(due)
            if when_ns != self._scheduled[number]:
                continue  # an earlier look at the same pipe made this one void
            self._scheduled[number] = _NEVER
            pipe, receiver = self._pipes[number]
            following = pipe.leave(now_ns, receiver.verdicts.append)
            if following is not None:
                self._schedule(following, number)
            touched.add(receiver)
        for receiver in touched:
            receiver.queues.send(receiver.verdicts)
            receiver.verdicts.clear()
        return due[0][0] if due else None

    def set(self, changes: list[tuple[str, str, Path]]) -> None:
        """Other paths between some pairs, from now on; nothing is lost, nothing overtakes."""
        for a, b, _ in changes:
            if (a, b) not in self._by_pair:
                raise ValueError(f"there is no pair {a}–{b}")
        now_ns = monotonic_ns()
        touched: set[str] = set()
        for a, b, path in changes:
            for sender, receiver in ((a, b), (b, a)):
                number = self._by_pair[sender, receiver]
                following = self._pipes[number][0].change(path, self.lead_ns, now_ns)
                if following is not None:
                    self._schedule(following, number)
                # Loss and rate must see packets of wire size, not the kernel's 64 KiB ones.
                cutting = self._receivers[receiver].cutting
                (cutting.add if path.loss or path.rate_bit_s else cutting.discard)(sender)
            touched |= {a, b}
            self._shown.pop((b, a), None)
            self._shown[a, b] = json.dumps({"between": [a, b], **path.to_dict()})
        for node in touched:
            self._receivers[node].queues.segment(bool(self._receivers[node].cutting))

    def shown(self) -> str:
        """The answer to "show", put together from pieces: no packet waits while a large matrix is encoded."""
        nodes = json.dumps(self.nodes)
        return f'{{"ok": true, "matrix": {{"nodes": {nodes}, "paths": [{", ".join(self._shown.values())}]}}}}'

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
