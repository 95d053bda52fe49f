"""Where a node's data interface is."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A node's data interface: the one that latencies are injected on."""

    node: str
    namespace: str
    """Name of the network namespace; "" is the caller's own."""
    interface: str
    address: str
    """IPv4 address on that interface."""

    def __post_init__(self) -> None:
        try:
            ipaddress.IPv4Address(self.address)
        except ValueError:
            raise ValueError(f'node "{self.node}": "{self.address}" is not an IPv4 address') from None
        if not 0 < len(self.interface) < 16:
            raise ValueError(f'node "{self.node}": "{self.interface}" is not an interface name')
