"""Steps that make network namespaces and wire them together."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from fogctl.testbed import kernel, names, steering
from fogctl.testbed.host import LinuxHost
from fogctl.testbed.neighbours import hardware_address


@dataclass(frozen=True, slots=True)
class ShareMount:
    """A folder mounted on itself and shared, so that namespaces named in it are seen everywhere.

    `ip netns add` does the same to /run/netns when it is first used.
    """

    path: str

    def describe(self) -> str:
        """What the step makes."""
        return f"shared mount of {self.path} on itself"

    def present(self, host: LinuxHost) -> bool:
        """Whether anything is mounted there."""
        return host.mounted(self.path)

    def apply(self, host: LinuxHost) -> None:  # noqa: ARG002
        """Mount it."""
        kernel.mount(self.path, self.path, flags=kernel.BIND | kernel.RECURSIVE)
        kernel.mount("", self.path, flags=kernel.SHARED | kernel.RECURSIVE)

    def undo(self, host: LinuxHost) -> None:
        """Unmount it unless somebody named a namespace there."""
        if host.mounted(self.path) and not any(Path(self.path).iterdir()):
            kernel.unmount(self.path)


@dataclass(frozen=True, slots=True)
class AddNamespace:
    """A named network namespace."""

    name: str

    def describe(self) -> str:
        """What the step makes."""
        return f"network namespace {self.name}"

    def present(self, host: LinuxHost) -> bool:
        """Whether the name leads to a namespace."""
        return host.namespace_inode(self.name) is not None

    @property
    def place(self) -> str:
        """The name that only one thing on the host can have."""
        return self.name

    def taken(self, host: LinuxHost) -> str | None:
        """Anything of that name."""
        return self.describe() if os.path.lexists(host.namespace_file(self.name)) else None

    def apply(self, host: LinuxHost) -> None:
        """Make it."""
        host.add_namespace(self.name)

    def undo(self, host: LinuxHost) -> None:
        """End everything inside and remove it."""
        host.remove_namespace(self.name)


@dataclass(frozen=True, slots=True)
class AddBridge:
    """A bridge, which nodes plug into."""

    namespace: str
    name: str
    address: str | None = None

    def describe(self) -> str:
        """What the step makes."""
        return f"bridge {self.name} in {self.namespace}"

    def present(self, host: LinuxHost) -> bool:
        """Whether it is up, with its address."""
        link = host.links(self.namespace).get(self.name)
        return link is not None and link.up and (self.address is None or self.address in link.addresses)

    def apply(self, host: LinuxHost) -> None:
        """Make it."""
        host.add_bridge(self.namespace, self.name, self.address)

    def undo(self, host: LinuxHost) -> None:
        """Remove it."""
        host.remove_link(self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class AddLink:
    """An interface of a node with its address, wired to a port of the switch."""

    namespace: str
    interface: str
    address: str
    switch: str
    port: str
    bridge: str

    def describe(self) -> str:
        """What the step makes."""
        return f"interface {self.interface} {self.address} in {self.namespace}"

    def present(self, host: LinuxHost) -> bool:
        """Whether both ends are up, addressed and wired."""
        here = host.links(self.namespace).get(self.interface)
        there = host.links(self.switch).get(self.port)
        return (
            here is not None
            and there is not None
            and here.up
            and there.up
            and self.address in here.addresses
            and there.bridge == self.bridge
        )

    def apply(self, host: LinuxHost) -> None:
        """Make it."""
        host.add_veth(self.namespace, self.interface, self.address, self.switch, self.port, self.bridge)

    def undo(self, host: LinuxHost) -> None:
        """Remove it; either end takes the other along."""
        host.remove_link(self.namespace, self.interface)
        host.remove_link(self.switch, self.port)


@dataclass(frozen=True, slots=True)
class AddNeighbours:
    """The other nodes' hardware addresses, known for good on one interface of a node."""

    namespace: str
    interface: str
    node: int
    """The node's own place in the testbed."""
    nodes: int
    """How many nodes there are."""

    def describe(self) -> str:
        """What the step makes."""
        return f"{self.nodes - 1} permanent neighbours on {self.interface} in {self.namespace}"

    def present(self, host: LinuxHost) -> bool:
        """Whether every other node is known by its address."""
        known = host.neighbours(self.namespace, self.interface)
        return all(known.get(address) == hardware_address(address) for address in self._others())

    def apply(self, host: LinuxHost) -> None:
        """Make them."""
        host.add_neighbours(self.namespace, self.interface, self._others())

    def undo(self, host: LinuxHost) -> None:
        """Nothing: they go with the interface."""

    def _others(self) -> list[str]:
        return [names.data_address(index) for index in range(self.nodes) if index != self.node]


@dataclass(frozen=True, slots=True)
class SteerFlows:
    """Each flow that arrives at these interfaces stays on one CPU, and so in order."""

    namespace: str
    interfaces: tuple[str, ...]

    def describe(self) -> str:
        """What the step makes."""
        first, *more = self.interfaces
        return f"flows in order on {first}{f' and {len(more)} more' if more else ''} in {self.namespace}"

    def present(self, host: LinuxHost) -> bool:
        """Whether every interface is there and steers."""
        if host.namespace_inode(self.namespace) is None:
            return False
        return steering.steered(host.namespace_file(self.namespace), self.interfaces)

    def apply(self, host: LinuxHost) -> None:
        """Set it."""
        steering.steer(host.namespace_file(self.namespace), self.interfaces)

    def undo(self, host: LinuxHost) -> None:
        """Nothing: it goes with the interfaces."""
