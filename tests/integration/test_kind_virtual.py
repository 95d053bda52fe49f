"""Emulated nodes behave as every kind of testbed does."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.register_assert_rewrite("kind_suite")
from kind_suite import *  # noqa: E402, F403
from kind_suite import NODES  # noqa: E402

from fogctl.testbed.state import StateFolder  # noqa: E402

pytestmark = [pytest.mark.alone, pytest.mark.timeout(600)]
ROLES = {"cloud": "role: control, board: host", "hub": "role: broker, board: host"}
SMALL = "role: edge, board: rpi4-4g, cpu: 10%, memory: 600MiB"


@dataclass(frozen=True)
class Emulated:
    """A testbed of namespaces on this host."""

    folder: Path
    state: StateFolder
    argv: Sequence[str]
    everything: Callable[[], object]

    def describe(self, nodes: Sequence[str]) -> None:
        """Write its testbed.yaml."""
        listed = "".join(f"  - {{name: {node}, {ROLES.get(node, SMALL)}}}\n" for node in nodes)
        text = f"name: {self.state.name}\nkind: virtual\nnodes:\n{listed}"
        (self.folder / "testbed.yaml").write_text(text)

    def command(self, *arguments: str) -> subprocess.Popen[str]:
        """fogctl in its folder, begun."""
        return subprocess.Popen(
            [*self.argv, *arguments],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture
def subject(
    state_dir: Path,
    tmp_path: Path,
    name: str,
    fogctl_argv: list[str],
    snapshot: Callable[[], dict[str, object]],
) -> Emulated:
    made = Emulated(tmp_path, StateFolder.of(name, state_dir), fogctl_argv, snapshot)
    made.describe(NODES)
    return made
