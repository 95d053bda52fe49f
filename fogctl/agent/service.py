"""The agent as a service of a testbed: started again if it dies, ended by `fogctl down`.

On emulated nodes the testbed's supervisor keeps it: run as `python -m fogctl.agent.service GROUP[:GROUP…] --
ARGUMENTS OF fogctl`, it joins the control groups of its part of the control node and becomes fogctl, at work
on the host. For a cluster it is a job in the background of this machine.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fogctl.errors import FogError
from fogctl.runtime import supervised
from fogctl.runtime.ground import Ground
from fogctl.runtime.service import Service, Services
from fogctl.testbed.model import Kind
from fogctl.testbed.running import Running

PART = "agent"


class AgentServices(Protocol):
    """The agents of a testbed that run in the background."""

    def start(self, app: str, arguments: Sequence[str]) -> int:
        """Have `fogctl` run with these arguments as the app's agent; answers its process."""
        ...

    def wanted(self, app: str) -> bool:
        """Whether an app's agent should run."""
        ...

    def stop(self, app: str) -> None:
        """End it; a change under way is finished first."""
        ...

    def forget(self, app: str) -> None:
        """The agent has done what it was started for: nobody shall start it again when it ends."""
        ...

    def log(self, app: str) -> Path:
        """Where its output goes."""
        ...


def services_of(ground: Ground) -> AgentServices:
    """Those of a testbed, by its kind."""
    if ground.testbed.kind is Kind.k3s:
        from fogctl.kube.agents import ClusterAgents

        return ClusterAgents(ground.folder)
    running = Running.load(ground.testbed.name, ground.folder.parent)
    return EmulatedAgents(running, Services(running))


@dataclass(frozen=True, slots=True)
class EmulatedAgents:
    """Services of a virtual testbed."""

    running: Running
    services: Services

    def start(self, app: str, arguments: Sequence[str]) -> int:
        """Under the testbed's supervisor."""
        return self.services.ensure(service(self.running, app, arguments))

    def wanted(self, app: str) -> bool:
        """By the list of services."""
        return self.services.get(name(app)) is not None

    def stop(self, app: str) -> None:
        """End it and its record."""
        self.services.stop(name(app))

    def forget(self, app: str) -> None:
        """Only the record goes."""
        if self.wanted(app):
            with contextlib.suppress(FogError):  # it says that the agent still runs: this is the agent
                self.services.stop(name(app), signals=())

    def log(self, app: str) -> Path:
        """As every service has one."""
        return self.services.log(name(app))


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


def folder(state: Path, app: str) -> Path:
    """Where the agent of an app keeps its state, in a testbed's state folder."""
    return state / "agents" / app


def lock_folder(state: Path, app: str) -> Path:
    """Where the agent of an app holds its lock while it is at work, in a testbed's state folder."""
    return state / "locks" / "agents" / app


def main(groups: Sequence[str], arguments: Sequence[str]) -> None:
    """Join the control groups and become fogctl."""
    for group in groups:
        Path(group, "cgroup.procs").write_text(str(os.getpid()))
    os.execv(sys.executable, [sys.executable, "-P", "-m", "fogctl", *arguments])


if __name__ == "__main__":
    main(sys.argv[1].split(":"), sys.argv[3:])
