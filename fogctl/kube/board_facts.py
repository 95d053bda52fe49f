"""What a run's manifest says of each board: what its cluster knows, and what it says itself over SSH."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fogctl.errors import REFUSED, FogError
from fogctl.kube.nodes import NodeState, node_states
from fogctl.kube.running import KubeRunning
from fogctl.pi.facts import Facts
from fogctl.pi.findings import Finding

SPOILING = ("contact", "clock", "power")
"""Findings that matter for a run: response times are differences of two clocks, a hot board is a slow one."""


@dataclass(frozen=True, slots=True)
class BoardFacts:
    """The boards of a testbed at one moment."""

    nodes: tuple[str, ...]
    states: Mapping[str, NodeState]
    probed: Mapping[str, Facts]
    findings: tuple[Finding, ...] = ()
    """What is wrong with hosts that could be asked, or why they could not."""

    def manifest(self) -> dict[str, Any]:
        """By node, as plain JSON values."""
        return {
            name: {**_of_cluster(self.states.get(name)), **_of_host(self.probed.get(name))}
            for name in self.nodes
        }

    def require_ready(self) -> None:
        """FogError if a node is missing or does not answer."""
        for name in self.nodes:
            state = self.states.get(name)
            if state is None:
                raise FogError(
                    f"the run is refused: node {name} is not in the cluster",
                    hint="fogctl status",
                    exit_code=REFUSED,
                )
            if not state.ready:
                raise FogError(
                    f"the run is refused: node {name} does not answer: {state.why}",
                    hint="fogctl status",
                    exit_code=REFUSED,
                )

    def warnings(self) -> list[str]:
        """What may spoil a run: boards that are throttled, clocks that are off, hosts that do not answer."""
        return [f"{found.host}: {found.what}" for found in self.findings if found.about in SPOILING]


def board_facts(running: KubeRunning) -> BoardFacts:
    """Ask the cluster, and every host over SSH; a host that does not answer is a finding."""
    states = node_states(running)
    names = tuple(node.name for node in running.testbed.nodes)
    if not running.testbed.hosts:
        return BoardFacts(names, states, {})
    from fogctl.pi import known_hosts, preflight

    known = known_hosts.KnownHosts(known_hosts.default_file())
    found = preflight.check(running.testbed.hosts, known, {}, lambda *_: None)
    return BoardFacts(names, states, {facts.node: facts for facts in found.facts}, found.findings)


def _of_cluster(state: NodeState | None) -> dict[str, Any]:
    if state is None:
        return {"ready": False}
    return {
        "ready": state.ready,
        "cpu_cores": state.cpu_cores,
        "memory_bytes": state.memory_bytes,
        **state.system,
    }


def _of_host(facts: Facts | None) -> dict[str, Any]:
    if facts is None:
        return {}
    return {
        "board": facts.model,
        "kernel": facts.kernel,
        "os": facts.os,
        "clock_synchronised": facts.clock_synchronised,
        "clock_offset_s": round(facts.clock_offset_s, 4),
        "clock_error_s": round(facts.clock_error_s, 4),
        "throttled": None if facts.throttled is None else f"0x{facts.throttled:x}",
        "k3s": facts.k3s,
    }
