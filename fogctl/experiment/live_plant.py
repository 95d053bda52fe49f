"""Experiments on a virtual testbed: emulated nodes, real Kafka and Spark, real time."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from fogctl.agent.events import FileLog
from fogctl.agent.live import LiveTarget
from fogctl.errors import REFUSED, FogError
from fogctl.experiment import app_variant, host, live_responses
from fogctl.experiment.experiment import Experiment, Part
from fogctl.experiment.folder import RunFolder
from fogctl.experiment.live_faults import Saboteur
from fogctl.experiment.load import Load
from fogctl.experiment.plant import NetworkCheck, Say
from fogctl.experiment.replayer import Replayer
from fogctl.experiment.sim_plant import asked
from fogctl.runtime import events as testbed_events
from fogctl.runtime.app import App
from fogctl.runtime.operate import Apps
from fogctl.sim.target import MOST_ARRIVALS
from fogctl.testbed import network, state
from fogctl.testbed.running import Running
from fogctl.testbed.virtual import Virtual, require_root

QUIET_BELOW = 0.5
"""A host busier than this before a run begins disturbs it."""
_SECOND_S = 1.0


class FedTarget(LiveTarget):
    """A live target that knows when records arrive: the replay holds its schedule to a millisecond."""

    def __init__(self, running: Running, app: App, load: Load, window_s: float) -> None:
        super().__init__(running, window_s=window_s)
        self._fed, self._due_s = app, load.due_s
        self.start_s: float | None = None
        """When the replay began; None: not yet."""

    def arrivals(self, app: str) -> Mapping[str, tuple[float, ...]]:
        """By stage that reads from outside: the latest arrivals, as many as the simulator keeps."""
        if self.start_s is None or app != self._fed.name:
            return {}
        until = int(np.searchsorted(self._due_s, self.now_s() - self.start_s, side="right"))
        recent = tuple((self.start_s + self._due_s[max(0, until - MOST_ARRIVALS) : until]).tolist())
        sources = set(self._fed.sources)
        return {stage.name: recent for stage in self._fed.stages if set(stage.inputs) & sources}


class LiveSession:
    """The app on the testbed, and the process that feeds it."""

    def __init__(
        self,
        running: Running,
        app: App,
        load: Load,
        replayer: Replayer,
        saboteur: Saboteur,
        window_s: float,
    ) -> None:
        self._saboteur = saboteur
        self._running, self._app, self._load, self._replayer = running, app, load, replayer
        self._target = FedTarget(running, app, load, window_s)
        self._eyes = LiveTarget(running, window_s=window_s)  # readers keep windows: one each
        self._offered = load.offered()
        self._busy = host.Busy()
        self._start_s = time.time()

    @property
    def target(self) -> FedTarget:
        """What the agent drives."""
        return self._target

    @property
    def eyes(self) -> LiveTarget:
        """What the recorder looks with."""
        return self._eyes

    @property
    def log(self) -> FileLog:
        """The testbed's own event log, which `fogctl watch` reads."""
        return FileLog(self._running.state.folder / testbed_events.FILE)

    @contextlib.contextmanager
    def watched(self, on_second: Callable[[], None]) -> Iterator[None]:
        """A thread that looks each second, also while a change is being made."""
        over = threading.Event()
        trouble: list[BaseException] = []

        def look() -> None:
            due = time.monotonic() + _SECOND_S
            while not over.wait(max(0.0, due - time.monotonic())):
                try:
                    on_second()
                except BaseException as error:
                    trouble.append(error)
                    return
                due = max(due + _SECOND_S, time.monotonic())

        thread = threading.Thread(target=look, name="recorder", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(timeout=30.0)
        if trouble:
            raise trouble[0]

    def start(self) -> float:
        """Tell the replayer to begin."""
        self._replayer.go()
        self._saboteur.start()
        self._start_s = self._target.start_s = time.time()
        return self._start_s

    def drained(self) -> bool:
        """Whether all is sent and no stage has anything waiting."""
        if not self._replayer.ended():
            return False
        seen = self._eyes.reader.stages(self._app.name)
        return len(seen) == len(self._app.stages) and all(metrics.lag == 0 for metrics in seen)

    def offered(self, second: int) -> float:
        """Records due in that second."""
        return float(self._offered[second]) if 0 <= second < self._offered.size else 0.0

    def replay(self) -> Mapping[str, Any] | None:
        """How well the schedule was held."""
        return self._replayer.result()

    def audit(self) -> Mapping[str, Any]:
        """The worst of the result streams that keep record numbers."""
        found = Apps.on(self._running).audit(self._app.name)
        if not found:
            return {}
        worst = max(found.values(), key=lambda audit: audit.lost)
        return {**dataclasses.asdict(worst), "streams": len(found)}

    def events(self) -> list[dict[str, Any]]:
        """Faults and restarts since the start, and the response times."""
        told = [
            event
            for event in testbed_events.read(self._running.state.folder)
            if float(event.get("at_s", 0.0)) >= self._start_s and "app" not in event
        ]
        return told + live_responses.events(self._running, self._app, time.time())

    def busy(self) -> float | None:
        """How busy the host was since the last look."""
        return self._busy.since_last()


class LivePlant:
    """A virtual testbed as a place for experiments. Satisfies `fogctl.experiment.plant.Plant`."""

    kind = "virtual"

    def __init__(self, experiment: Experiment, folder: RunFolder) -> None:
        self._experiment, self._folder = experiment, folder
        self._virtual = Virtual(experiment.testbed)
        self._state = state.StateFolder.of(experiment.testbed.name, state.state_dir())

    def facts(self) -> dict[str, Any]:
        """Nothing but what is measured."""
        return {}

    def check(self) -> list[str]:
        """Root, Java, no testbed of that name in use, and a host that is quiet enough."""
        from fogctl.java import require_java

        require_root()
        require_java()
        if self._state.exists and not self._folder.manifest().get("resumed"):
            raise FogError(
                f"testbed {self._state.name} is up already, and the run would take it down",
                hint=f"fogctl down --testbed {self._state.name}",
                exit_code=REFUSED,
            )
        busy = host.Busy()
        time.sleep(_SECOND_S)
        share = busy.since_last()
        if share is not None and share > QUIET_BELOW:
            return [f"the host was {share:.0%} busy before the run began"]
        return []

    def up(self, say: Say) -> None:
        """Bring the testbed up."""
        say(f"bringing up {len(self._experiment.testbed.nodes)} nodes")
        self._virtual.up()

    def verify(self, progress: Callable[[float], None]) -> NetworkCheck:
        """Measure every pair."""
        found = network.verify(self._virtual.running, self._experiment.tolerance_ms, None, progress)
        names = tuple(node.name for node in self._experiment.testbed.nodes)
        seen = {frozenset((pair.a, pair.b)): pair.measured_ms for pair in found.pairs}
        measured = tuple(tuple(0.0 if a == b else seen.get(frozenset((a, b))) for b in names) for a in names)
        return NetworkCheck(found.ok, found.sentence(), names, asked(self._experiment.testbed), measured)

    def sustained(self) -> None:
        """The run itself will show."""
        return

    @contextlib.contextmanager
    def open(self, part: Part, load: Load) -> Iterator[LiveSession]:
        """Deploy, feed, and remove; what an earlier, killed run left is removed first."""
        running = self._virtual.running
        apps = Apps.on(running)
        app = app_variant.write(self._experiment.app, self._experiment.config.app, self._folder.path / "app")
        if any(found.app == app.name for found in apps.deployments()):
            apps.remove(app.name)
        apps.deploy(app, {stage: list(nodes) for stage, nodes in self._experiment.start})
        log = self._folder.path / "parts" / f"{part.key}.replay.log"
        replayer = Replayer(self._folder.manifest_file, part.key, log)
        saboteur = Saboteur(running, self._experiment.faults(load))
        try:
            replayer.wait_until_ready()
            window_s = self._experiment.config.guard.window
            yield LiveSession(running, app, load, replayer, saboteur, window_s)
        finally:
            saboteur.close()
            replayer.close()
            try:
                apps.remove(app.name)
            except FogError as error:
                # The testbed goes down after the last part, and the next part removes it first.
                testbed_events.append(running.state.folder, "app not removed", error=str(error))

    def down(self, say: Say) -> None:
        """Take the testbed down."""
        if self._state.exists:
            say("taking the testbed down")
            self._virtual.down()
