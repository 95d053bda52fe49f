"""Faults of an experiment on a live testbed: each made when its time of the replay has come."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

from fogctl.errors import FogError
from fogctl.experiment.experiment import PlannedFault
from fogctl.runtime import events
from fogctl.runtime.fault_plan import Breaker


class Saboteur:
    """A thread that breaks what an experiment asks for; whoever watches the testbed restores it in time."""

    def __init__(self, state: Path, breaker: Breaker, planned: Sequence[PlannedFault]) -> None:
        self._state, self._breaker = state, breaker
        self._planned = sorted(planned, key=lambda fault: fault.at_s)
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """The replay begins now."""
        if self._planned:
            self._thread = threading.Thread(target=self._work, args=(time.monotonic(),), daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Break nothing any more."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(timeout=30.0)

    def _work(self, start_s: float) -> None:
        for fault in self._planned:
            if self._over.wait(max(0.0, start_s + fault.at_s - time.monotonic())):
                return
            try:
                if fault.kind == "kill":
                    self._breaker.kill(*self._breaker.killing(["node", fault.node], fault.lasts_s))
                else:
                    self._breaker.cut(self._breaker.cutting(fault.node, None, fault.lasts_s))
            except FogError as error:
                events.append(self._state, "fault failed", error=str(error))
