"""`fogctl demo`: the commands a new user would type, one after the other, and a clean host at the end."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import typer

from fogctl.errors import FAILED, REFUSED, FogError

NAME = "demo"


def demo() -> None:
    """Bring up ten emulated Raspberry Pis, measure the latencies between them, change one live, clean up.

    \b
    Example:
      sudo fogctl demo
    """
    if sys.platform != "linux" or os.geteuid() != 0:
        raise FogError(
            "the demo makes network namespaces and control groups, which needs root on Linux",
            hint="sudo make demo; or see what works here: fogctl doctor",
            exit_code=REFUSED,
        )
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fog-demo-") as folder:
        here = Path(folder)
        _run(here, "init", NAME, "--example", "gesscale", "--no-up")
        try:
            _run(here, "up")
            _run(here, "status")
            _run(here, "net", "verify")
            _say("A link gets slower while everything runs:")
            _run(here, "net", "set", "pi1", "pi2", "--rtt", "120ms")
            _run(here, "exec", "pi1", "--", sys.executable, "-c", _ROUND_TRIP)
        finally:
            _run(here, "down")
        _check_clean()
    _say(
        f"Done in {time.monotonic() - began:.0f} s; the host is as it was before. "
        "Next: fogctl init NAME writes a testbed.yaml of your own."
    )


# What any program on the node sees: the time to be refused by a closed port is one round trip.
_ROUND_TRIP = """
import socket, time
took = []
for _ in range(5):
    start = time.perf_counter()
    try: socket.create_connection(("pi2", 9), 5).close()
    except ConnectionRefusedError: took.append((time.perf_counter() - start) * 1000)
print(f"on pi1: a connection attempt to pi2 takes {sorted(took)[2]:.1f} ms")
"""


def _run(folder: Path, *command: str) -> None:
    shown: Sequence[str] = [Path(word).name if word == sys.executable else word for word in command]
    if _ROUND_TRIP in shown:
        shown = [*shown[: shown.index("-c")], "round_trip.py"]
    _say(f"$ fogctl {' '.join(shown)}")
    ran = subprocess.run(
        [sys.executable, "-m", "fogctl", *command],
        cwd=folder,
        check=False,
    )
    if ran.returncode != 0:
        raise FogError(
            f"fogctl {command[0]} failed with exit code {ran.returncode}",
            hint="what it said stands above; fogctl doctor looks at this machine",
            exit_code=ran.returncode if ran.returncode > 0 else FAILED,
        )


def _check_clean() -> None:
    """Look for what the demo made; it must be gone."""
    left = [str(path) for path in Path("/var/run/netns").glob(f"fog-{NAME}-*")]
    left += [str(path) for path in Path("/sys/fs/cgroup").glob(f"**/fog-{NAME}")]
    left += [str(path) for path in Path("/etc/netns").glob(f"fog-{NAME}-*")]
    if left:
        raise FogError(f"the demo left something behind: {', '.join(left)}", exit_code=FAILED)


def _say(line: str) -> None:
    typer.echo(line)
    sys.stdout.flush()
