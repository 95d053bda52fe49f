"""Experiments on a virtual testbed: emulated nodes, real Kafka and Spark, real time."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from fognetem import Verification

from fogctl.errors import REFUSED, FogError
from fogctl.experiment import host
from fogctl.experiment.experiment import Experiment, Part
from fogctl.experiment.folder import RunFolder
from fogctl.experiment.live_session import LiveSession, opened
from fogctl.experiment.load import Load
from fogctl.experiment.plant import NetworkCheck, Say
from fogctl.experiment.sim_plant import asked
from fogctl.runtime.virtual_ground import VirtualGround
from fogctl.testbed import network, state
from fogctl.testbed.model import Testbed
from fogctl.testbed.virtual import Virtual, require_root

QUIET_BELOW = 0.5
"""A host busier than this before a run begins disturbs it."""


def network_check(found: Verification, testbed: Testbed) -> NetworkCheck:
    """What was measured of every pair, beside what was asked for."""
    names = tuple(node.name for node in testbed.nodes)
    seen = {frozenset((pair.a, pair.b)): pair.measured_ms for pair in found.pairs}
    measured = tuple(tuple(0.0 if a == b else seen.get(frozenset((a, b))) for b in names) for a in names)
    return NetworkCheck(found.ok, found.sentence(), names, asked(testbed), measured)


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
        time.sleep(1.0)
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
        return network_check(found, self._experiment.testbed)

    def sustained(self) -> None:
        """The run itself will show."""
        return

    def open(self, part: Part, load: Load) -> AbstractContextManager[LiveSession]:
        """Deploy, feed, and remove."""
        ground = VirtualGround.on(self._virtual.running)
        return opened(self._experiment, self._folder, ground, part, load)

    def down(self, say: Say) -> None:
        """Take the testbed down."""
        if self._state.exists:
            say("taking the testbed down")
            self._virtual.down()
