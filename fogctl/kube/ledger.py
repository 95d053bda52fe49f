"""What is written down about a cluster before it is changed: objects, labels of nodes, latencies of hosts."""

from __future__ import annotations

from dataclasses import dataclass

from fogctl.kube.objects import Ref
from fogctl.testbed.ledger import Ledger
from fogctl.testbed.state import StateFolder

_NO_BOOT = "cluster"
"""A cluster's objects outlive every reboot of this machine."""


@dataclass(frozen=True, slots=True)
class NodeLabel:
    """A label on a node."""

    node: str
    key: str
    value: str

    def describe(self) -> str:
        """In a few words."""
        return f"label {self.key}={self.value} on node {self.node}"


@dataclass(frozen=True, slots=True)
class HostLatency:
    """Latencies injected on the machine behind a node."""

    node: str

    def describe(self) -> str:
        """In a few words."""
        return f"latencies on the host of {self.node}"


Entry = Ref | NodeLabel | HostLatency


def open_ledger(folder: StateFolder) -> Ledger[Entry]:
    """The ledger of a testbed of kind k3s."""
    return Ledger(folder.ledger, (Ref, NodeLabel, HostLatency), _NO_BOOT)
