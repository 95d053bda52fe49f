"""Data at rest for the apps that ship: what their input streams are fed with, by keys, from a seed."""

from __future__ import annotations

from itertools import islice

from fogctl.errors import FogError
from fogctl.runtime.app import App

LEAST_VALUES = 20_000
"""Different values that are sent in turn; more where there are more keys."""
MOST_KEYS = 1_000_000
STREAMS = ("events", "readings", "flows", "rides", "records")
"""Inputs that there are generators for."""


def require_data(app: App, keys: int) -> str:
    """The stream that values are made for; FogError if there is no data for the app, or for so many keys."""
    if len(app.sources) != 1:
        raise FogError(
            f"{app.name} reads {', '.join(app.sources)}: only apps with one input can be loaded here"
        )
    if keys > MOST_KEYS:
        raise FogError(f"{keys:,} keys are more than the {MOST_KEYS:,} that can be kept at hand")
    (stream,) = app.sources
    if stream not in STREAMS:
        raise FogError(
            f"there is no data for the stream {stream} of {app.name}",
            hint=f"load apps that read {', '.join(STREAMS[:-1])} or {STREAMS[-1]}",
        )
    return stream


def values(app: App, keys: int, seed: int) -> list[bytes]:
    """Values for an app's input, with each of so many keys as often as any other."""
    stream = require_data(app, keys)
    count = keys * max(1, -(-LEAST_VALUES // keys))
    if stream == "events":
        from fogapps.nexmark.events import events

        return [event.line().encode() for event in events(max(count, 50_000), seed)]
    if stream == "readings":
        from fogapps.uc.readings import Sensors, readings

        depth = 3 if any(stage.function == "groups" for stage in app.stages) else 1
        return [reading.line().encode() for reading in readings(Sensors(keys, depth=depth), count, seed)]
    if stream == "flows":
        from fogapps.ospbench.flows import LANES, flows

        return [flow.line().encode() for flow in flows(keys, count * LANES, seed)]
    if stream == "rides":
        from fogctl.trace.make import MakeOptions, make

        rides = make(MakeOptions(seed, days=0.05))
        return list(islice(rides.values(0, len(rides)), LEAST_VALUES))
    return [b"%d" % number for number in range(count)]
