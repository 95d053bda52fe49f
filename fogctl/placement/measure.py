"""Measuring an app's profile on a running testbed: CPU counters, batches' progress, what topics hold."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from fogctl.errors import FAILED, REFUSED, FogError
from fogctl.metrics.batch import read_batch
from fogctl.metrics.groups import NodeGroups
from fogctl.metrics.node import Reading
from fogctl.metrics.values import StageMetrics
from fogctl.placement.profile import Profile
from fogctl.placement.topics import Topics
from fogctl.placement.window import CpuUse, Written, stage_profile
from fogctl.runtime.app import App
from fogctl.runtime.deployment import Deployment
from fogctl.runtime.operate import Apps
from fogctl.runtime.quota import part
from fogctl.runtime.virtual_ground import VirtualGround
from fogctl.testbed.running import Running

_LOOK_EVERY_S = 0.5
_BATCHES_OF_PATIENCE = 3.0
_LEAST_PATIENCE_S = 10.0
_WINDOW_GROWS_TO = 4.0
"""Times what was asked for, and no less than the patience with one batch: batches that take longer than the
window, and what they hand on to the next stage, are waited for."""

Tick = Callable[[float], None]
"""Told how many seconds of the window are over."""


@dataclass(frozen=True, slots=True)
class Look:
    """The counters at one end of the window."""

    at_s: float
    nodes: Mapping[str, Reading]
    ends: Mapping[str, int]
    """By output topic, the records it ever held."""


def measure(apps: Apps, name: str, window_s: float, tick: Tick = lambda _: None) -> Profile:
    """What a record costs in each stage of a deployed app, over the seconds to come.

    The window is longer than asked for if records are on their way and a stage has not had any yet.
    FogError: exit 2 if it is not deployed, exit 3 if a stage processed nothing or the app was changed.
    """
    before = deployed(apps, name)
    app = apps.app(name)
    running = _emulated(apps)
    with Topics.open(apps.ground.kafka()) as topics:
        outputs = [app.topic(stage.output) for stage in app.stages]
        first = _look(running, before, topics, outputs)
        longest_s = max(window_s * _WINDOW_GROWS_TO, _patience_s(app))
        while (passed_s := time.time() - first.at_s) < window_s or (
            passed_s < longest_s and _on_their_way(apps, before, first.at_s)
        ):
            tick(passed_s)
            time.sleep(min(_LOOK_EVERY_S, window_s - passed_s) if passed_s < window_s else _LOOK_EVERY_S)
        last = _look(running, before, topics, outputs)
        window_s = last.at_s - first.at_s
        seen = {each.stage: each for each in apps.ground.reader(window_s).stages(name)}
        sizes = {topic: topics.mean_bytes(topic) for topic in outputs}
    if deployed(apps, name) != before:
        raise FogError(f"{name} was changed while it was measured", hint="measure again", exit_code=REFUSED)
    _let_batches_end(apps, app, last.at_s)
    stages, idle = [], []
    for placement in before.stages:
        stage = placement.stage
        topic = app.topic(app.stage(stage).output)
        made = stage_profile(
            stage,
            apps.ground.progress(name, stage, first.at_s),
            began_s=first.at_s,
            ended_s=last.at_s,
            cpu=[cpu_use(node, part(name, stage), first, last) for node in placement.nodes],
            written=Written(last.ends[topic] - first.ends[topic], sizes[topic]),
            busyness=seen[stage].busyness if stage in seen else 0.0,
        )
        if made is None:
            idle.append(stage)
        else:
            stages.append(made)
    if idle:
        raise FogError(
            f"{', '.join(idle)} of {name} processed nothing in {window_s:.0f} s, "
            "so a record's cost is unknown",
            hint="send some meanwhile: fogctl trace replay; or measure for longer: --for 2min",
            exit_code=REFUSED,
        )
    ended = datetime.fromtimestamp(last.at_s, UTC).isoformat(timespec="seconds")
    return Profile(app=name, measured_at=ended, window_s=round(window_s, 3), stages=stages)


def deployed(apps: Apps, name: str) -> Deployment:
    """That app's deployment; FogError with exit 2 if there is none."""
    found = {each.app: each for each in apps.deployments()}
    if name not in found:
        known = ", ".join(found) or "none"
        raise FogError(
            f"app {name} is not deployed, so there is nothing to measure",
            hint=f"deployed: {known}; fogctl app deploy {name} --place spread",
        )
    return found[name]


def cpu_use(node: str, within: str, first: Look, last: Look) -> CpuUse:
    """What a part of a node used between two looks; FogError if it was not there at both.

    A part that was made anew counts from 0 again: what it used before is lost, and so is the measurement.
    """
    begin, end = first.nodes.get(node), last.nodes.get(node)
    used = None
    if (
        begin is not None
        and end is not None
        and {within} <= begin.cpu_s_by_part.keys() & end.cpu_s_by_part.keys()
    ):
        used = end.cpu_s_by_part[within] - begin.cpu_s_by_part[within]
    if begin is None or end is None or used is None or used < 0:
        raise FogError(
            f"the replica {within} on {node} was not there all the time",
            hint="fogctl app status shows whether it runs; measure again",
            exit_code=REFUSED,
        )
    return CpuUse(node, used, end.at_s - begin.at_s)


def _look(running: Running, of: Deployment, topics: Topics, outputs: Sequence[str]) -> Look:
    if running.hierarchies.usage is None:
        raise FogError(
            "this host does not count CPU by control group", hint="fogctl doctor", exit_code=FAILED
        )
    groups = NodeGroups(running.testbed.name, running.hierarchies)
    names = dict.fromkeys(node for placement in of.stages for node in placement.nodes)
    ends = {topic: topics.end(topic) for topic in outputs}
    at_s = time.time()
    readings = {node: reading for node in names if (reading := groups.read(node)) is not None}
    return Look(at_s, readings, ends)


def _patience_s(app: App) -> float:
    """How long a batch may take before nobody waits for it: a few times what the app allows it."""
    longest_s = max(stage.freshness_ms for stage in app.stages) / 1000
    return max(_LEAST_PATIENCE_S, _BATCHES_OF_PATIENCE * longest_s)


def _on_their_way(apps: Apps, of: Deployment, since_s: float) -> bool:
    """Whether a stage has finished no records since then, while records wait in it or before it."""
    idle = [
        placement.stage
        for placement in of.stages
        if not any(read_batch(each).rows for each in apps.ground.progress(of.app, placement.stage, since_s))
    ]
    return bool(idle) and any(stage.lag > 0 for stage in apps.ground.reader().stages(of.app))


def _let_batches_end(apps: Apps, app: App, ended_s: float) -> None:
    """Wait for the batches that ran when the window ended: a batch tells its rows when it is over.

    In vain only if one takes much longer than its freshness; its part of the window then does not count.
    """
    reader = apps.ground.reader()
    deadline = time.monotonic() + _patience_s(app)

    def over(seen: StageMetrics) -> bool:
        newest = seen.newest_batch_at_s or 0.0
        return seen.at_s > ended_s and (newest >= ended_s or seen.lag == 0)

    while time.monotonic() < deadline and not all(map(over, reader.stages(app.name))):
        time.sleep(_LOOK_EVERY_S)


def _emulated(apps: Apps) -> Running:
    """The testbed, whose control groups count CPU; FogError if its nodes are not emulated here."""
    if not isinstance(apps.ground, VirtualGround):
        raise FogError(
            f"testbed {apps.ground.testbed.name} has nodes elsewhere, and their control groups are not read",
            hint="measure the app's profile on a virtual testbed",
        )
    return apps.ground.running
