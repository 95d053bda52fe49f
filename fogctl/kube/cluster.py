"""Testbeds on a cluster: brought up, mended, looked at and taken down through the API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from fognetem.matrix import LatencyMatrix
from fognetem.matrix import Path as NetworkPath

from fogctl.errors import REFUSED, FogError
from fogctl.kube import checks, latency, names, operator_access, rbac, removal, waiting
from fogctl.kube.access import Access, Manifest
from fogctl.kube.credentials import Credentials
from fogctl.kube.ledger import Entry, NodeLabel, open_ledger
from fogctl.kube.nodes import read_node
from fogctl.kube.objects import Objects, Ref
from fogctl.kube.plan import Part, outdated, plan, up_to_date
from fogctl.kube.running import ADDRESSES, KubeRunning
from fogctl.kube.status import observe, status_of
from fogctl.testbed import lock
from fogctl.testbed.build import Progress, silent
from fogctl.testbed.ledger import Ledger
from fogctl.testbed.model import Testbed
from fogctl.testbed.state import Record, StateFolder, writable_state_dir
from fogctl.testbed.status import NodeStatus, Status

if TYPE_CHECKING:
    from fogctl.testbed.kind import TestbedKind

RESTART_PATIENCE_S = 90.0
"""How long an API server may be away in the middle of a change: k3s on a Pi needs most of it to restart."""
GONE_PATIENCE_S = 180.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What is on the cluster before a change."""

    nodes: dict[str, Manifest]
    objects: dict[Ref, Manifest]

    def has(self, part: Part) -> bool:
        """Whether a part is there, made from this very plan."""
        if isinstance(part.entry, NodeLabel):
            node = self.nodes.get(part.entry.node)
            labels = {} if node is None else node["metadata"].get("labels") or {}
            return labels.get(part.entry.key) == part.entry.value
        found = self.objects.get(part.entry)
        going = found is not None and found["metadata"].get("deletionTimestamp")
        return found is not None and not going and up_to_date(found, part.manifest)


class Described(Protocol):
    """A part, an entry of the ledger, or anything else that can be told."""

    def describe(self) -> str:
        """In a few words."""
        ...


@dataclass(frozen=True, slots=True)
class WayIn:
    """The kubeconfig of the testbed's own account; it goes with the state folder."""

    file: Path

    def describe(self) -> str:
        """In a few words."""
        return f"kubeconfig of {names.OPERATOR} in {self.file}"


@dataclass(frozen=True, slots=True)
class Changes:
    """What `up` would do, or did."""

    removed: tuple[Described, ...]
    made: tuple[Described, ...]
    whole: int
    """Parts in the whole plan."""
    latency: str = ""
    """How latencies are injected."""


