"""The kernel backend as text: lines for `tc -batch`, for machines that are reached by a shell only. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fognetem.kernel import ROOT, netem_arguments
from fognetem.path import Path

HANDLE = f"{ROOT >> 16:x}:"
"""The root qdisc that is ours; anything else on an interface is somebody else's."""
_NETEM = 0x6000
_FIRST_DESTINATION = 0x100
"""Filters of a lower priority number let traffic pass before any destination is looked at."""
_NO_LIMIT = "rate 34359738360bit burst 4m cburst 4m quantum 200000"


@dataclass(frozen=True, slots=True)
class Target:
    """One destination of an interface: its number there (from 1), its IPv4 address, the path to it."""

    number: int
    address: str
    path: Path


def build(device: str, targets: Sequence[Target], free_ports: Iterable[int] = ()) -> list[str]:
    """The whole tree on an interface that has none of ours; TCP from and to `free_ports` stays free."""
    # default 0: what no filter matches bypasses all classes, at full speed.
    lines = [f"qdisc add dev {device} root handle {HANDLE} htb default 0"]
    for place, port in enumerate(free_ports):
        for side, end in enumerate(("sport", "dport")):
            lines.append(
                f"filter add dev {device} parent {HANDLE} protocol ip prio {1 + 2 * place + side} u32 "
                f"match ip protocol 6 0xff match ip {end} {port} 0xffff flowid {HANDLE}"
            )
    for target in targets:
        where = f"dev {device} parent {HANDLE}"
        lines += [
            f"class add {where} classid {HANDLE}{target.number:x} htb {_NO_LIMIT}",
            f"qdisc add {_netem(device, target)}",
            f"filter add {where} protocol ip prio {_FIRST_DESTINATION + target.number} u32 "
            f"match ip dst {target.address}/32 flowid {HANDLE}{target.number:x}",
        ]
    return lines


def change(device: str, targets: Iterable[Target]) -> list[str]:
    """Other paths to some destinations of a tree that is there, in place: no packet is lost."""
    return [f"qdisc change {_netem(device, target)}" for target in targets]


def remove(device: str) -> list[str]:
    """The tree with all below it."""
    return [f"qdisc del dev {device} root handle {HANDLE}"]


def _netem(device: str, target: Target) -> str:
    given = netem_arguments(target.path)
    place = f"dev {device} parent {HANDLE}{target.number:x} handle {_NETEM + target.number:x}:"
    delay = f"delay {given['delay']}us" + (f" {given['jitter']}us" if given["jitter"] else "")
    loss = f" loss random {given['loss'] * 100:.8f}%" if given["loss"] else ""
    # Always said: a change without it would keep the rate before.
    return f"{place} netem limit {given['limit']} {delay}{loss} rate {int(given['rate']) * 8}bit"
