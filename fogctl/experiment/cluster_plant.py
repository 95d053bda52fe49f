"""Experiments on real boards under Kubernetes: the testbed is up before a run and stays up after it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from fogctl.errors import REFUSED, FogError
from fogctl.experiment.experiment import Experiment, Part
from fogctl.experiment.folder import RunFolder
from fogctl.experiment.live_plant import network_check
from fogctl.experiment.live_session import LiveSession, opened
from fogctl.experiment.load import Load
from fogctl.experiment.plant import NetworkCheck, Say
from fogctl.experiment.sim_plant import asked
from fogctl.kube import latency
from fogctl.kube.board_facts import BoardFacts, board_facts
from fogctl.kube.faults import ClusterBreaker
from fogctl.kube.ground import KubeGround
from fogctl.kube.running import KubeRunning
from fogctl.runtime import fault_record
from fogctl.runtime.operate import Apps
from fogctl.testbed.state import StateFolder, state_dir


class ClusterPlant:
    """A testbed of kind k3s as a place for experiments. Satisfies `fogctl.experiment.plant.Plant`."""

    kind = "k3s"

    def __init__(self, experiment: Experiment, folder: RunFolder) -> None:
        self._experiment, self._folder = experiment, folder
        self._known: BoardFacts | None = None
        self._faults_before: tuple[fault_record.Fault, ...] = ()

    def facts(self) -> dict[str, Any]:
        """Every board: its kernel, its clock, whether it is throttled, and what the cluster says of it."""
        return {"boards": self._boards().manifest()}

    def check(self) -> list[str]:
        """The testbed is up and as the experiment says, its nodes answer, and nobody uses the app."""
        running = self._running()
        wanted = [node.name for node in self._experiment.testbed.nodes]
        there = [node.name for node in running.testbed.nodes]
        if wanted != there:
            raise FogError(
                f"testbed {running.testbed.name} is up with the nodes {', '.join(there)}, and the experiment "
                f"is about {', '.join(wanted)}",
                hint="fogctl up brings it up to date with its file",
                exit_code=REFUSED,
            )
        app = self._experiment.app.name
        if not self._folder.manifest().get("resumed") and any(
            found.app == app for found in Apps(self._ground()).deployments()
        ):
            raise FogError(
                f"app {app} is deployed on testbed {running.testbed.name}, and the run would replace it",
                hint=f"fogctl app rm {app}",
                exit_code=REFUSED,
            )
        self._faults_before = fault_record.read(running.folder)
        if self._faults_before:
            raise FogError(
                f"the run is refused: {self._faults_before[0].describe()}",
                hint="fogctl fault restore puts it right",
                exit_code=REFUSED,
            )
        self._boards().require_ready()
        return self._boards().warnings()

    def up(self, say: Say) -> None:
        """Boards are not switched on or off."""
        say(f"testbed {self._experiment.testbed.name} is up: {len(self._experiment.testbed.nodes)} nodes")

    def verify(self, progress: Callable[[float], None]) -> NetworkCheck:
        """Have every machine ping every other; without hosts there is nobody to ask, and nothing injected."""
        running = self._running()
        testbed = self._experiment.testbed
        if running.testbed.hosts:
            found = latency.verify(running, self._experiment.tolerance_ms, None, progress)
            return network_check(found, testbed)
        names = tuple(node.name for node in testbed.nodes)
        if not testbed.latencies.paths:
            said = "the testbed names no hosts and injects no latencies: nothing was measured"
            return NetworkCheck(True, said, names, asked(testbed), None)
        said = "the testbed has latencies and names no hosts, so nobody can inject or measure them"
        return NetworkCheck(False, said, names, asked(testbed), None)

    def sustained(self) -> None:
        """The run itself will show."""
        return

    def open(self, part: Part, load: Load) -> AbstractContextManager[LiveSession]:
        """Deploy, feed, and remove."""
        return opened(self._experiment, self._folder, self._ground(), part, load)

    def down(self, say: Say) -> None:
        """Undo what the run broke; the testbed stays up."""
        state = StateFolder.of(self._experiment.testbed.name, state_dir())
        if not state.exists:
            return
        breaker = ClusterBreaker.on(self._running())
        for fault in fault_record.read(state.folder):
            if fault not in self._faults_before:
                say(f"restoring {fault.name}")
                breaker.restore(fault)

    def _running(self) -> KubeRunning:
        try:
            return KubeRunning.load(self._experiment.testbed.name)
        except FogError as error:
            raise FogError(
                f"{error.message}; an experiment on boards runs on a testbed that is up",
                hint="fogctl up brings it up; fogctl experiment run FILE --testbed NAME takes another one",
                exit_code=error.exit_code,
            ) from error

    def _ground(self) -> KubeGround:
        ground = KubeGround.on(self._running())
        ground.attend()
        return ground

    def _boards(self) -> BoardFacts:
        if self._known is None:
            self._known = board_facts(self._running())
        return self._known
