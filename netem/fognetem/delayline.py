"""The delay line: one process that holds back every packet between the nodes for as long as the matrix says.

Run as `python -m fognetem.delayline RUN_DIR/delayline.sock`. The kernel queues what arrives at each node's
data interface (NFQUEUE, without bypass: if this process dies, traffic stops); the verdict is given when the
delay is over.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path as FilePath
from time import monotonic_ns, sleep
from typing import Any

from fognetem.control import short_name
from fognetem.endpoint import Endpoint
from fognetem.errors import NetemError
from fognetem.holding import DelayLine
from fognetem.lead import MAX_LEAD_NS, calibrate
from fognetem.light_sleep import LightSleep
from fognetem.linux import become_realtime
from fognetem.matrix import LatencyMatrix
from fognetem.path import Path

_LEARN_NS = 2_000
_WINDOW_NS = 5_000_000
_BUSY_PACKETS, _CALM_PACKETS = 25, 8
"""From so many packets in a window on (5,000 a second), they are taken together rather than one by one, until
there are so few: a wake-up for each packet would take the CPU away from whoever sends them."""
_GATHER_S = 100e-6
_QUIET_S = 1.0
"""So long after the last packet CPUs may sleep deeply again."""


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
                answer = self._answer(bytes(received)).encode() + b"\n"
                # A reader that does not read is cut off rather than waited for: packets come first.
                with contextlib.suppress(OSError):
                    connection.send(answer)
            self._epoll.unregister(connection.fileno())
            del self._handlers[connection.fileno()]
            connection.close()

        self._register(connection.fileno(), read)

    def _answer(self, line: bytes) -> str:
        try:
            request = json.loads(line)
            match request["op"]:
                case "status":
                    leads = {"lead_us": self._line.lead_ns / 1000, "early_us": self._early_ns / 1000}
                    return json.dumps({"ok": True, **self._facts, **leads})
                case "show":
                    return self._line.shown()
                case "counters":
                    return json.dumps({"ok": True, **self._line.counters()})
                case "set":
                    self._line.set([(a, b, Path.from_dict(path)) for a, b, path in request["changes"]])
                    return '{"ok": true}'
                case other:
                    return json.dumps({"ok": False, "error": f'unknown operation "{other}"'})
        except (ValueError, KeyError, TypeError) as error:
            return json.dumps({"ok": False, "error": f"bad request: {error}"})

    def run(self) -> None:
        """Serve until killed: there is nothing to tidy up, the kernel drops what waits."""
        handlers, epoll = self._handlers, self._epoll
        waitable = [epoll]
        window_ns, taken, busy = monotonic_ns(), 0, False
        light_sleep = LightSleep()
        following = self._line.release(self._early_ns)
        while True:
            if following is None:
                patience_s = _QUIET_S if light_sleep.wished else None
                if not select.select(waitable, (), (), patience_s)[0]:
                    light_sleep.end()
            else:
                light_sleep.begin()
                wake_ns = following - self._early_ns
                left_ns = wake_ns - monotonic_ns()
                # select, unlike epoll, waits with microsecond precision.
                if left_ns > 0 and not select.select(waitable, (), (), left_ns / 1e9)[0]:
                    self._learn(monotonic_ns() - wake_ns)
            now_ns = monotonic_ns()
            if now_ns - window_ns > _WINDOW_NS:
                rate = (self._line.taken - taken) * _WINDOW_NS / (now_ns - window_ns)
                window_ns, taken = now_ns, self._line.taken
                busy = rate > (_CALM_PACKETS if busy else _BUSY_PACKETS)
            self._line.waited_ns = 0
            if busy:
                # A wake-up costs as much as ten packets: let some more arrive before looking.
                sleep(_GATHER_S)
                self._line.waited_ns = monotonic_ns() - now_ns
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
    light_sleep = LightSleep()
    light_sleep.begin()  # as when packets wait
    lead_ns, early_ns = calibrate()
    light_sleep.end()
    print(f"a queued packet is {lead_ns / 1000:.0f} µs late, a timer {early_ns / 1000:.0f} µs", flush=True)
    line = DelayLine(endpoints, matrix, lead_ns)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    os.umask(0o177)
    FilePath(socket_path).unlink(missing_ok=True)
    with short_name(socket_path) as name:
        listener.bind(name)
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
