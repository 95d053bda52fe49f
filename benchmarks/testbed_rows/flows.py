"""Traffic between two nodes of a testbed, and busy cores: what the programs in traffic.py saw."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fogctl.testbed import names
from fogctl.testbed.running import Running

PROGRAM = str(Path(__file__).with_name("traffic.py"))
PATIENCE_S = 60.0
"""How long a program may take beyond its own time: an emulated machine needs seconds to start Python."""


@dataclass(frozen=True, slots=True)
class Flow:
    """What became of numbered packets."""

    sent: int
    received: int
    reordered: int
    sent_per_s: float
    received_per_s: float

    @property
    def lost(self) -> int:
        """Packets that never came."""
        return self.sent - self.received

    @property
    def loss(self) -> float:
        """The fraction that never came."""
        return self.lost / self.sent if self.sent else 0.0


def address(running: Running, node: str, *, management: bool) -> str:
    """A node's impaired address, or the one that impairments never touch."""
    index = [each.name for each in running.testbed.nodes].index(node)
    return names.management_address(index) if management else names.data_address(index)


@contextmanager
def on_node(running: Running, node: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A program of traffic.py on a node; ended with the body if it has not ended by itself."""
    argv = [sys.executable, "-S", "-E", PROGRAM, *map(str, arguments)]
    with _ended(running.exec_argv(node, argv)) as child:
        yield child


@contextmanager
def busy_cores(count: int | None = None) -> Iterator[None]:
    """Keep every core of the host busy for the body."""
    argv = [sys.executable, "-S", "-E", PROGRAM, "spin", "300"]  # ends by itself, should we be killed
    with _all_ended([argv] * (count or os.cpu_count() or 1)):
        yield


@contextmanager
def _all_ended(commands: Sequence[list[str]]) -> Iterator[None]:
    if not commands:
        yield
        return
    with _ended(commands[0]), _all_ended(commands[1:]):
        yield


@contextmanager
def _ended(argv: list[str]) -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield child
    finally:
        if child.poll() is None:
            child.kill()
        child.communicate()


def answer(child: subprocess.Popen[str]) -> dict[str, float]:
    """The next line a program prints."""
    assert child.stdout is not None
    line = child.stdout.readline()
    if not line:
        raise RuntimeError(f"{child.args!r} ended without an answer (exit {child.wait(PATIENCE_S)})")
    found: dict[str, float] = json.loads(line)
    return found


def last_answer(child: subprocess.Popen[str], seconds: float = 0.0) -> dict[str, float]:
    """Close a program's stdin and wait for its last line."""
    said, _ = child.communicate(timeout=seconds + PATIENCE_S)
    if child.returncode:
        raise RuntimeError(f"{child.args!r} failed (exit {child.returncode})")
    found: dict[str, float] = json.loads(said.splitlines()[-1])
    return found


def tcp_bit_s(running: Running, seconds: float, warm_s: float, *, management: bool = False) -> float:
    """Bits a second of one TCP connection from n0 to n1, once it is warm."""
    to = address(running, "n1", management=management)
    with on_node(running, "n1", "receive-tcp", to, warm_s) as receiver:
        port = int(answer(receiver)["port"])
        with on_node(running, "n0", "send-tcp", to, port, warm_s + seconds) as sender:
            last_answer(sender, warm_s + seconds)
        seen = last_answer(receiver)
    return seen["bytes"] * 8 / seen["seconds"] if seen["seconds"] > 0 else 0.0


def udp(
    running: Running,
    seconds: float,
    per_s: float,
    *,
    size: int = 100,
    management: bool = False,
    during: Callable[[], None] | None = None,
) -> Flow:
    """Numbered packets from n0 to n1 at a rate (0: a flood), for so long or until `during` is done."""
    to = address(running, "n1", management=management)
    with on_node(running, "n1", "receive-udp", to) as receiver:
        port = int(answer(receiver)["port"])
        with on_node(running, "n0", "send-udp", to, port, seconds, per_s, size) as sender:
            answer(sender)  # the first packets are on their way
            if during is None:
                sender.wait(seconds + PATIENCE_S)
            else:
                during()
            sent = last_answer(sender, seconds)
        seen = last_answer(receiver)
    return Flow(
        sent=int(sent["sent"]),
        received=int(seen["received"]),
        reordered=int(seen["reordered"]),
        sent_per_s=sent["sent"] / sent["seconds"],
        received_per_s=seen["received"] / seen["seconds"] if seen["seconds"] > 0 else 0.0,
    )
