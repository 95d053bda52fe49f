"""From a testbed to the steps that build it on one Linux host. Pure: nothing here looks at the machine."""

from __future__ import annotations

from collections.abc import Iterator

from fogctl.errors import FogError
from fogctl.testbed import names
from fogctl.testbed.cgroups import LEAST_QUOTA_US, PERIOD_US, Hierarchies, quota_us
from fogctl.testbed.host import NAMESPACES
from fogctl.testbed.model import Node, Testbed
from fogctl.testbed.steps import (
    AddBridge,
    AddGroup,
    AddLink,
    AddNamespace,
    AddNeighbours,
    EnableController,
    LimitCpu,
    LimitMemory,
    LinkFile,
    MakeFolder,
    MakeSharedFolder,
    ShareMount,
    SteerFlows,
    Step,
    WriteFile,
)

NETNS_FILES = "/etc/netns"
"""Files in /etc/netns/NAME appear as /etc/… to what runs in the namespace NAME."""
LEAST_MEMORY_BYTES = 1 << 20


def plan(testbed: Testbed, cgroups: Hierarchies, *, steer: bool = True) -> list[Step]:
    """Every step that brings the testbed's nodes up, in order; latencies are fognetem's plan, after these.

    `steer` keeps flows on one CPU each. A delay line in user space keeps the order itself, and steering would
    only put packets behind it on its own CPU.
    """
    check(testbed, cgroups)
    steps: list[Step] = [*shared_steps(cgroups)]
    for hierarchy in cgroups.used:
        handed_on = cgroups.controllers(hierarchy) if hierarchy.version == 2 else ()
        steps.append(AddGroup(hierarchy.group(names.folder(testbed.name)), handed_on))
    steps += _switch(testbed)
    for index, node in enumerate(testbed.nodes):
        steps += _node(testbed, index, node, cgroups)
    if steer:
        ports = tuple(_port(names.DATA, index) for index in range(len(testbed.nodes)))
        steps.append(SteerFlows(names.switch(testbed.name), ports))
        for node in testbed.nodes:
            steps.append(SteerFlows(names.namespace(testbed.name, node.name), (names.DATA,)))
    return steps


def check(testbed: Testbed, cgroups: Hierarchies) -> None:
    """Refuse what cannot be built before anything is touched."""
    cgroups.require(memory=any(node.memory_bytes is not None for node in testbed.nodes))
    if not testbed.nodes:
        raise FogError(f"testbed {testbed.name} has no nodes", key="nodes", hint="add at least one")
    if len(testbed.nodes) > names.MOST_NODES:
        raise FogError(
            f"{len(testbed.nodes)} nodes are more than one bridge can join",
            key="nodes",
            hint=f"at most {names.MOST_NODES}",
        )
    for node in testbed.nodes:
        if node.name == "switch":
            raise FogError('no node can be called "switch"', key="nodes", hint="the bridges are called so")
        if node.cpu_cores is not None and node.cpu_cores * PERIOD_US < LEAST_QUOTA_US:
            raise FogError(
                f"node {node.name} would get {node.cpu_cores:.2%} of a core, less than the kernel can grant",
                key="scale.cpu",
                hint=f"at least {LEAST_QUOTA_US / PERIOD_US:.0%} of a core a node",
            )
        if node.memory_bytes is not None and node.memory_bytes < LEAST_MEMORY_BYTES:
            raise FogError(
                f"node {node.name} would get {node.memory_bytes} bytes of memory; nothing runs in that",
                key="scale.memory",
                hint="at least 1 MiB a node",
            )


def shared_steps(cgroups: Hierarchies) -> Iterator[Step]:
    """What testbeds share with each other and the rest of the host; skipped where it is there already."""
    yield MakeSharedFolder(NAMESPACES)
    yield ShareMount(NAMESPACES)
    yield MakeSharedFolder(NETNS_FILES)
    for hierarchy in cgroups.used:
        if hierarchy.version == 2:
            for controller in cgroups.controllers(hierarchy):
                yield EnableController(hierarchy.root, controller)


def hosts_file(testbed: Testbed) -> str:
    """The text of /etc/hosts on every node: NODE is the impaired address, NODE-mgmt the unimpaired one."""
    lines = ["127.0.0.1 localhost"]
    for index, node in enumerate(testbed.nodes):
        lines.append(f"{names.data_address(index)} {node.name}")
        lines.append(f"{names.management_address(index)} {node.name}-mgmt")
    return "\n".join(lines) + "\n"


def _switch(testbed: Testbed) -> Iterator[Step]:
    switch = names.switch(testbed.name)
    yield AddNamespace(switch)
    yield AddBridge(switch, names.DATA)
    yield AddBridge(switch, names.MANAGEMENT, f"{names.SWITCH_ADDRESS}/{names.PREFIX_LENGTH}")
    yield MakeFolder(f"{NETNS_FILES}/{switch}")
    yield WriteFile(f"{NETNS_FILES}/{switch}/hosts", hosts_file(testbed))


def _node(testbed: Testbed, index: int, node: Node, cgroups: Hierarchies) -> Iterator[Step]:
    namespace, switch = names.namespace(testbed.name, node.name), names.switch(testbed.name)
    yield AddNamespace(namespace)
    for interface, address in (
        (names.DATA, names.data_address(index)),
        (names.MANAGEMENT, names.management_address(index)),
    ):
        port = _port(interface, index)
        yield AddLink(namespace, interface, f"{address}/{names.PREFIX_LENGTH}", switch, port, interface)
    if len(testbed.nodes) > 1:
        yield AddNeighbours(namespace, names.DATA, index, len(testbed.nodes))
    yield MakeFolder(f"{NETNS_FILES}/{namespace}")
    yield LinkFile(f"{NETNS_FILES}/{namespace}/hosts", f"../{switch}/hosts")
    for hierarchy in cgroups.used:
        group = hierarchy.group(names.folder(testbed.name), node.name)
        # Version 2 has processes in leaves only, so even a lone command runs one group below its node.
        yield AddGroup(group, cgroups.controllers(hierarchy) if hierarchy.version == 2 else ())
        yield AddGroup(f"{group}/{names.MAIN}")
    if node.cpu_cores is not None and cgroups.cpu is not None:
        group = cgroups.cpu.group(names.folder(testbed.name), node.name)
        yield LimitCpu(group, cgroups.cpu.version, quota_us(node.cpu_cores))
    if node.memory_bytes is not None and cgroups.memory is not None:
        group = cgroups.memory.group(names.folder(testbed.name), node.name)
        yield LimitMemory(group, cgroups.memory.version, node.memory_bytes)


def _port(interface: str, index: int) -> str:
    """The switch's end of a node's interface."""
    return f"{interface[0]}{index}"


def node_groups(testbed: str, node: str, cgroups: Hierarchies) -> tuple[str, ...]:
    """The control groups of a node, one in each hierarchy in use."""
    return tuple(hierarchy.group(names.folder(testbed), node) for hierarchy in cgroups.used)
