"""Becomes a replica's executor: waits for the driver, takes a number no executor had before, runs the JVM.

Run as `python executor_start.py HOST PORT COUNTER PLACE COMMAND…` inside the node. Nothing of fogctl or of
any package is imported: on a weak node every module costs.
"""

import os
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path

PLACES = 1024
"""Numbers are counted in steps of so many, one a node: two nodes never take the same one."""
_ASK_EVERY_S = 0.2
_PATIENCE_S = 5.0


def wait_for(host: str, port: int) -> None:
    """Return when somebody listens there: an executor without a driver ends at once."""
    while True:
        try:
            socket.create_connection((host, port), timeout=_PATIENCE_S).close()
        except OSError:
            time.sleep(_ASK_EVERY_S)
        else:
            return


def next_number(counter: Path, place: int) -> int:
    """A number that no executor of the stage has had: a driver that lost one does not take it again."""
    try:
        starts = int(counter.read_text()) + 1
    except (FileNotFoundError, ValueError):
        starts = 0
    fresh = counter.with_suffix(".new")
    fresh.write_text(str(starts))
    fresh.replace(counter)
    return starts * PLACES + place


def main(arguments: Sequence[str]) -> None:
    """Wait, take a number, become the command."""
    host, port, counter, place, *command = arguments
    wait_for(host, int(port))
    number = next_number(Path(counter), int(place))
    os.execv(command[0], [*command, "--executor-id", str(number)])


if __name__ == "__main__":
    main(sys.argv[1:])
