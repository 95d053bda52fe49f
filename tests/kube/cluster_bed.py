"""A testbed of kind k3s for tests: its file, the command line on it, and all there is on its cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from fogctl.config import testbed
from fogctl.errors import FogError
from fogctl.kube.access import Access
from fogctl.kube.cluster import Changes, Cluster
from fogctl.testbed.model import Testbed
from fogctl.testbed.state import StateFolder
from tests.kube.control_plane import ControlPlane

PATIENCE_S = 300
_PASSING = ("events", "leases", "componentstatuses", "endpoints", "endpointslices", "controllerrevisions")
"""What comes and goes by itself, whoever does what."""


@dataclass
class Bed:
    """One testbed in a folder of its own."""

    plane: ControlPlane
    folder: Path
    nodes: Sequence[str]
    """The first is the control node, the second, if there are more than two, the broker."""
    name: str = "lab"
    more: str = ""
    kubeconfig: Path | None = None
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.write()

    def write(self) -> None:
        """Its testbed.yaml."""
        roles = ["control", "broker" if len(self.nodes) > 2 else "edge"]
        entries = [
            f"  - {{name: {name}, role: {roles[place] if place < 2 else 'edge'}, board: host}}"
            for place, name in enumerate(self.nodes)
        ]
        lines = [f"name: {self.name}", "kind: k3s", "nodes:", *entries]
        self.file.write_text("\n".join([*lines, f"kube: {{config: {self.config}}}", self.more, ""]))

    @property
    def config(self) -> Path:
        """The administrator's kubeconfig."""
        return self.kubeconfig or self.plane.kubeconfig

    @property
    def file(self) -> Path:
        """Its description."""
        return self.folder / "testbed.yaml"

    @property
    def state_dir(self) -> Path:
        """Where it is remembered."""
        return self.folder / "state"

    @property
    def state(self) -> StateFolder:
        """What is remembered of it."""
        return StateFolder.of(self.name, self.state_dir)

    @property
    def space(self) -> str:
        """Its namespace."""
        return f"fog-{self.name}"

    @property
    def testbed(self) -> Testbed:
        """As its file describes it."""
        return testbed.load(self.file)

    @property
    def cluster(self) -> Cluster:
        """What brings it up and takes it down."""
        return Cluster(self.testbed, self.state_dir)

    @property
    def operator(self) -> Path:
        """The kubeconfig of its own account."""
        return Access.restricted(self.state.folder).kubeconfig

    def up(self) -> Changes:
        """Bring it up; on a busy machine a played node may be silent for a moment, which `up` refuses."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self.cluster.up()
            except FogError as error:
                if "is not ready" not in str(error) or time.monotonic() > deadline:
                    raise
            time.sleep(1)

    def command(self, *arguments: str) -> subprocess.Popen[str]:
        """fogctl in its folder, begun."""
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "fogctl", *arguments],
            cwd=self.folder,
            env={**os.environ, "FOGCTL_STATE_DIR": str(self.state_dir), **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def fogctl(self, *arguments: str, code: int = 0) -> str:
        """What fogctl says in its folder; it must end with that code."""
        (said,) = self.at_once(arguments, code=code)
        return said

    def at_once(self, *commands: Sequence[str], code: int = 0) -> list[str]:
        """The same for several commands that do not mind each other, all with that code."""
        begun = [self.command(*arguments) for arguments in commands]
        said = []
        for process, arguments in zip(begun, commands, strict=True):
            out, err = process.communicate(timeout=PATIENCE_S)
            told = f"fogctl {' '.join(arguments)}: {process.returncode}\n{out}\n{err}"
            assert process.returncode == code, told
            said.append(out + err)
        return said

    def answer(self, *arguments: str, code: int = 0) -> Any:
        """What fogctl answers as JSON."""
        process = self.command(*arguments, "-o", "json")
        out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == code, f"fogctl {' '.join(arguments)}: {process.returncode}\n{out}\n{err}"
        return json.loads(out)


def everything(plane: ControlPlane) -> dict[str, object]:
    """All objects of a cluster: identity and labels; of nodes also what else a testbed could leave behind."""
    found: dict[str, object] = {}
    kinds = _kinds(plane)
    for kind, listed in zip(kinds, plane.get(*kinds), strict=True):
        for item in listed["items"]:
            about = item["metadata"]
            key = f"{kind} {about.get('namespace', '')}/{about['name']}"
            found[key] = about["uid"], tuple(sorted(_lasting(about.get("labels") or {})))
            if kind == "/api/v1/nodes":
                notes = {key for key in about.get("annotations") or {} if "fogctl" in key}
                found[key] = found[key], tuple(sorted(notes)), bool(item["spec"].get("unschedulable"))
    return found


def _lasting(labels: dict[str, str]) -> list[tuple[str, str]]:
    """Labels but for those that a controller puts on a new node some time after it was made."""
    return [(key, value) for key, value in labels.items() if not key.startswith("beta.kubernetes.io/")]


@cache
def _kinds(plane: ControlPlane) -> tuple[str, ...]:
    """Where the API server has all objects of a kind, for every kind that can be listed and removed."""
    (groups,) = plane.get("/apis")
    roots = ["/api/v1", *(f"/apis/{each['preferredVersion']['groupVersion']}" for each in groups["groups"])]
    return tuple(
        f"{root}/{resource['name']}"
        for root, listed in zip(roots, plane.get(*roots), strict=True)
        for resource in listed["resources"]
        if {"list", "delete"} <= set(resource["verbs"]) and resource["name"] not in _PASSING
    )


def until_recorded(bed: Bed, count: int, process: subprocess.Popen[str]) -> None:
    """Return when the ledger of a testbed has so many lines, or the process has ended."""
    while process.poll() is None:
        try:
            if bed.state.ledger.read_bytes().count(b"\n") >= count:
                return
        except FileNotFoundError:
            pass


Make = Callable[..., Bed]
