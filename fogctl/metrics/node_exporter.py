"""The process that watches all nodes of a testbed: their metrics over HTTP, and on a socket file.

Run as `python -m fogctl.metrics.node_exporter TESTBED STATE_DIR` on the control node. It also tells
Prometheus which stages to scrape, at `/targets`: whatever is deployed at that moment.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from pathlib import Path
from typing import Any

from fogctl.errors import FogError
from fogctl.metrics import place
from fogctl.metrics.exposition import node_families
from fogctl.metrics.groups import NodeGroups, NodeWindows
from fogctl.metrics.http import serve as serve_http
from fogctl.metrics.values import WINDOW_S, NodeMetrics, node_to_json
from fogctl.runtime.control import serve
from fogctl.testbed.running import Running

LOOK_EVERY_S = 1.0
SHARE_OF_A_CORE = 0.02
"""It looks less often where that would cost more than this: a testbed may have a thousand nodes."""


class NodeExporter:
    """All nodes of one testbed, looked at once a second."""

    def __init__(self, running: Running) -> None:
        self._running = running
        testbed = running.testbed
        groups = NodeGroups(testbed.name, running.hierarchies)
        self._windows = NodeWindows(groups, [node.name for node in testbed.nodes])
        self._newest: tuple[NodeMetrics, ...] = ()
        self._described = self._description_time()

    def metrics(self) -> tuple[NodeMetrics, ...]:
        """What the last look gave: whoever asks between two looks gets the same numbers."""
        return self._newest

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer one request on the socket."""
        if request.get("ask") != "nodes":
            return {"error": f"unknown request {request.get('ask')!r}"}
        return {"nodes": [node_to_json(each) for each in self.metrics()]}

    def targets(self) -> str:
        """The stages that are deployed, as Prometheus' HTTP service discovery wants them."""
        address = place.control_address(self._running.testbed)
        found = []
        for file in sorted((self._running.state.folder / "apps").glob("*/deployment.json")):
            deployed = json.loads(file.read_text())
            for stage in deployed["stages"]:
                target = f"{address}:{place.FIRST_STAGE_PORT + stage['number']}"
                found.append({"targets": [target], "labels": {}})
        return json.dumps(found)

    def run(self) -> None:
        """Look and serve for good."""
        testbed, state = self._running.testbed, self._running.state.folder
        place.folder(state).mkdir(parents=True, exist_ok=True)
        self.look()
        serve(place.nodes_socket(state), self.answer)
        serve_http(
            place.control_address(testbed),
            place.NODES_PORT,
            lambda: node_families(self.metrics()),
            {"/targets": self.targets},
        )
        while True:
            began = time.process_time()
            self.look()
            cost_s = time.process_time() - began
            time.sleep(max(LOOK_EVERY_S, cost_s / SHARE_OF_A_CORE))

    def look(self) -> None:
        """Look once, at the nodes that the testbed has now: `fogctl up` may have added some."""
        if (described := self._description_time()) != self._described:
            self._described = described
            with contextlib.suppress(FogError):  # being taken down
                self._windows.nodes = [node.name for node in self._running.state.load().testbed.nodes]
        self._windows.look()
        self._newest = self._windows.metrics(WINDOW_S)

    def _description_time(self) -> float:
        try:
            return self._running.state.record.stat().st_mtime
        except OSError:
            return 0.0


if __name__ == "__main__":
    NodeExporter(Running.load(sys.argv[1], Path(sys.argv[2]))).run()
