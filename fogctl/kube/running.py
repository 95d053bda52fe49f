"""A testbed on a cluster that is up, for whoever works on it: its description, its folder, its way in."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from fognetem.matrix import LatencyMatrix

from fogctl.errors import FAILED, FogError
from fogctl.kube import names
from fogctl.kube.access import Access
from fogctl.testbed import lock
from fogctl.testbed.model import Kind, Node, Testbed
from fogctl.testbed.state import Record, StateFolder, writable_state_dir
from fogctl.testbed.state import state_dir as default_state_dir

ADDRESSES = "addresses.json"
"""File of the state folder: by node the address that the cluster gives it."""


@dataclass(frozen=True, slots=True)
class KubeRunning:
    """One testbed of kind k3s as its state folder describes it."""

    state: StateFolder
    record: Record
    access: Access
    """As the testbed's own account, which may do only what a running testbed needs."""

    @classmethod
    def load(cls, name: str, state_dir: Path | None = None) -> KubeRunning:
        """The testbed of that name; FogError if it is not up, or not of this kind."""
        folder = StateFolder.of(name, state_dir or default_state_dir())
        record = folder.load()
        if record.testbed.kind is not Kind.k3s:
            kind = record.testbed.kind.value
            raise FogError(f"testbed {name} is of kind {kind}, not on a cluster", exit_code=FAILED)
        return cls(folder, record, Access.restricted(folder.folder))

    @classmethod
    def without_cluster(cls, testbed: Testbed, state_dir: Path | None = None) -> KubeRunning:
        """Remember a testbed of which only the machines are used: their latencies need no cluster."""
        folder = StateFolder.of(testbed.name, state_dir or writable_state_dir())
        with lock.held(folder.folder):
            folder.save(Record(testbed, LatencyMatrix(testbed.latencies.nodes), None))
        return cls.load(testbed.name, folder.folder.parent)

    @property
    def testbed(self) -> Testbed:
        """What was asked for."""
        return self.record.testbed

    @property
    def folder(self) -> Path:
        """The testbed's state folder."""
        return self.state.folder

    @property
    def latencies(self) -> LatencyMatrix:
        """What is injected now."""
        return self.record.latencies

    @property
    def namespace(self) -> str:
        """The namespace in which everything of the testbed is."""
        return names.namespace(self.testbed.name)

    @property
    def labels(self) -> dict[str, str]:
        """What every object of the testbed carries."""
        return names.labels(self.testbed.name)

    @property
    def image(self) -> str:
        """The image of drivers, executors and broker."""
        return self.testbed.kube.image or names.DEFAULT_IMAGE

    @property
    def storage_class(self) -> str:
        """The storage class of its volumes."""
        return self.testbed.kube.storage_class

    def node(self, name: str) -> Node:
        """The node of that name; FogError if there is none."""
        return self.testbed.require(name)

    def address(self, node: str) -> str:
        """Where the other nodes reach a node: what the testbed says, else what the cluster said at `up`."""
        given = {host.node: host.data_address for host in self.testbed.hosts}
        if found := given.get(self.node(node).name):
            return found
        try:
            known = json.loads((self.folder / ADDRESSES).read_text())
        except FileNotFoundError:
            known = {}
        if node in known:
            return str(known[node])
        for host in self.testbed.hosts:
            if host.node == node:
                return host.reached_at
        raise FogError(f"no address of node {node} is known", hint="fogctl up finds it out", exit_code=FAILED)