class Cluster:
    """One testbed of kind k3s. Satisfies `fogctl.testbed.kind.TestbedKind`."""

    def __init__(self, testbed: Testbed, state_dir: Path | None = None, admin: Access | None = None) -> None:
        self._testbed = testbed
        self._state = StateFolder.of(testbed.name, state_dir or writable_state_dir())
        self._admin = admin or Access.admin(testbed)

    @property
    def testbed(self) -> Testbed:
        """What it is made of."""
        return self._testbed

    @property
    def running(self) -> KubeRunning:
        """The testbed as it is up; FogError if it is not."""
        return KubeRunning.load(self._testbed.name, self._state.folder.parent)

    # Up

    def changes(self) -> Changes:
        """What `up` would do now; changes nothing."""
        with self._objects() as objects:
            ledger = open_ledger(self._state)
            known = self._state.exists
            wanted = plan(self._testbed, Credentials.of(self._state.folder) if known else Credentials.fresh())
            seen = self._checked(objects, wanted, ledger)
            made: list[Described] = [part for part in wanted if not seen.has(part)]
            if not self._way_in(seen.objects.get(self._account)):
                made.append(self._way_in_part())
            wanted_there = self._testbed.latencies
            lacking = latency.lacking(self.running, wanted_there) if known else latency.wanted(self._testbed)
            made += lacking
            old = outdated(ledger.steps, wanted)
        return Changes(tuple(old), tuple(made), self._whole(wanted), latency.words(self._testbed))

    def up(self, progress: Progress = silent, wait: bool = True) -> Changes:
        """Make what is missing of the testbed and remove what no longer belongs to it.

        Checks everything it can before it changes anything. Killed at any point, `down` undoes what was done.
        With `wait`, it returns when the broker answers.
        """
        with self._objects(RESTART_PATIENCE_S) as objects, self._changing() as ledger:
            progress(0, 1, "looking at the cluster")
            first = Objects(self._admin)  # no patience yet: who is not there at all is told at once
            wanted = plan(self._testbed, Credentials.of(self._state.folder))
            seen = self._checked(first, wanted, ledger)
            injected = self._state.load().latencies if self._state.record.exists() else None
            self._remember(seen, injected)
            old = outdated(ledger.steps, wanted)
            removal.remove(old, ledger, objects, self._testbed.name, silent)
            made: list[Described] = []
            for number, part in enumerate(wanted):
                progress(number, len(wanted), part.describe())
                if not seen.has(part):
                    self._make(part, objects, ledger)
                    made.append(part)
            if not self._way_in(objects.get(self._account)):
                operator_access.write(self._state.folder, objects, self._testbed.name)
                made.append(self._way_in_part())
            if wait and self._testbed.kafka is None:
                waiting.for_broker(
                    objects, self._testbed, lambda said: progress(len(wanted), len(wanted), said)
                )
            made += latency.inject(self.running, ledger, progress)
        return Changes(tuple(old), tuple(made), self._whole(wanted), latency.words(self._testbed))

    def _whole(self, wanted: list[Part]) -> int:
        return len(wanted) + 1 + len(latency.wanted(self._testbed))

    def _checked(self, objects: Objects, wanted: list[Part], ledger: Ledger[Entry]) -> Seen:
        """What is there, once it is sure that the testbed can be made."""
        seen = self._look(objects, wanted)
        checks.require_nodes(self._testbed, list(seen.nodes.values()))
        checks.refuse_foreign(self._testbed, wanted, seen.objects, ledger)
        checks.require_allowed(objects, rbac.admin_needs(self._testbed))
        checks.require_storage(self._testbed, objects)
        latency.require_possible(self._testbed)
        return seen

    def _look(self, objects: Objects, wanted: list[Part]) -> Seen:
        nodes = {each["metadata"]["name"]: each for each in objects.list("Node")}
        found: dict[Ref, Manifest] = {}
        for part in wanted:
            if isinstance(part.entry, Ref) and (manifest := objects.get(part.entry)) is not None:
                found[part.entry] = manifest
        return Seen(nodes, found)

    def _make(self, part: Part, objects: Objects, ledger: Ledger[Entry]) -> None:
        """Make a part, or bring it up to date; the ledger knows of it first."""
        entry = part.entry
        if isinstance(entry, NodeLabel):
            ledger.record(entry)
            if (
                objects.patch(Ref("Node", entry.node), {"metadata": {"labels": {entry.key: entry.value}}})
                is None
            ):
                raise FogError(f"node {entry.node} has left the cluster just now", exit_code=REFUSED)
            return
        found = objects.get(entry)
        if found is not None and found["metadata"].get("deletionTimestamp"):
            objects.wait_gone(entry, GONE_PATIENCE_S, found["metadata"].get("uid"))
            found = objects.get(entry)
        ledger.record(entry)
        if found is None and objects.create(part.manifest):
            return
        found = found or objects.get(entry) or {"metadata": {}}
        if not names.is_ours(found["metadata"].get("labels"), self._testbed.name):
            ledger.forget(entry)  # made by somebody else since we looked: not ours to undo
            raise FogError(f"{entry.describe()} was made by somebody else just now", exit_code=REFUSED)
        if not up_to_date(found, part.manifest):
            objects.patch(entry, part.manifest)

    def _remember(self, seen: Seen, injected: LatencyMatrix | None) -> None:
        """Write down what the testbed is before anything of it is made."""
        if injected is None or set(injected.nodes) != set(self._testbed.latencies.nodes):
            injected = LatencyMatrix(self._testbed.latencies.nodes)
        self._state.save(Record(self._testbed, injected, latency.BACKEND if self._testbed.hosts else None))
        states = [read_node(seen.nodes[node.name]) for node in self._testbed.nodes]
        addresses = {state.name: state.address for state in states if state.address}
        (self._state.folder / ADDRESSES).write_text(json.dumps(addresses))

    @property
    def _account(self) -> Ref:
        return Ref("ServiceAccount", names.OPERATOR, names.namespace(self._testbed.name))

    def _way_in(self, account: Manifest | None) -> bool:
        """Whether the testbed's own account can be used from here."""
        uid = None if account is None else account["metadata"]["uid"]
        return uid is not None and operator_access.usable(self._state.folder, self._admin, uid)

    def _way_in_part(self) -> WayIn:
        return WayIn(Access.restricted(self._state.folder).kubeconfig)

    # While it is up

    def status(self) -> Status:
        """What is there and what is missing."""
        running = self.running
        return status_of(running, plan(running.testbed, Credentials.of(running.folder)))

    def observe(self) -> tuple[NodeStatus, ...]:
        """What each node has at this moment."""
        return observe(self.running)

    def set_latency(self, a: str, b: str, path: NetworkPath) -> None:
        """Put this path between two nodes from now on."""
        running = self.running
        first, second = running.node(a).name, running.node(b).name
        latency.change(running, running.latencies.with_path(first, second, path))

    # Down

    def down(self, progress: Progress = silent) -> tuple[Entry, ...]:
        """Undo everything the ledger holds; answers what that was. Does nothing twice."""
        return removal.take_down(self._state, progress, self._admin)

    # Inner workings

    @contextmanager
    def _objects(self, patience_s: float = 0.0) -> Iterator[Objects]:
        try:
            yield Objects(self._admin, patience_s)
        finally:
            self._admin.close()

    @contextmanager
    def _changing(self) -> Iterator[Ledger[Entry]]:
        """The testbed's lock and ledger; a folder in which nothing was recorded does not stay."""
        with lock.held(self._state.folder):
            self._state.folder.chmod(0o700)
            ledger = open_ledger(self._state)
            try:
                yield ledger
            finally:
                ledger.close()
                if not ledger.steps:
                    self._state.remove()


if TYPE_CHECKING:

    def _is_a_kind(cluster: Cluster) -> TestbedKind:
        """The type checker proves it."""
        return cluster
