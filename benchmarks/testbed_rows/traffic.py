"""Programs that run inside nodes: send, receive, spin, tick. Each prints what it saw as one line of JSON.

Standard library only, and nothing of fogctl: start-up counts on a node with a small CPU share.

    python traffic.py receive-tcp ADDRESS WARM_S      prints its port, then bytes and seconds once warm
    python traffic.py send-tcp ADDRESS PORT SECONDS
    python traffic.py receive-udp ADDRESS             prints its port, then what came until stdin ends
    python traffic.py send-udp ADDRESS PORT SECONDS PER_S SIZE     PER_S 0: a flood; until stdin ends
    python traffic.py spin SECONDS                    prints the CPU seconds it got
    python traffic.py tick SECONDS                    wakes each ms; prints the longest pause
"""

from __future__ import annotations

import ctypes
import json
import select
import socket
import struct
import sys
import time

SEND_BUFFER, RECEIVE_BUFFER = 32, 33
"""SO_SNDBUFFORCE and SO_RCVBUFFORCE: root may exceed the host's limits."""
QUIET_S = 0.6
CHUNK = 1 << 20


def say(**values: float) -> None:
    print(json.dumps(values), flush=True)


def receive_tcp(address: str, warm_s: float) -> None:
    with socket.create_server((address, 0)) as listener:
        say(port=listener.getsockname()[1])
        listener.settimeout(30)
        connection, _ = listener.accept()
    buffer = bytearray(CHUNK)
    counted, began, last = 0, 0.0, 0.0
    with connection:
        connection.settimeout(None)
        first = time.monotonic()
        while got := connection.recv_into(buffer):
            last = time.monotonic()
            if last - first < warm_s or began == 0.0:
                began = last
            else:
                counted += got
    say(bytes=counted, seconds=last - began)


def send_tcp(address: str, port: int, seconds: float) -> None:
    with socket.create_connection((address, port), timeout=30) as connection:
        data = bytes(CHUNK)
        end = time.monotonic() + seconds
        sent = 0
        while time.monotonic() < end:
            sent += connection.send(data)
    say(bytes=sent)


def receive_udp(address: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.setsockopt(socket.SOL_SOCKET, RECEIVE_BUFFER, 256 << 20)
        # The kernel's own timeout: Python's would cost a poll for every packet.
        micros = int(QUIET_S * 1e6)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, micros))
        opened.bind((address, 0))
        say(port=opened.getsockname()[1])
        received = reordered = 0
        newest, first, last = -1, 0.0, 0.0
        while True:
            try:
                data = opened.recv(2048)
            except BlockingIOError:
                if _abandoned():
                    break
                continue
            last = time.monotonic()
            if received == 0:
                first = last
            received += 1
            number = int.from_bytes(data[:4], "little")
            if number < newest:
                reordered += 1
            else:
                newest = number
    say(received=received, reordered=reordered, seconds=last - first)


class _Vector(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _Header(ctypes.Structure):
    """struct msghdr, of which a connected socket needs the data alone."""

    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint),
        ("vectors", ctypes.POINTER(_Vector)),
        ("vector_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class _Message(ctypes.Structure):
    """struct mmsghdr."""

    _fields_ = (("header", _Header), ("sent", ctypes.c_uint))


class Batch:
    """Numbered packets sent many at a time: one by one, Python would be slower than what it measures."""

    MOST = 64

    def __init__(self, opened: socket.socket, size: int) -> None:
        self._descriptor, self._size = opened.fileno(), size
        self._data = ctypes.create_string_buffer(size * self.MOST)
        start = ctypes.addressof(self._data)
        self._vectors = (_Vector * self.MOST)(
            *(_Vector(start + place * size, size) for place in range(self.MOST))
        )
        self._messages = (_Message * self.MOST)()
        for message, vector in zip(self._messages, self._vectors, strict=True):
            message.header.vectors, message.header.vector_count = ctypes.pointer(vector), 1
        self._send = ctypes.CDLL(None, use_errno=True).sendmmsg

    def send(self, first: int, count: int) -> None:
        """Send the packets of these numbers; what a full queue refuses is lost, like any other."""
        for place in range(count):
            struct.pack_into("<I", self._data, place * self._size, first + place)
        done = 0
        while done < count:
            there = ctypes.byref(self._messages, done * ctypes.sizeof(_Message))
            # Refused at once: the first of these is lost, the rest may pass.
            done += max(1, self._send(self._descriptor, there, count - done, 0))


def send_udp(address: str, port: int, seconds: float, per_s: float, size: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.setsockopt(socket.SOL_SOCKET, SEND_BUFFER, 16 << 20)
        opened.connect((address, port))
        batch = Batch(opened, size)
        sent = 0
        say(started=1)
        start = time.monotonic()
        while (elapsed := time.monotonic() - start) < seconds and not _abandoned():
            due = int(elapsed * per_s) + 1 if per_s else sent + Batch.MOST
            while sent < due:
                count = min(due - sent, Batch.MOST)
                batch.send(sent, count)
                sent += count
            if per_s:
                time.sleep(0.0002)
        took = time.monotonic() - start
    say(sent=sent, seconds=took)


def _abandoned() -> bool:
    """Whether whoever started this is gone, or wants it to end: its end of our stdin is closed."""
    return bool(select.select((sys.stdin,), (), (), 0)[0])


def spin(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and not _abandoned():
        for _ in range(10_000):
            pass
    say(cpu_s=time.process_time())


def tick(seconds: float) -> None:
    longest, last = 0.0, time.monotonic()
    end = last + seconds
    while last < end:
        time.sleep(0.001)
        now = time.monotonic()
        longest = max(longest, now - last)
        last = now
    say(longest_s=longest)


def main(what: str, *given: str) -> None:
    """Run one of the programs above."""
    match what:
        case "receive-tcp":
            receive_tcp(given[0], float(given[1]))
        case "send-tcp":
            send_tcp(given[0], int(given[1]), float(given[2]))
        case "receive-udp":
            receive_udp(given[0])
        case "send-udp":
            send_udp(given[0], int(given[1]), float(given[2]), float(given[3]), int(given[4]))
        case "spin":
            spin(float(given[0]))
        case "tick":
            tick(float(given[0]))
        case other:
            raise SystemExit(f"unknown: {other}")


if __name__ == "__main__":
    main(*sys.argv[1:])
