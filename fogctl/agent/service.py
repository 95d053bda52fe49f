"""The agent as a service of a testbed: supervised, ended by `fogctl down`, but at work on the host.

Run as `python -m fogctl.agent.service GROUP[:GROUP…] -- ARGUMENTS OF fogctl`, it joins the control groups of
its part of the control node and becomes fogctl.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from fogctl.errors import FogError
from fogctl.runtime import supervised
from fogctl.runtime.service import Service, Services
from fogctl.testbed.running import Running

PART = "agent"


def name(app: str) -> str:
    """The name of the service that is an app's agent."""
    return f"agent.{app}"


def service(running: Running, app: str, arguments: Sequence[str]) -> Service:
    """The agent of an app as a service that runs `fogctl` with these arguments."""
    node = supervised.node(running.testbed)
    groups = ":".join(running.part_groups(node, PART))
    argv = (sys.executable, "-P", "-m", "fogctl.agent.service", groups, "--", *arguments)
    environment = (("FOGCTL_STATE_DIR", str(running.state.folder.parent)),)
    return Service(name(app), node, argv, environment, part=PART, on_host=True)


def folder(running: Running, app: str) -> Path:
    """Where the agent of an app keeps its state."""
    return running.state.folder / "agents" / app


def lock_folder(running: Running, app: str) -> Path:
    """Where the agent of an app holds its lock while it is at work."""
    return running.state.folder / "locks" / "agents" / app


def forget(running: Running, app: str) -> None:
    """The agent has done what it was started for: nobody shall start it again when it ends."""
    services = Services(running)
    if services.get(name(app)) is not None:
        with contextlib.suppress(FogError):  # it says that the agent still runs: this is the agent
            services.stop(name(app), signals=())


def main(groups: Sequence[str], arguments: Sequence[str]) -> None:
    """Join the control groups and become fogctl."""
    for group in groups:
        Path(group, "cgroup.procs").write_text(str(os.getpid()))
    os.execv(sys.executable, [sys.executable, "-P", "-m", "fogctl", *arguments])


if __name__ == "__main__":
    main(sys.argv[1].split(":"), sys.argv[3:])
