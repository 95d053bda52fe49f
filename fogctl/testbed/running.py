"""A testbed that is up, for whoever works on it: its nodes, its latencies, and ways to change them safely."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fognetem import Backend, Endpoint
from fognetem.matrix import LatencyMatrix

from fogctl.errors import FAILED, FogError
from fogctl.testbed import cgroups, latency, lock, names
from fogctl.testbed.build import make
from fogctl.testbed.host import LinuxHost
from fogctl.testbed.ledger import Ledger
from fogctl.testbed.model import Kind, Node, Testbed
from fogctl.testbed.plan import node_groups
from fogctl.testbed.state import Record, StateFolder
from fogctl.testbed.state import state_dir as default_state_dir
from fogctl.testbed.steps import Step


@dataclass(frozen=True, slots=True)
class Running:
    """One virtual testbed as its state folder and the host describe it."""

    state: StateFolder
    record: Record
    hierarchies: cgroups.Hierarchies
    host: LinuxHost

    @classmethod
    def load(cls, name: str, state_dir: Path | None = None, host: LinuxHost | None = None) -> Running:
        """The testbed of that name; FogError if it is not up, or not of this kind."""
        host = host or LinuxHost()
        folder = StateFolder.of(name, state_dir or default_state_dir())
        record = folder.load()
        if record.testbed.kind is Kind.k3s:
            raise FogError(f"testbed {name} is on a cluster, and this works on emulated nodes only")
        return cls(folder, record, host.cgroup_hierarchies(), host)

    @property
    def testbed(self) -> Testbed:
        """What was asked for."""
        return self.record.testbed

    @property
    def latencies(self) -> LatencyMatrix:
        """What is injected now."""
        return self.record.latencies

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Where each node's impaired interface is."""
        return latency.endpoints(self.testbed)

    @property
    def run_dir(self) -> str:
        """Where the latency emulation keeps its files."""
        return str(self.state.network)

    @property
    def backend(self) -> Backend:
        """The fognetem backend in use."""
        if self.record.backend is None:
            raise FogError(
                f"testbed {self.testbed.name} injects no latencies", hint="run fogctl up", exit_code=FAILED
            )
        return latency.backend(self.testbed, self.run_dir, self.record.backend)

    def node(self, name: str) -> Node:
        """The node of that name; FogError if there is none."""
        return self.testbed.require(name)

    def namespace(self, node: str) -> str:
        """The network namespace of a node."""
        return names.namespace(self.testbed.name, self.node(node).name)

    def groups(self, node: str) -> tuple[str, ...]:
        """The control groups of a node."""
        return node_groups(self.testbed.name, self.node(node).name, self.hierarchies)

    def part_groups(self, node: str, part: str = names.MAIN) -> tuple[str, ...]:
        """The control groups of one part of a node: what runs there can have a CPU share of its own."""
        return tuple(f"{group}/{part}" for group in self.groups(node))

    def add_part(self, node: str, part: str) -> None:
        """Have a part of that name on a node; it goes with the node."""
        for group in self.part_groups(node, part):
            Path(group).mkdir(exist_ok=True)

    def remove_part(self, node: str, part: str) -> None:
        """End what runs in a part of a node and remove it."""
        for group in self.part_groups(node, part):
            self.host.remove_group(group)

    def exec_argv(self, node: str, argv: Sequence[str], part: str = names.MAIN) -> list[str]:
        """A command that, run on the host, becomes `argv` inside the node: network, names, CPU and memory."""
        inside = [self.namespace(node), node, ":".join(self.part_groups(node, part))]
        return [sys.executable, "-P", "-m", "fogctl.testbed.enter", *inside, "--", *argv]

    def apply(self, steps: Sequence[Step], latencies: LatencyMatrix | None = None) -> Running:
        """Make these steps, each in the ledger first; `latencies` is what is injected afterwards.

        What a delay line is told goes with the delay line, which the ledger holds: it only enters the record.
        Refuses while another fogctl changes the testbed. Answers the testbed as it is then.
        """
        lasting = [step for step in steps if not isinstance(step, latency.LIVE)]
        with lock.held(self.state.folder):
            if lasting:
                ledger = Ledger(self.state.ledger, latency.ALL_STEP_TYPES, self.host.boot_id())
                try:
                    make(lasting, ledger, self.host)
                finally:
                    ledger.close()
            record = self.state.load()
            if latencies is not None:
                record = Record(record.testbed, latencies, record.backend)
                self.state.save(record)
            for step in steps:
                if isinstance(step, latency.LIVE):
                    step.apply(self.host)
        return Running(self.state, record, self.hierarchies, self.host)

    def set_share(self, node: str, fraction: float | None, part: str | None = None) -> None:
        """Give a node, or a part of it, this fraction of the node's CPU quota; None lifts the limit.

        One write to one kernel file. `fogctl up` sets a node's share back to all of the quota.
        """
        whole = self.node(node).cpu_cores
        where = self.hierarchies.cpu
        if where is None:
            raise FogError("this host has no cpu controller", hint="fogctl doctor", exit_code=FAILED)
        quota = None
        if fraction is not None:
            if not 0 < fraction <= 1:
                raise FogError(f"a share is more than 0 % and at most 100 %, not {fraction:.0%}")
            if whole is None:
                raise FogError(
                    f"node {node} has no CPU quota to take a share of", hint="give it a board or cpu:"
                )
            quota = cgroups.quota_us(fraction * whole)
        group = where.group(names.folder(self.testbed.name), node, *([part] if part else []))
        for name, text in cgroups.cpu_files(where.version, quota):
            self.host.write_kernel(f"{group}/{name}", text)
