"""Faults on a running testbed, made and restored: each is written down before it is made."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import fognetem
from fognetem import NetemError
from fognetem import Path as NetworkPath
from fognetem.control import find as find_delay_line
from fognetem.userspace import StartDelayLine

from fogctl.errors import FAILED, FogError
from fogctl.runtime import events, fault_plan, fault_record, fault_targets, quota, supervised
from fogctl.runtime.fault_plan import CUT
from fogctl.runtime.fault_record import Fault, Kind
from fogctl.runtime.fault_targets import Target, What
from fogctl.runtime.service import Services, alive
from fogctl.testbed import names, network, processes
from fogctl.testbed.host import LinuxHost
from fogctl.testbed.running import Running

_PATIENCE_S = 20.0


# What would be done


def killing(running: Running, words: Sequence[str], lasting_s: float | None) -> tuple[Target, Fault | None]:
    """What `kill` means by these words, and the fault it leaves; None if the supervisor mends it at once."""
    services = Services(running)
    target = fault_targets.find(words, node_names(running), [service.name for service in services.all()])
    match target.what:
        case What.node:
            fault = fault_plan.made(Kind.node, (target.name,), lasting_s)
        case What.delay_line:
            _require_delay_line(running)
            fault = fault_plan.made(Kind.delay_line, (), lasting_s)
        case _:
            fault = fault_plan.made(Kind.process, (target.name,), lasting_s)
    fault_plan.refuse_twice(running.state.folder, fault)
    if target.what is not What.node and lasting_s is None:
        _require_running(running, services, target)
        return target, None
    return target, fault


def cutting(running: Running, a: str, b: str | None, lasting_s: float | None) -> list[Fault]:
    """The links that `cut` cuts: the one between two nodes, or all of one node."""
    first, others = fault_plan.pairs(node_names(running), a, b)
    _ = running.backend  # refuses where nothing is injected
    found = []
    for other in others:
        path = running.latencies.path(first, other)
        fault = fault_plan.made(Kind.link, (first, other), lasting_s, before={"path": path.to_dict()})
        if b is not None or not fault_plan.active(running.state.folder, fault):
            fault_plan.refuse_twice(running.state.folder, fault)
            found.append(fault)
    if not found:
        raise FogError(f"every link of {first} is cut already", hint=f"fogctl fault restore {first}")
    return found


def slowing(running: Running, node: str, share: float, lasting_s: float | None) -> Fault:
    """The fault that `slow` makes."""
    name = fault_targets.node(node, node_names(running))
    if running.node(name).cpu_cores is None:
        raise FogError(
            f"node {name} has no CPU quota to take a share of", hint="give it a board or cpu: in testbed.yaml"
        )
    fault_plan.check_share(share)
    fault = replace(fault_plan.made(Kind.slow, (name,), lasting_s), now={"share": share})
    fault_plan.refuse_twice(running.state.folder, fault)
    return fault


def restoring(running: Running, words: Sequence[str]) -> list[Fault]:
    """The active faults that these words name: all without words. FogError if there is none."""
    return fault_plan.restoring(running.state.folder, words)


# Doing it


def kill(running: Running, target: Target, fault: Fault | None) -> None:
    """Kill what is meant; with a fault, it stays down until that is restored."""
    services = Services(running)
    if fault is not None:
        fault_record.add(running.state.folder, fault)
    until_s = None if fault is None else fault.until_s
    events.append(
        running.state.folder, "fault", fault="kill", target=target.name or target.what.value,
        kind=target.what.value, until_s=until_s,
    )  # fmt: skip
    try:
        match target.what:
            case What.node:
                set_ports(running, target.name, up=False)
                processes.end(_parts(running, target.name), set())
            case What.delay_line:
                if (pid := delay_line(running)) is not None:
                    _kill(pid)
            case _:
                services.kill(target.name)
    except (FogError, OSError):
        if fault is not None:
            restore(running, fault)
        raise


def cut(running: Running, faults: Sequence[Fault]) -> Running:
    """Lose every packet between these nodes on the impaired network; management stays free."""
    wanted = running.latencies
    for fault in faults:
        a, b = fault.target
        wanted = wanted.with_path(a, b, replace(wanted.path(a, b), loss=CUT))
        fault_record.add(running.state.folder, fault)
    try:
        running, _ = network.change(running, wanted)
    except FogError:
        for fault in faults:
            fault_record.drop(running.state.folder, fault)
        raise
    for fault in faults:
        events.append(
            running.state.folder, "fault", fault="cut", target=list(fault.target), until_s=fault.until_s
        )
    return running


def slow(running: Running, fault: Fault) -> None:
    """Lower a node's CPU quota."""
    fault_record.add(running.state.folder, fault)
    try:
        quota.limit_node(running, fault.target[0])
    except FogError:
        fault_record.drop(running.state.folder, fault)
        raise
    facts = {"share": fault.now["share"], "until_s": fault.until_s}
    events.append(running.state.folder, "fault", fault="slow", target=fault.target[0], **facts)


