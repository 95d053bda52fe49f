"""Virtual testbeds: emulated nodes on one Linux host, brought up, mended, observed and taken down."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import fognetem
from fognetem import Choice, NetemError
from fognetem.matrix import Path as NetworkPath

from fogctl.errors import FAILED, REFUSED, FogError
from fogctl.testbed import latency, lock, processes, state
from fogctl.testbed import plan as planning
from fogctl.testbed.build import Progress, make, missing, outdated, refuse_foreign, silent, undo
from fogctl.testbed.host import LinuxHost
from fogctl.testbed.ledger import Ledger
from fogctl.testbed.model import Testbed
from fogctl.testbed.running import Running
from fogctl.testbed.status import NodeStatus, Status, observe
from fogctl.testbed.steps import SHARED, AddNamespace, MakeFolder, Step

if TYPE_CHECKING:
    from fogctl.testbed.kind import TestbedKind


@dataclass(frozen=True, slots=True)
class Changes:
    """What `up` would do, or did."""

    removed: tuple[Step, ...]
    made: tuple[Step, ...]
    whole: int
    """Steps in the whole plan."""
    latency: str = ""
    """Which latency backend, and why."""


class Virtual:
    """One virtual testbed. Satisfies `fogctl.testbed.kind.TestbedKind`."""

    def __init__(
        self, testbed: Testbed, state_dir: Path | None = None, host: LinuxHost | None = None
    ) -> None:
        self._testbed = testbed
        self._state_dir = state_dir or state.state_dir()
        self._state = state.StateFolder.of(testbed.name, self._state_dir)
        self._host = host or LinuxHost()

    @property
    def testbed(self) -> Testbed:
        """What it is made of."""
        return self._testbed

    @property
    def running(self) -> Running:
        """The testbed as it is up; FogError if it is not."""
        return Running.load(self._testbed.name, self._state_dir, self._host)

    # Up

    def changes(self) -> Changes:
        """What `up` would do now; touches nothing, but only root can look."""
        require_root()
        ledger = self._ledger()
        nodes, injected, choice = self._plan(ledger)
        wanted = [*nodes, *injected]
        refuse_foreign(nodes, ledger, self._host)
        with _as_fog_error():
            lacking = tuple(missing(wanted, self._host))
        return Changes(tuple(outdated(ledger, wanted)), lacking, len(wanted), choice.why if choice else "")

    def up(self, progress: Progress = silent) -> Changes:
        """Build what is missing of the testbed and remove what no longer belongs to it.

        Checks everything it can before it touches anything. Killed at any point, `down` undoes what was done.
        """
        require_root()
        with self._changing() as ledger:
            progress(0, 1, "checking what this host offers")
            nodes, injected, choice = self._plan(ledger)
            refuse_foreign(nodes, ledger, self._host)
            old = outdated(ledger, [*nodes, *injected])
            self._state.save(
                state.Record(self._testbed, self._testbed.latencies, choice.name if choice else None)
            )
            undo([step for step in old if not isinstance(step, SHARED)], ledger, self._host)
            made = self._make_nodes(nodes, ledger, progress)
            if any(isinstance(step, AddNamespace) for step in made):
                # An emulation that was running looks into namespaces that are gone: start afresh.
                undo([step for step in reversed(ledger.steps) if latency.injects(step)], ledger, self._host)
            made += make(injected, ledger, self._host, progress)
        return Changes(tuple(old), tuple(made), len(nodes) + len(injected), choice.why if choice else "")

    def _make_nodes(self, nodes: list[Step], ledger: Ledger, progress: Progress) -> list[Step]:
        common = [step for step in nodes if isinstance(step, SHARED)]
        own = [step for step in nodes if not isinstance(step, SHARED)]
        with lock.shared_parts():
            made = make(common, ledger, self._host, siblings=self._siblings())
            # What stands in the shared folders keeps others from removing them as empty.
            made += make(_up_to_first_folder(own), ledger, self._host)
        return made + make(own, ledger, self._host, progress)

    def _plan(self, ledger: Ledger) -> tuple[list[Step], list[Step], Choice | None]:
        """The steps for the nodes, those for the latencies, and which backend injects them."""
        run_dir = str(self._state.network)
        hierarchies = self._host.cgroup_hierarchies()
        planning.check(self._testbed, hierarchies)
        with _as_fog_error():
            choice = self._choice_in_use(ledger, run_dir)
            if choice is None:
                choice = latency.choose(self._testbed, run_dir, self._host)
            injected: list[Step] = []
            if choice is not None:
                injected += fognetem.plan(self._testbed.latencies, choice.backend)
        steer = choice is None or latency.wants_steering(choice.name)
        return planning.plan(self._testbed, hierarchies, steer=steer), injected, choice

    def _choice_in_use(self, ledger: Ledger, run_dir: str) -> Choice | None:
        """The backend a running testbed has: it proved itself, and trying again takes a second."""
        if not any(latency.injects(step) for step in ledger.steps):
            return None
        name = self._state.load().backend
        if name is None:
            return None
        backend = latency.backend(self._testbed, run_dir, name)
        return Choice(backend, name, f"latencies are injected by the {name} backend, as before")

    # Down

    def down(self, progress: Progress = silent) -> tuple[Step, ...]:
        """Undo everything the ledger holds; answers what that was. Does nothing twice."""
        require_root()
        return take_down(self._state, self._host, progress)

    # While it is up

    def status(self) -> Status:
        """What is there and what is missing."""
        running = self.running
        hierarchies = running.hierarchies
        steer = latency.wants_steering(running.record.backend)
        wanted = planning.plan(running.testbed, hierarchies, steer=steer)
        if running.record.backend is not None:
            wanted += fognetem.plan(running.latencies, running.backend)
        if os.geteuid() != 0:  # only root sees inside network namespaces
            wanted = [step for step in wanted if not hasattr(step, "namespace") and not latency.injects(step)]
        with _as_fog_error():
            lacking = missing(wanted, self._host)
        said = tuple(step.describe() for step in lacking)
        nodes = tuple(
            replace(
                node, missing=tuple(step.describe() for step in lacking if _belongs(step, running, node.name))
            )
            for node in observe(running.testbed, running.latencies, hierarchies)
        )
        condition = "up" if not lacking else "down" if len(lacking) == len(wanted) else "half-built"
        return Status(
            running.testbed.name, running.testbed.kind.value, condition, running.record.backend, nodes, said
        )

    def observe(self) -> tuple[NodeStatus, ...]:
        """What each node uses at this moment."""
        running = self.running
        return observe(running.testbed, running.latencies, running.hierarchies)

    def start(self, node: str, argv: Sequence[str], log: Path) -> int:
        """Start a process on a node, its output appended to `log`; answers its process id."""
        with log.open("ab") as output:
            child = subprocess.Popen(
                self.running.exec_argv(node, argv),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        return child.pid

    def stop(self, node: str, pid: int) -> None:
        """End a process on a node at once; refuses one that is not on that node."""
        running = self.running
        if pid not in processes.in_group(running.groups(node)[0]):
            raise FogError(f"process {pid} does not run on node {node}", exit_code=FAILED)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def set_share(self, node: str, fraction: float | None) -> None:
        """Give a node this fraction of its CPU quota from now on; None lifts the quota."""
        self.running.set_share(node, fraction)

    def set_latency(self, a: str, b: str, path: NetworkPath) -> None:
        """Put this path between two nodes from now on."""
        running = self.running
        wanted = running.latencies.with_path(running.node(a).name, running.node(b).name, path)
        with _as_fog_error():
            running.apply(fognetem.difference(running.latencies, wanted, running.backend), wanted)

    # Inner workings

    @contextmanager
    def _changing(self) -> Iterator[Ledger]:
        """The testbed's lock and ledger; a folder in which nothing was recorded does not stay."""
        with lock.held(self._state.folder), _as_fog_error():
            ledger = self._ledger()
            try:
                yield ledger
            finally:
                ledger.close()
                self._host.close()
                if not ledger.steps:
                    self._state.remove()

    def _ledger(self) -> Ledger:
        return Ledger(self._state.ledger, latency.ALL_STEP_TYPES, self._host.boot_id())

    def _siblings(self) -> frozenset[Step]:
        return shared_by_others(self._state, self._host)


