"""Run inside a cluster: nodes looked at directly and through Prometheus until both told the same often.

`python -m tests.kube.same_numbers TESTBED STATE_DIR TIMES PATIENCE_S` prints the last looks; it fails at
the first number that differs.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from fogctl.errors import FogError
from fogctl.kube.ground import KubeGround
from fogctl.kube.prometheus import ClusterPrometheus, ClusterPrometheusReader
from fogctl.metrics.values import NodeMetrics, Reader, node_to_json

SEEN_S = 12.0
"""What both look back to: some looks of a kubelet."""
Looks = dict[float, NodeMetrics]
"""What was told of one node, by the moment at which its kubelet looked."""


def main(testbed: str, state_dir: Path, times: int, patience_s: float) -> dict[str, Any]:
    """Compare for every node; each moment at which its kubelet looked counts once."""
    ground = KubeGround.load(testbed, state_dir)
    url = ClusterPrometheus(ground.running).url
    readers: list[Reader] = [ground.reader(SEEN_S), ClusterPrometheusReader(ground.running, url, SEEN_S)]
    names = [node.name for node in ground.testbed.nodes]
    told: list[dict[str, Looks]] = [{name: {} for name in names} for _ in readers]
    deadline = time.monotonic() + patience_s
    # Until then the direct reader's window begins with what the kubelet told of itself, not with a look.
    whole_from = time.time() + SEEN_S + 15.0
    while min(same(told[0][name], told[1][name]) for name in names) < times:
        assert time.monotonic() < deadline, {name: [sorted(each[name]) for each in told] for name in names}
        for reader, looks in zip(readers, told, strict=True):
            try:
                for metrics in reader.nodes():
                    if metrics.at_s > whole_from:
                        looks[metrics.node][metrics.at_s] = metrics
            except FogError:
                continue
        time.sleep(1.0)
    return {
        "nodes": [node_to_json(told[1][name][max(told[1][name])]) for name in names],
        "same": {name: same(told[0][name], told[1][name]) for name in names},
    }


def same(direct: Looks, through: Looks) -> int:
    """How many moments both know; of the newest one somebody may not have all numbers yet."""
    over = sorted(direct.keys() & through.keys())[:-1]
    for at_s in over:
        assert direct[at_s] == through[at_s], (direct[at_s], through[at_s])
    return len(over)


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))))