def restore(running: Running, fault: Fault) -> Running:
    """Put back what was there before a fault; the supervisor starts what should run."""
    match fault.kind:
        case Kind.node:
            set_ports(running, fault.target[0], up=True)
        case Kind.link:
            a, b = fault.target
            before = NetworkPath.from_dict(fault.before["path"])
            now = running.latencies.path(a, b)
            # Only the loss is ours: what somebody set on the link meanwhile stays.
            wanted = replace(now, loss=before.loss) if now.loss == CUT else now
            running, _ = network.change(running, running.latencies.with_path(a, b, wanted))
        case Kind.delay_line:
            # While the fault is on record the supervisor does not start it as well, and hold us up.
            start_delay_line(running)
    fault_record.drop(running.state.folder, fault)
    if fault.kind is Kind.slow:
        quota.limit_node(running, fault.target[0])
    events.append(
        running.state.folder, "restored", target=list(fault.target) or fault.kind.value,
        kind=fault.kind.value, after_s=round(time.time() - fault.at_s, 2),
    )  # fmt: skip
    supervised.wake(running)
    return running


def delay_line(running: Running) -> int | None:
    """The process of the testbed's delay line; None if it does not run."""
    pid = find_delay_line(running.run_dir)
    return pid if pid is not None and alive(pid) else None


def delay_line_is_missing(running: Running) -> bool:
    """Whether the testbed should have a delay line and none runs."""
    return running.record.backend == "userspace" and delay_line(running) is None


def start_delay_line(running: Running) -> None:
    """Have the delay line run with what should be injected; its firewall rules are still there."""
    with network.sentences():
        steps = [
            step
            for step in fognetem.plan(running.latencies, running.backend)
            if isinstance(step, StartDelayLine)
        ]
        try:
            running.apply([step for step in steps if not step.present(running.host)])
        except NetemError as error:
            raise FogError(str(error), exit_code=FAILED) from error


def set_ports(running: Running, node: str, *, up: bool) -> None:
    """Plug a node into both networks, or pull both plugs: what it sent last does not get out either."""
    index = node_names(running).index(node)
    with LinuxHost() as host, host.netlink(names.switch(running.testbed.name)) as netlink:
        for interface in (names.DATA, names.MANAGEMENT):
            for port in netlink.link_lookup(ifname=f"{interface[0]}{index}"):
                netlink.link("set", index=port, state="up" if up else "down")


def node_names(running: Running) -> list[str]:
    """The testbed's nodes in order."""
    return [node.name for node in running.testbed.nodes]


def _require_delay_line(running: Running) -> None:
    if running.record.backend != "userspace":
        raise FogError(
            "latencies are injected by the kernel here: there is no delay line to kill",
            hint="cut a link instead: fogctl fault cut A B",
        )


def _require_running(running: Running, services: Services, target: Target) -> None:
    """Killing what does not run would say nothing about how it is started again."""
    match target.what:
        case What.delay_line:
            runs = delay_line(running) is not None
        case _:
            runs = services.pid(target.name) is not None
    if not runs:
        what = target.name or "the delay line"
        raise FogError(f"{what} does not run at this moment", hint="fogctl fault list", exit_code=FAILED)


def _kill(pid: int) -> None:
    """kill -9 a process and return when it is gone."""
    deadline = time.monotonic() + _PATIENCE_S
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.005)


def _parts(running: Running, node: str) -> list[str]:
    """The control groups of a node's processes; the supervisor is no part of the machine that is emulated."""
    return [
        str(part)
        for group in running.groups(node)
        for part in Path(group).iterdir()
        if part.is_dir() and part.name != supervised.PART
    ]
