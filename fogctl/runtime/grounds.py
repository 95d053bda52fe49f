"""The ground of a testbed that is up, by its kind: what every command uses that works on several kinds."""

from __future__ import annotations

from pathlib import Path

from fogctl.errors import FAILED, FogError
from fogctl.runtime.ground import Ground
from fogctl.testbed.model import Kind
from fogctl.testbed.state import StateFolder, state_dir


def ground_of(name: str, parent: Path | None = None) -> Ground:
    """The ground of the testbed of that name; FogError if it is not up, or only a model."""
    found = StateFolder.of(name, parent or state_dir())
    kind = found.load().testbed.kind
    if kind is Kind.virtual:
        from fogctl.runtime.virtual_ground import VirtualGround
        from fogctl.testbed.running import Running

        return VirtualGround.on(Running.load(name, parent))
    if kind is Kind.k3s:
        # Only here: the client of Kubernetes takes long to import.
        from fogctl.kube.ground import KubeGround

        return KubeGround.load(name, parent)
    raise FogError(
        f"testbed {name} is a model: nothing runs on it",
        hint="fogctl experiment run FILE --kind sim",
        exit_code=FAILED,
    )
