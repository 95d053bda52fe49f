"""`fogctl demo`: the main job in five minutes, or a tour of the commands; and a clean host at the end."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from fogctl.errors import FAILED, REFUSED, FogError

NAME = "demo"
EXPERIMENT = "smoke"
_SPEED = 10
_MINUTES = 3
_STAGE = ("taxi", "nearest")


def demo(
    tour: Annotated[
        bool, typer.Option("--tour", help="The commands one after the other, instead of an experiment.")
    ] = False,
) -> None:
    """A taxi night on emulated Pis under two policies, one Pi killed, every record counted, on one page.

    It is the experiment `smoke` and leaves nothing but the run's folder. The tour types the commands of a new
    user instead: ten Pis up, an app deployed, scaled out and in, slowed, a Pi killed, every ride counted.

    \b
    Examples:
      sudo fogctl demo
      sudo fogctl demo --tour
    """
    if sys.platform != "linux" or os.geteuid() != 0:
        raise FogError(
            "the demo makes network namespaces and control groups, which needs root on Linux",
            hint="sudo make demo; or see what works here: fogctl doctor",
            exit_code=REFUSED,
        )
    began = time.monotonic()
    if tour:
        _tour()
    else:
        _run(Path.cwd(), "experiment", "run", EXPERIMENT)
        _check_clean(EXPERIMENT)
    _say(
        f"Done in {(time.monotonic() - began) / 60:.1f} minutes; the host is as it was before. "
        "Next: fogctl init NAME writes a testbed.yaml of your own."
    )


def _tour() -> None:
    with tempfile.TemporaryDirectory(prefix="fog-demo-") as folder:
        here = Path(folder)
        _run(here, "init", NAME, "--example", "gesscale", "--no-up")
        try:
            _testbed(here)
            _app(here)
        finally:
            _run(here, "down")
        _check_clean(NAME)


def _testbed(here: Path) -> None:
    _run(here, "up")
    _run(here, "net", "verify")
    _say("The link from pi1 to pi2 gets slower while everything runs:")
    _run(here, "net", "set", "pi1", "pi2", "--rtt", "20ms")


def _app(here: Path) -> None:
    days = _MINUTES * _SPEED / (24 * 60)
    _run(here, "app", "deploy", "taxi", "--on", "pi1,pi2")
    _run(here, "trace", "make", "morning.parquet", "--start", "2013-05-01T08:00:00", "--days", f"{days:.4f}")
    _say(f"{_MINUTES * _SPEED} minutes of a taxi morning in {_MINUTES} minutes; meanwhile:")
    with _beside(here, "trace", "replay", "morning.parquet", "--app", "taxi", "--speed", str(_SPEED)):
        time.sleep(15)
        _run(here, "app", "status", "taxi")
        _run(here, "app", "scale", *_STAGE, "--nodes", "pi1,pi2,pi3")
        time.sleep(15)
        _run(here, "app", "share", *_STAGE, "60%")
        time.sleep(10)
        _run(here, "app", "status", "taxi")
        _run(here, "app", "share", *_STAGE, "100%")
        _run(here, "app", "scale", *_STAGE, "--nodes", "pi1,pi2")
        time.sleep(10)
        _say("pi2 loses its power:")
        _run(here, "fault", "kill", "pi2")
        time.sleep(15)
        _run(here, "app", "status", "taxi")
        _run(here, "fault", "restore", "pi2")
    _run(here, "app", "status", "taxi")
    _say("Was every ride counted?")
    _run(here, "audit", "taxi", "--wait", "120s")


@contextlib.contextmanager
def _beside(folder: Path, *command: str) -> Iterator[None]:
    """Run a fogctl command beside what the body does; the body's end waits for it."""
    _say(f"$ fogctl {' '.join(command)} &")
    with subprocess.Popen(
        _argv(command), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield
        except BaseException:
            process.kill()
            raise
        said, complaint = process.communicate()
    _say(said.strip())
    if process.returncode != 0:
        raise _failed(command, process.returncode, complaint.strip())


def _run(folder: Path, *command: str) -> None:
    _say(f"$ fogctl {' '.join(command)}")
    ran = subprocess.run(_argv(command), cwd=folder, check=False)
    if ran.returncode != 0:
        raise _failed(command, ran.returncode, "what it said stands above")


def _argv(command: tuple[str, ...]) -> list[str]:
    return [sys.executable, "-m", "fogctl", *command]


def _failed(command: tuple[str, ...], code: int, said: str) -> FogError:
    return FogError(
        f"fogctl {command[0]} failed with exit code {code}",
        hint=f"{said}; fogctl doctor looks at this machine",
        exit_code=code if code > 0 else FAILED,
    )


def _check_clean(testbed: str) -> None:
    """Look for what the demo made; it must be gone."""
    left = [str(path) for path in Path("/var/run/netns").glob(f"fog-{testbed}-*")]
    left += [str(path) for path in Path("/sys/fs/cgroup").glob(f"**/fog-{testbed}")]
    left += [str(path) for path in Path("/etc/netns").glob(f"fog-{testbed}-*")]
    if left:
        raise FogError(f"the demo left something behind: {', '.join(left)}", exit_code=FAILED)


def _say(line: str) -> None:
    typer.echo(line)
    sys.stdout.flush()
