"""The faults that are active on a testbed: values, and the file that remembers them before they are made."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from fogctl.testbed import lock

FILE = "faults.json"
_PATIENCE_S = 10.0


class Kind(StrEnum):
    """What is broken."""

    node = "node"
    """A node without power: everything on it died and nothing starts there."""
    link = "link"
    """A path between two nodes on which every packet is lost."""
    slow = "slow"
    """A node with less CPU than it should have."""
    process = "process"
    """A service that is kept from running."""
    delay_line = "delay-line"
    """The latency emulation is kept from running, so no packet passes the impaired network."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault that lasts until it is restored."""

    kind: Kind
    target: tuple[str, ...]
    """The node, the two nodes of a link, the service; nothing for the delay line."""
    at_s: float
    until_s: float | None = None
    """When it ends by itself; None: when somebody restores it."""
    before: dict[str, Any] = field(default_factory=dict, hash=False)
    """What was there before and is put back."""
    now: dict[str, Any] = field(default_factory=dict, hash=False)
    """What is there instead."""

    @property
    def name(self) -> str:
        """What it is called on the command line: `pi1`, `pi1 cloud`, `broker`, `delay-line`."""
        return " ".join(self.target) or self.kind.value

    def same_place(self, other: Fault) -> bool:
        """Whether both break the same thing in the same way."""
        return self.kind is other.kind and set(self.target) == set(other.target)

    def describe(self) -> str:
        """In words."""
        match self.kind:
            case Kind.node:
                return f"node {self.name} is down"
            case Kind.link:
                return f"{self.target[0]}–{self.target[1]} is cut"
            case Kind.slow:
                return f"node {self.name} has {self.now['share']:.0%} of its CPU"
            case Kind.process:
                return f"{self.name} is kept from running"
            case Kind.delay_line:
                return "the delay line is kept from running"


def read(folder: Path) -> tuple[Fault, ...]:
    """The faults active on the testbed of this state folder, oldest first."""
    try:
        entries = json.loads((folder / FILE).read_text())
    except FileNotFoundError:
        return ()
    return tuple(
        Fault(**{**entry, "kind": Kind(entry["kind"]), "target": tuple(entry["target"])}) for entry in entries
    )


def write(folder: Path, faults: Iterable[Fault]) -> None:
    """Remember exactly these faults; they are on the disk when this returns."""
    text = json.dumps([asdict(fault) for fault in faults], indent=1)
    fresh = folder / f"{FILE}.new"
    with fresh.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(folder / FILE)


@contextmanager
def changing(folder: Path) -> Iterator[None]:
    """Hold the lock on the list of faults during the body."""
    with lock.held(folder / "locks" / "faults", "the list of faults", patience_s=_PATIENCE_S):
        yield


def add(folder: Path, fault: Fault) -> None:
    """Remember one more."""
    with changing(folder):
        write(folder, [*read(folder), fault])


def drop(folder: Path, fault: Fault) -> None:
    """Forget one; nothing happens if it is forgotten already."""
    with changing(folder):
        write(folder, [known for known in read(folder) if known != fault])


def down_nodes(faults: Iterable[Fault]) -> frozenset[str]:
    """The nodes without power."""
    return frozenset(fault.target[0] for fault in faults if fault.kind is Kind.node)


def held_services(faults: Iterable[Fault]) -> frozenset[str]:
    """The services that are kept from running."""
    return frozenset(fault.target[0] for fault in faults if fault.kind is Kind.process)


def node_share(faults: Iterable[Fault], node: str) -> float:
    """The share of its CPU quota that a node has: all of it unless it is slowed down."""
    shares = [
        float(fault.now["share"]) for fault in faults if fault.kind is Kind.slow and fault.target == (node,)
    ]
    return shares[-1] if shares else 1.0
