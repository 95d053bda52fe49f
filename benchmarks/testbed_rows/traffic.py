"""Programs that run inside nodes: send, receive, spin, tick. Each prints what it saw as one line of JSON.

Standard library only, and nothing of fogctl: start-up counts on a node with a small CPU share.

    python traffic.py receive-tcp ADDRESS WARM_S      prints its port, then bytes and seconds once warm
    python traffic.py send-tcp ADDRESS PORT SECONDS
    python traffic.py receive-udp ADDRESS             prints its port, then what came until stdin ends
    python traffic.py send-udp ADDRESS PORT SECONDS PER_S SIZE     PER_S 0: as fast as it can
    python traffic.py spin SECONDS                    prints the CPU seconds it got
    python traffic.py tick SECONDS                    wakes each ms; prints the longest pause
"""

from __future__ import annotations

import contextlib
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
                if select.select((sys.stdin,), (), (), 0)[0]:  # the sender is done, so stdin was closed
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


def send_udp(address: str, port: int, seconds: float, per_s: float, size: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.setsockopt(socket.SOL_SOCKET, SEND_BUFFER, 16 << 20)
        opened.connect((address, port))
        padding = bytes(size - 4)
        sent = 0
        start = time.monotonic()
        while (elapsed := time.monotonic() - start) < seconds:
            due = int(elapsed * per_s) + 1 if per_s else sent + 32
            while sent < due:
                with contextlib.suppress(OSError):  # refused by a full queue: lost, like any other
                    opened.send(sent.to_bytes(4, "little") + padding)
                sent += 1
            if per_s:
                time.sleep(0.0002)
        took = time.monotonic() - start
    say(sent=sent, seconds=took)


def spin(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
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