def take_down(folder: state.StateFolder, host: LinuxHost, progress: Progress = silent) -> tuple[Step, ...]:
    """Undo everything in a testbed's ledger, whatever its description says by now; answers what that was."""
    if not folder.exists:
        return ()
    with lock.held(folder.folder), _as_fog_error():
        ledger = Ledger(folder.ledger, latency.ALL_STEP_TYPES, host.boot_id())
        held = ledger.steps
        try:
            undo([step for step in reversed(held) if not isinstance(step, SHARED)], ledger, host, progress)
            host.close()
            with lock.shared_parts():
                others = shared_by_others(folder, host)
                common = [step for step in reversed(held) if isinstance(step, SHARED)]
                undo([step for step in common if step not in others], ledger, host)
                folder.remove()
        finally:
            ledger.close()
            host.close()
    return held


def _up_to_first_folder(steps: Sequence[Step]) -> Sequence[Step]:
    """The first steps: a namespace among them, and the first folder for its files."""
    ends = [number for number, step in enumerate(steps, 1) if isinstance(step, MakeFolder)]
    return steps[: ends[0]] if ends else steps


def recorded(folder: state.StateFolder, host: LinuxHost) -> list[Step]:
    """What taking a testbed down would undo, in that order."""
    return list(reversed(Ledger(folder.ledger, latency.ALL_STEP_TYPES, host.boot_id()).steps))


def shared_by_others(folder: state.StateFolder, host: LinuxHost) -> frozenset[Step]:
    """The shared steps that other testbeds hold."""
    found: set[Step] = set()
    for other in state.remembered(folder.folder.parent):
        if other != folder:
            with contextlib.suppress(FogError):
                ledger = Ledger(other.ledger, latency.ALL_STEP_TYPES, host.boot_id())
                found.update(step for step in ledger.steps if isinstance(step, SHARED))
    return frozenset(found)


def _belongs(step: Step, running: Running, node: str) -> bool:
    """Whether a step makes a part of that node."""
    own = {running.namespace(node), *running.groups(node)}
    for field in ("name", "namespace", "group", "path"):
        value = getattr(step, field, None)
        if value in own or (isinstance(value, str) and running.namespace(node) in value.split("/")):
            return True
    return False


@contextmanager
def _as_fog_error() -> Iterator[None]:
    """What fognetem expects to go wrong is an expected failure here too."""
    try:
        yield
    except NetemError as error:
        raise FogError(str(error), exit_code=FAILED) from error


def require_root() -> None:
    """Refuse without root, and say why it is needed."""
    if os.geteuid() != 0:
        raise FogError(
            "virtual nodes need root: they are network namespaces and control groups",
            hint="run with sudo, or use kind: sim",
            exit_code=REFUSED,
        )


if TYPE_CHECKING:

    def _is_a_kind(virtual: Virtual) -> TestbedKind:
        """The type checker proves it."""
        return virtual
