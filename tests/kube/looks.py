"""Run inside a cluster: what an agent would be told of a node that is switched off and on, look after look.

`python -m tests.kube.looks TESTBED STATE_DIR NODE` says `known` when it knows what the node uses, and ends
when the node was lost and that is known again: with every change in between, as a list.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from fogctl.errors import FogError
from fogctl.kube.ground import KubeGround
from fogctl.metrics.values import Reader

PAUSE_S = 1.0


def looks(reader: Reader, node: str) -> Iterator[str]:
    """What each look says of the node."""
    while True:
        try:
            found = {metrics.node: metrics.cpu_used_cores for metrics in reader.nodes()}
        except FogError:
            found = {}
        if found:
            yield _word(found[node]) if node in found else "lost"
        time.sleep(PAUSE_S)


def _word(cores: float | None) -> str:
    return "not known yet" if cores is None else "known" if cores > 0 else "idle"


def main(testbed: str, state_dir: Path, node: str) -> list[str]:
    """Every change from the moment at which the node was lost."""
    told: list[str] = []
    began = False
    for word in looks(KubeGround.load(testbed, state_dir).reader(), node):
        if word == "known" and not began:
            began = True
            print(word, flush=True)
        if began and (told or word == "lost"):
            told.append(word)
        if told and word == "known":
            break
    return [word for word, _ in groupby(told)]


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])))
