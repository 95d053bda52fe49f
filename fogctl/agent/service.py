"""The agent as a service of a testbed: supervised, ended by `fogctl down`, but at work on the host.

A service begins inside its node; the agent changes nodes, so it steps out again: run as
`python -m fogctl.agent.service -- ARGUMENTS OF fogctl`, it enters the host's namespaces and becomes fogctl.
Only its control group stays the control node's.
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
from fogctl.testbed import kernel
from fogctl.testbed.running import Running

PART = "agent"
_HOST = 1
"""The process whose namespaces are the host's."""


def name(app: str) -> str:
    """The name of the service that is an app's agent."""
    return f"agent.{app}"


def service(running: Running, app: str, arguments: Sequence[str]) -> Service:
    """The agent of an app as a service that runs `fogctl` with these arguments."""
    argv = (sys.executable, "-P", "-m", "fogctl.agent.service", "--", *arguments)
    state_dir = str(running.state.folder.parent)
    environment = (("FOGCTL_STATE_DIR", state_dir),)
    return Service(name(app), supervised.node(running.testbed), argv, environment, part=PART)


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


def main(arguments: Sequence[str]) -> None:
    """Step out of the node and become fogctl."""
    for kind, flag in (("uts", kernel.NEW_HOSTNAME), ("net", kernel.NEW_NETWORK), ("mnt", kernel.NEW_MOUNTS)):
        descriptor = os.open(f"/proc/{_HOST}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
        kernel.enter(descriptor, flag)
        os.close(descriptor)
    os.execv(sys.executable, [sys.executable, "-P", "-m", "fogctl", *arguments])


if __name__ == "__main__":
    main(sys.argv[2:])
