"""How much the delay line itself costs a packet, measured in a throw-away namespace on this very host.

A packet that passes a queue is late by two wake-ups (it is seen, its timer fires). The delay line lets every
packet go that much earlier. The figures differ between hosts and with load, so they are measured.
"""

from __future__ import annotations

import fcntl
import os
import random
import select
import socket
import statistics
import struct
import subprocess
from time import monotonic_ns, sleep

from fognetem.errors import NetemError
from fognetem.line import GO, Pipe
from fognetem.linux import new_network_namespace
from fognetem.nfqueue import ACCEPT, ACCEPTED, Inbox, Queues
from fognetem.path import Path
from fognetem.rules import iptables

PROBES = 41
DELAY_MS = 4.0
MAX_LEAD_NS = 1_000_000
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1


def calibrate() -> tuple[int, int]:
    """How late a packet is seen and how late a timer fires: medians in ns, 0 to 1 ms each.

    NetemError if NFQUEUE does not work here.
    """
    order_end, order = os.pipe()
    report, report_end = os.pipe()
    child = os.fork()
    if child == 0:
        # Each side holds its own ends only, so that either sees the other's death.
        os.close(order)
        os.close(report)
        os._exit(_probe(order_end, report_end))
    os.close(order_end)
    os.close(report_end)
    try:
        return _serve(child, order, report)
    except OSError as error:
        raise NetemError(f"NFQUEUE does not work on this host: {error}") from error
    finally:
        os.close(order)
        os.close(report)
        os.waitpid(child, 0)


def _line(descriptor: int) -> str:
    text = b""
    while not text.endswith(b"\n"):
        chunk = os.read(descriptor, 4096)
        if not chunk:
            break
        text += chunk
    return text.decode().strip()


def _probe(order: int, report: int) -> int:
    """The child: a namespace of its own, packets to itself, first free and then through the queue."""
    try:
        new_network_namespace()
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        fcntl.ioctl(sender, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))
        sender.bind(("127.0.0.1", 0))
        sender.settimeout(1)
        free_ns = _round_trips(sender)
        argv = [*iptables("-A", "lo"), "-j", "NFQUEUE", "--queue-num", "0"]
        made = subprocess.run(argv, capture_output=True, text=True, check=False)
        if made.returncode:
            os.write(report, f"error iptables: {made.stderr.strip() or made.returncode}\n".encode())
            return 1
        os.write(report, b"ready\n")
        if not os.read(order, 1):
            return 1
        queued_ns = _round_trips(sender)
        os.write(report, f"{int(queued_ns - free_ns)}\n".encode())
    except (OSError, subprocess.SubprocessError) as error:
        os.write(report, f"error {error}\n".encode())
        return 1
    return 0


def _round_trips(own: socket.socket) -> float:
    took: list[int] = []
    for _ in range(PROBES):
        start = monotonic_ns()
        own.sendto(b"probe", own.getsockname())
        own.recv(16)
        took.append(monotonic_ns() - start)
        sleep(0.0005)
    return statistics.median(took)


def _serve(child: int, order: int, report: int) -> tuple[int, int]:
    ready = _line(report)
    if ready != "ready":
        raise NetemError(f"NFQUEUE does not work on this host: {ready.removeprefix('error ') or 'no answer'}")
    queues = Queues(f"/proc/{child}/ns/net", range(1))
    try:
        os.write(order, b"\n")
        pipe = Pipe(Path(rtt_ms=2 * DELAY_MS), 0, random.Random(0))
        inbox = Inbox()
        verdicts: list[bytes] = []
        late_ns: list[int] = []
        watched = [queues.socket.fileno(), report]
        while True:
            following = pipe.next_ns()
            left = None if following is None else max(0.0, (following - monotonic_ns()) / 1e9)
            ready_now, _, _ = select.select(watched, (), (), left)
            if report in ready_now:
                break
            if not ready_now and following is not None:
                late_ns.append(monotonic_ns() - following)
            for queue, packet_id, _source, length in queues.take(inbox):
                message = ACCEPT + queue + ACCEPTED + packet_id
                if pipe.enter(message, length, monotonic_ns()) == GO:
                    verdicts.append(message)
            pipe.leave(monotonic_ns(), verdicts.append)
            queues.send(verdicts)
            verdicts.clear()
    finally:
        queues.close()
    answer = _line(report)
    if not answer.lstrip("-").isdigit():
        raise NetemError(f"NFQUEUE does not pass packets on this host: {answer.removeprefix('error ')}")
    timer_ns = int(statistics.median(late_ns)) if late_ns else 0
    seen_ns = int(answer) - round(DELAY_MS * 1e6) - timer_ns
    return _bounded(seen_ns), _bounded(timer_ns)


def _bounded(value_ns: int) -> int:
    return max(0, min(MAX_LEAD_NS, value_ns))
