"""What the parts of an emulated testbed are called, and which addresses its nodes have."""

from __future__ import annotations

PREFIX = "fog"
DATA = "data0"
"""The impaired interface of a node, and the bridge behind it."""
MANAGEMENT = "mgmt0"
"""The interface that impairments never touch, and the bridge behind it."""
MAIN = "main"
"""The part of a node's control groups in which commands run that have no part of their own."""
PREFIX_LENGTH = 16
MOST_NODES = 1023
"""A Linux bridge has at most 1,024 ports."""


def folder(testbed: str) -> str:
    """The name of a testbed's control groups."""
    return f"{PREFIX}-{testbed}"


def namespace(testbed: str, node: str) -> str:
    """The network namespace of a node."""
    return f"{PREFIX}-{testbed}-{node}"


def switch(testbed: str) -> str:
    """The network namespace that holds a testbed's two bridges."""
    return namespace(testbed, "switch")


def data_address(index: int) -> str:
    """The impaired address of the node at that place in the testbed, counting from 0."""
    return f"10.77.{_host_part(index)}"


def management_address(index: int) -> str:
    """The address of the same node that impairments never touch."""
    return f"10.78.{_host_part(index)}"


SWITCH_ADDRESS = "10.78.255.254"
"""The switch's own address on the management network."""


def _host_part(index: int) -> str:
    """Host parts 0.1 to 0.254, 1.1 to 1.254 …: none that looks like a network or a broadcast address."""
    high, low = divmod(index, 254)
    return f"{high}.{low + 1}"
