"""Metrics straight from whoever measures them: stage runners' sockets, and nodes' control groups."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from fogctl.errors import FogError
from fogctl.metrics import place
from fogctl.metrics.groups import NodeGroups, NodeWindows
from fogctl.metrics.values import (
    WINDOW_S,
    NodeMetrics,
    StageMetrics,
    node_from_json,
    stage_from_json,
)
from fogctl.runtime.control import ask
from fogctl.testbed.running import Running

FIRST_LOOK_S = 1.0
"""How long the first question waits between two looks, where no exporter has looked before."""
SOCKET = "runner.sock"


@dataclass(slots=True)
class DirectReader:
    """Asks every stage runner of an app, and the node exporter; without one it reads control groups itself.

    A stage whose runner does not answer is left out, and so is a node that is not there. Reading control
    groups itself, the reader's window reaches back to its own earlier questions, `window_s` at most.
    """

    running: Running
    window_s: float = WINDOW_S
    timeout_s: float = 5.0
    _windows: NodeWindows | None = field(default=None, repr=False)

    def stages(self, app: str) -> tuple[StageMetrics, ...]:
        """Every stage of an app that answers, by name."""
        found = []
        for socket in sorted((self.running.state.folder / "apps" / app).glob(f"*/{SOCKET}")):
            metrics = self._stage(socket)
            if metrics is not None:
                found.append(metrics)
        return tuple(found)

    def nodes(self) -> tuple[NodeMetrics, ...]:
        """Every node of the testbed that is there, by name."""
        if self.window_s == WINDOW_S:
            try:
                socket = place.nodes_socket(self.running.state.folder)
                answer = ask(socket, {"ask": "nodes"}, self.timeout_s)
                return tuple(node_from_json(each) for each in answer["nodes"])
            except (FogError, KeyError):
                pass
        if self._windows is None:
            groups = NodeGroups(self.running.testbed.name, self.running.hierarchies)
            self._windows = NodeWindows(groups, [node.name for node in self.running.testbed.nodes])
            self._windows.look()
            time.sleep(FIRST_LOOK_S)
        self._windows.look()
        return self._windows.metrics(self.window_s)

    def _stage(self, socket: Path) -> StageMetrics | None:
        try:
            answer = ask(socket, {"ask": "metrics", "window_s": self.window_s}, self.timeout_s)
        except FogError:
            return None
        metrics = answer.get("metrics")
        return None if metrics is None else stage_from_json(metrics)
