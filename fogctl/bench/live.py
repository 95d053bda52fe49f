"""Experiments with an app on a virtual testbed: deployed anew for each, loaded, watched, removed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fogctl.bench.bench_file import Live, Load, LoadType
from fogctl.bench.data import require_data, values
from fogctl.errors import FogError
from fogctl.planner.live import LiveMeasure
from fogctl.planner.live_lab import require_absent, usable_nodes
from fogctl.planner.measure import Window
from fogctl.runtime import app as app_files
from fogctl.runtime.app import App
from fogctl.runtime.app_options import with_options
from fogctl.runtime.operate import Apps


@dataclass(frozen=True, slots=True)
class LiveSubject:
    """An app and the nodes it may use, the first ones first."""

    apps: Apps
    app: App
    nodes: tuple[str, ...]
    load: Load
    seed: int
    say: Callable[[str], None]

    @classmethod
    def of(
        cls,
        system: Live,
        load: Load,
        seed: int,
        most: int,
        greatest: float,
        apps: Apps,
        say: Callable[[str], None],
        where: str | None = None,
    ) -> LiveSubject:
        """Checked before anything is deployed: options, data for the greatest load, nodes for the most
        replicas."""
        app = by_arrival(app_files.load(where or system.app))
        given = [f"{stage}.{name}={_text(value)}" for stage, more in system.options.items()
                 for name, value in more.items()]  # fmt: skip
        app = with_options(app, given)
        require_data(app, _keys(load, greatest))
        require_absent(apps, app)
        nodes = usable_nodes(apps, system.nodes)
        if most > len(nodes):
            raise FogError(
                f"{most} replicas need as many nodes, and there are {len(nodes)}",
                key="resources",
                hint="try fewer, or a testbed with more nodes",
            )
        apps.plan(app, {stage.name: list(nodes[:most]) for stage in app.stages})
        return cls(apps, app, nodes, load, seed, say)

    def experiment(
        self, load: float, resources: int, repetition: int, warm_up_s: float, duration_s: float
    ) -> Window:
        """Every stage on the first `resources` nodes."""
        nodes = list(self.nodes[:resources])
        data = values(self.app, _keys(self.load, load), self.seed + repetition)
        rate = self.load.rate_per_s(load)
        self.say(f"load {load:g} on {', '.join(nodes)}: deploying {self.app.name}")
        self.apps.deploy(self.app, {stage.name: nodes for stage in self.app.stages})
        try:
            replicas = {stage.name: len(nodes) for stage in self.app.stages}
            measure = LiveMeasure(self.apps, self.app, data, replicas)
            self.say(
                f"load {load:g}: {rate:,.0f} records/s, {warm_up_s:g} s unseen, {duration_s:g} s looked at"
            )
            measure.run(rate, warm_up_s)
            return measure.run(rate, duration_s)
        finally:
            self.apps.remove(self.app.name)


def _keys(load: Load, value: float) -> int:
    return int(value) if load.by is LoadType.keys else load.keys


def by_arrival(app: App) -> App:
    """The app with the time of arrival as the time that counts, in stages that know the option."""
    known = [stage.name for stage in app.stages if "time" in dict(stage.options)]
    return with_options(app, [f"{name}.time=arrival" for name in known])


def _text(value: str | int | float | bool) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
