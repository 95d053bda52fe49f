"""A virtual testbed as a lab: an app deployed with so many tasks of each stage, and so much memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fogctl.errors import FogError
from fogctl.planner.live import LiveMeasure
from fogctl.runtime import app_variant
from fogctl.runtime.app import App
from fogctl.runtime.operate import Apps
from fogctl.testbed.model import Role


@dataclass(frozen=True, slots=True)
class LiveLab:
    """An app, data for it, and the nodes it may use. A task is a replica: an executor on its own node."""

    apps: Apps
    app: App
    nodes: tuple[str, ...]
    values: Sequence[bytes]
    folder: Path
    """Where variants of the app are written."""
    say: Callable[[str], None]
    processes: int = 1

    @property
    def stages(self) -> tuple[str, ...]:
        """The app's stages, those that read its input first."""
        sources = set(self.app.sources)
        ordered = sorted(self.app.stages, key=lambda stage: not set(stage.inputs) & sources)
        return tuple(stage.name for stage in ordered)

    @contextmanager
    def deployed(self, tasks: Mapping[str, int], memory_mb: float | None) -> Iterator[LiveMeasure]:
        """Deployed anew, on the first nodes, and removed afterwards; memory None: as app.yaml says."""
        if sum(tasks.values()) > len(self.nodes):
            raise FogError(
                f"{sum(tasks.values())} tasks need as many nodes, and there are {len(self.nodes)}",
                hint="give fewer slots, or a testbed with more nodes",
            )
        app = self.app if memory_mb is None else with_memory(self.app, memory_mb, self.folder)
        free = iter(self.nodes)
        where = {name: [next(free) for _ in range(tasks[name])] for name in self.stages}
        self.say("deploying " + ", ".join(f"{name} on {'+'.join(nodes)}" for name, nodes in where.items()))
        self.apps.deploy(app, where)
        try:
            yield LiveMeasure(self.apps, app, self.values, dict(tasks), self.processes)
        finally:
            self.apps.remove(app.name)


def usable_nodes(apps: Apps, wanted: Sequence[str]) -> tuple[str, ...]:
    """The edge nodes to use: those wanted, or all; FogError if one is none."""
    edges = tuple(node.name for node in apps.ground.testbed.nodes if node.role is Role.edge)
    if unknown := [name for name in wanted if name not in edges]:
        raise FogError(
            f"the testbed has no edge node {', '.join(unknown)}", hint=f"it has {', '.join(edges)}"
        )
    return tuple(dict.fromkeys(wanted)) or edges


def require_absent(apps: Apps, app: App) -> None:
    """FogError if the app is deployed: what is measured is deployed anew, so that its input is its own."""
    if app.name in [found.app for found in apps.deployments()]:
        raise FogError(
            f"{app.name} is deployed already", hint=f"fogctl app rm {app.name} first; it is deployed anew"
        )


def with_memory(app: App, memory_mb: float, folder: Path) -> App:
    """The app with so much memory for each executor: an app.yaml of its own in the folder."""
    memory = f"{memory_mb:g}MiB"
    return app_variant.write(app, folder / memory, lambda stage: {**stage, "memory": memory})
