"""Agents of a testbed on a cluster in the background: jobs of this machine."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fogctl.agent.service import name
from fogctl.kube.background import Job, Jobs


@dataclass(frozen=True, slots=True)
class ClusterAgents:
    """Satisfies `fogctl.agent.service.AgentServices`."""

    state: Path

    def start(self, app: str, arguments: Sequence[str]) -> int:
        """Under a keeper of its own."""
        argv = (sys.executable, "-P", "-m", "fogctl", *arguments)
        environment = (("FOGCTL_STATE_DIR", str(self.state.parent)),)
        return self._jobs.ensure(Job(name(app), argv, environment))

    def wanted(self, app: str) -> bool:
        """By the list of jobs."""
        return self._jobs.get(name(app)) is not None

    def stop(self, app: str) -> None:
        """End it and its keeper."""
        self._jobs.stop(name(app))

    def forget(self, app: str) -> None:
        """Only the record goes."""
        self._jobs.forget(name(app))

    def log(self, app: str) -> Path:
        """As every job has one."""
        return self._jobs.log(name(app))

    @property
    def _jobs(self) -> Jobs:
        return Jobs(self.state)
