"""Keeping a testbed's latencies from being cleared, in the background: `-m fogctl.kube.renewal FOLDER`."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

from fogctl.errors import FogError
from fogctl.kube import latency
from fogctl.kube.impaired_host import SWITCH_S
from fogctl.kube.running import KubeRunning

EVERY_S = SWITCH_S / 5


def keep(folder: Path, every_s: float = EVERY_S) -> None:
    """Renew until the testbed is gone or injects nothing any more."""
    while True:
        try:
            running = KubeRunning.load(folder.name, folder.parent)
        except FogError:
            return
        if not running.latencies.paths:
            return
        for failure in latency.tend(running):
            print(time.strftime("%H:%M:%S"), failure, flush=True)
        time.sleep(every_s)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    keep(Path(sys.argv[1]))
