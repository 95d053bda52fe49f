"""The plan of a virtual testbed: pure, complete, in an order that can be built and undone."""

from __future__ import annotations

import ipaddress

import pytest
from fognetem import LatencyMatrix
from hypothesis import given
from hypothesis import strategies as st

from fogctl.errors import FogError
from fogctl.testbed import model, names
from fogctl.testbed.cgroups import Hierarchies, Hierarchy
from fogctl.testbed.model import Kind, Node, Role
from fogctl.testbed.plan import hosts_file, plan
from fogctl.testbed.steps import (
    LASTING,
    SHARED,
    STEP_TYPES,
    AddBridge,
    AddGroup,
    AddLink,
    AddNamespace,
    EnableController,
    LimitCpu,
    LimitMemory,
    LinkFile,
    MakeFolder,
    WriteFile,
    goes_with,
    holds,
)

V2 = Hierarchy("/sys/fs/cgroup", 2)
VERSION_2 = Hierarchies(V2, V2, V2)
VERSION_1 = Hierarchies(Hierarchy("/cg/cpu", 1), Hierarchy("/cg/memory", 1), Hierarchy("/cg/unified", 2))


def bed(
    count: int, cpu: float | None = 0.1, memory: int | None = 1 << 26, name: str = "city"
) -> model.Testbed:
    nodes = tuple(Node(f"pi{i}", Role.edge, "north", "rpi4-4g", cpu, memory) for i in range(count))
    return model.Testbed(name, Kind.virtual, nodes, LatencyMatrix(tuple(node.name for node in nodes)))


@given(st.integers(1, 40), st.sampled_from([VERSION_1, VERSION_2]))
def test_the_same_testbed_gives_the_same_steps_and_none_twice(count: int, groups: Hierarchies) -> None:
    steps = plan(bed(count), groups)
    assert steps == plan(bed(count), groups)
    assert len(set(steps)) == len(steps)
    assert all(isinstance(step, STEP_TYPES) for step in steps)


@given(st.integers(1, 40), st.sampled_from([VERSION_1, VERSION_2]))
def test_every_step_comes_after_what_it_stands_in(count: int, groups: Hierarchies) -> None:
    steps = plan(bed(count), groups)
    seen: set[object] = set()
    folders = {step.path for step in steps if isinstance(step, MakeFolder)}
    made: set[str] = set()
    for step in steps:
        container = goes_with(step)
        assert container is None or container in {holds(s) for s in steps[: steps.index(step)]}
        if isinstance(step, AddLink):
            assert AddNamespace(step.switch) in seen
            assert any(isinstance(s, AddBridge) and s.name == step.bridge for s in seen)
        if isinstance(step, WriteFile | LinkFile):
            assert step.path.rpartition("/")[0] in folders & made
        if isinstance(step, AddGroup) and step.path.count("/fog-city/"):
            assert step.path.rpartition("/")[0] in made
        seen.add(step)
        made.add(getattr(step, "path", ""))


@pytest.mark.parametrize("count", [1, 10, 300, names.MOST_NODES])
def test_addresses_are_distinct_hosts_of_their_networks(count: int) -> None:
    links = [step for step in plan(bed(count), VERSION_2) if isinstance(step, AddLink)]
    addresses = [ipaddress.ip_interface(step.address) for step in links]
    assert len(set(addresses)) == 2 * count
    for step, address in zip(links, addresses, strict=True):
        network = ipaddress.ip_network("10.77.0.0/16" if step.interface == "data0" else "10.78.0.0/16")
        assert address.network == network
        assert address.ip not in (network.network_address, network.broadcast_address)
        assert str(address.ip) != names.SWITCH_ADDRESS
        assert len(step.port) <= 15
    assert len({(step.switch, step.port) for step in links}) == 2 * count


def test_nothing_is_planned_for_the_hosts_own_network() -> None:
    for step in plan(bed(5), VERSION_2):
        if isinstance(step, AddBridge | AddLink):
            assert step.namespace.startswith("fog-city-")


def test_everything_of_its_own_carries_the_testbeds_name() -> None:
    for step in plan(bed(5), VERSION_1):
        if not isinstance(step, SHARED):
            assert "fog-city" in step.describe()


def test_limits_follow_the_nodes() -> None:
    limited = plan(bed(1, cpu=0.25, memory=1 << 27), VERSION_1)
    assert LimitCpu("/cg/cpu/fog-city/pi0", 1, 25_000) in limited
    assert LimitMemory("/cg/memory/fog-city/pi0", 1, 1 << 27) in limited
    free = plan(bed(1, cpu=None, memory=None), VERSION_1)
    assert not any(isinstance(step, LimitCpu | LimitMemory) for step in free)
    assert AddGroup("/cg/cpu/fog-city/pi0") in free


def test_only_version_2_hands_controllers_on() -> None:
    steps = plan(bed(1), VERSION_2)
    assert EnableController("/sys/fs/cgroup", "cpu") in steps
    assert AddGroup("/sys/fs/cgroup/fog-city", ("cpu", "memory")) in steps
    assert not any(isinstance(step, EnableController) for step in plan(bed(1), VERSION_1))
    assert AddGroup("/cg/unified/fog-city") in plan(bed(1), VERSION_1)


def test_files_outlive_a_reboot_and_kernel_objects_do_not() -> None:
    for step in plan(bed(2), VERSION_2):
        assert isinstance(step, LASTING) == ("folder" in step.describe() or "file" in step.describe())


def test_every_node_is_named_twice_in_the_hosts_file() -> None:
    assert hosts_file(bed(2)) == (
        "127.0.0.1 localhost\n10.77.0.1 pi0\n10.78.0.1 pi0-mgmt\n10.77.0.2 pi1\n10.78.0.2 pi1-mgmt\n"
    )


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (bed(0), "no nodes"),
        (bed(names.MOST_NODES + 1), "more than one bridge"),
        (bed(1, cpu=0.001), "less than the kernel can grant"),
        (bed(1, memory=1000), "nothing runs in that"),
    ],
)
def test_what_cannot_be_built_is_refused_in_a_sentence(wrong: model.Testbed, said: str) -> None:
    with pytest.raises(FogError, match=said) as refused:
        plan(wrong, VERSION_2)
    assert refused.value.exit_code == 2


def test_a_node_cannot_take_the_switchs_name() -> None:
    node = Node("switch", Role.edge, "north", "rpi4-4g", None, None)
    with pytest.raises(FogError, match="switch"):
        plan(model.Testbed("city", Kind.virtual, (node,), LatencyMatrix(("switch",))), VERSION_2)
