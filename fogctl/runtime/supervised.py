"""Whether a testbed's supervisor is awake, and waking it: what every command does that relies on it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from fogctl.testbed import lock
from fogctl.testbed.model import Role, Testbed
from fogctl.testbed.running import Running

PART = "supervisor"
"""The part of the control node that the supervisor lives in; it survives the node's power loss."""
MARK = "FOGCTL_SERVICE"


def node(testbed: Testbed) -> str:
    """The node whose control group the supervisor lives in: the control node, else the first."""
    return next((node.name for node in testbed.nodes if node.role is Role.control), testbed.nodes[0].name)


def lock_folder(running: Running) -> Path:
    """Where the supervisor holds its lock for as long as it lives."""
    return running.state.folder / "locks" / "supervisor"


def awake(running: Running) -> bool:
    """Whether a supervisor watches the testbed."""
    return lock.holder(lock_folder(running)) is not None


def wake(running: Running) -> None:
    """Have a supervisor watch the testbed. Two at once do no harm: the second ends at once."""
    if awake(running):
        return
    log = running.state.folder / "logs" / "supervisor.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    environment = {key: value for key, value in os.environ.items() if key != MARK}
    argv = [sys.executable, "-P", "-m", "fogctl.runtime.supervisor"]
    with log.open("ab") as output:
        subprocess.Popen(
            [*argv, running.testbed.name, str(running.state.folder.parent)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            cwd="/",
            start_new_session=True,
        )
