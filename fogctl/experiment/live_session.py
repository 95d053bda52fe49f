"""An app deployed for one part of an experiment on a testbed of any live kind, and fed with its load."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fogctl.agent.events import FileLog
from fogctl.agent.live import LiveTarget
from fogctl.errors import FogError, NoAnswerError
from fogctl.experiment import app_variant, host, live_responses
from fogctl.experiment.experiment import Experiment, Part
from fogctl.experiment.folder import RunFolder
from fogctl.experiment.live_faults import Saboteur
from fogctl.experiment.load import Load
from fogctl.experiment.plant import DoneBatch
from fogctl.experiment.replayer import Replayer
from fogctl.metrics.batch import read_batch
from fogctl.runtime import events as testbed_events
from fogctl.runtime.app import App
from fogctl.runtime.breakers import breaker_of
from fogctl.runtime.ground import Ground
from fogctl.runtime.operate import Apps
from fogctl.testbed.model import Kind

_SECOND_S = 1.0


class LiveSession:
    """The app on the testbed, and the process that feeds it."""

    def __init__(
        self,
        ground: Ground,
        app: App,
        load: Load,
        replayer: Replayer,
        saboteur: Saboteur,
        window_s: float,
    ) -> None:
        self._saboteur = saboteur
        self._ground, self._app, self._replayer = ground, app, replayer
        # Readers keep windows: one each.
        self._target = LiveTarget(ground, window_s=window_s)
        self._eyes = LiveTarget(ground, window_s=window_s)
        self._offered = load.offered()
        # Only where this machine emulates the nodes does it matter how busy it is.
        self._busy = host.Busy() if ground.testbed.kind is Kind.virtual else None
        self._start_s = time.time()

    @property
    def target(self) -> LiveTarget:
        """What the agent drives."""
        return self._target

    @property
    def eyes(self) -> LiveTarget:
        """What the recorder looks with."""
        return self._eyes

    @property
    def log(self) -> FileLog:
        """The testbed's own event log, which `fogctl watch` reads."""
        return FileLog(self._ground.folder / testbed_events.FILE)

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
                except NoAnswerError:
                    pass  # the agent tells it; of these seconds nothing is known
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
        self._start_s = time.time()
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
        found = Apps(self._ground).audit(self._app.name)
        if not found:
            return {}
        worst = max(found.values(), key=lambda audit: audit.lost)
        return {**dataclasses.asdict(worst), "streams": len(found)}

    def events(self) -> list[dict[str, Any]]:
        """Faults and restarts since the start, and the response times."""
        told = [
            event
            for event in testbed_events.read(self._ground.folder)
            if float(event.get("at_s", 0.0)) >= self._start_s and "app" not in event
        ]
        return told + live_responses.events(self._ground.kafka(), self._app, time.time())

    def batches(self) -> dict[str, list[DoneBatch]]:
        """As the stages' drivers reported them; of a driver that does not answer, none."""
        found: dict[str, list[DoneBatch]] = {}
        for stage in self._app.stages:
            with contextlib.suppress(FogError):
                told = map(read_batch, self._ground.progress(self._app.name, stage.name, self._start_s))
                found[stage.name] = [DoneBatch(b.ended_s, b.duration_s, b.rows) for b in told if b.rows]
        return found

    def busy(self) -> float | None:
        """How busy the host was since the last look; None: the nodes are machines of their own."""
        return None if self._busy is None else self._busy.since_last()


@contextlib.contextmanager
def opened(
    experiment: Experiment, folder: RunFolder, ground: Ground, part: Part, load: Load
) -> Iterator[LiveSession]:
    """Deploy, feed, and remove; what an earlier, killed run left is removed first."""
    apps = Apps(ground)
    app = app_variant.write(experiment.app, experiment.config.app, folder.path / "app")
    if any(found.app == app.name for found in apps.deployments()):
        apps.remove(app.name)
    apps.deploy(app, {stage: list(nodes) for stage, nodes in experiment.start})
    log = folder.path / "parts" / f"{part.key}.replay.log"
    replayer = Replayer(folder.manifest_file, part.key, log)
    saboteur = Saboteur(ground.folder, breaker_of(ground), experiment.faults(load))
    try:
        replayer.wait_until_ready()
        yield LiveSession(ground, app, load, replayer, saboteur, experiment.config.guard.window)
    finally:
        saboteur.close()
        replayer.close()
        try:
            apps.remove(app.name)
        except FogError as error:
            # The testbed is cleaned up after the last part, and the next part removes it first.
            testbed_events.append(ground.folder, "app not removed", error=str(error))
