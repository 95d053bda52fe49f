"""What each stage of an app needs: replicas, and load as profiled, or else the same for all. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fogctl.errors import FogError
from fogctl.placement.profile import Profile
from fogctl.runtime.app import App, Stage
from fogctl.runtime.deployment import BESIDE_HEAP_BYTES


@dataclass(frozen=True, slots=True)
class StageDemand:
    """A stage to be placed; loads are those of all its replicas together, which share them evenly."""

    stage: str
    replicas: int
    cpu_cores: float
    state_bytes_per_s: float
    output_bytes_per_s: float
    memory_bytes: int
    """Of one replica: its heap and what the JVM needs beside it."""
    readers: tuple[str, ...] = ()
    """Stages that read its output."""


def neutral(app: App, replicas: Mapping[str, int]) -> tuple[StageDemand, ...]:
    """Every stage alike: a core's worth of work and a byte a second handed on, no state.

    Only the ratios count, so this says that no stage is known to be heavier than another.
    """
    return tuple(
        StageDemand(stage.name, replicas[stage.name], 1.0, 0.0, 1.0, _memory(stage), _readers(app, stage))
        for stage in app.stages
    )


def profiled(
    app: App, replicas: Mapping[str, int], profile: Profile, file: Path | None = None
) -> tuple[StageDemand, ...]:
    """As measured, at the rate that comes in; FogError if the profile is of another app or lacks a stage.

    A stage that fell behind while it was measured must do more than it did: its rate is what the stages
    before it hand on.
    """
    if profile.app != app.name:
        raise FogError(
            f"the profile is of the app {profile.app}, not of {app.name}",
            file=file,
            key="app",
            hint=f"fogctl app profile {app.name} --to FILE makes one",
        )
    found = []
    rates = _rates(app, profile)
    for stage in app.stages:
        seen = profile.stage(stage.name)
        if seen is None:
            known = ", ".join(each.stage for each in profile.stages)
            raise FogError(
                f"the profile has no stage {stage.name}",
                file=file,
                key="stages",
                hint=f"it has {known}; profile the app anew",
            )
        found.append(
            StageDemand(
                stage.name,
                replicas[stage.name],
                seen.cpu_s_per_record * rates[stage.name],
                seen.state_bytes_per_record * rates[stage.name],
                seen.output_bytes_per_record * rates[stage.name],
                _memory(stage),
                _readers(app, stage),
            )
        )
    return tuple(found)


def labelled(demands: Sequence[StageDemand], names: Mapping[str, str]) -> tuple[StageDemand, ...]:
    """The same under other names, so that stages of several apps can be told apart."""
    return tuple(
        replace(each, stage=names[each.stage], readers=tuple(names[reader] for reader in each.readers))
        for each in demands
    )


def _rates(app: App, profile: Profile) -> dict[str, float]:
    """Records a second that come into each stage that the profile has, in the order of the streams."""
    made: dict[str, float] = {}
    rates: dict[str, float] = {}
    waiting = [stage for stage in app.stages if profile.stage(stage.name) is not None]
    while waiting:
        ready = [s for s in waiting if not any(o.output in s.inputs for o in waiting)] or waiting
        for stage in ready:
            seen = profile.stage(stage.name)
            assert seen is not None
            from_stages = [made[stream] for stream in stage.inputs if stream in made]
            # What comes from outside is known by what was processed; so is the rest of a stage that has both.
            only_stages = len(from_stages) == len(stage.inputs) and sum(from_stages) > 0
            rate = sum(from_stages) if only_stages else seen.records_per_s
            rates[stage.name], made[stage.output] = rate, rate * seen.output_records_per_record
        waiting = [stage for stage in waiting if stage not in ready]
    return rates


def _memory(stage: Stage) -> int:
    return stage.memory_bytes + BESIDE_HEAP_BYTES


def _readers(app: App, stage: Stage) -> tuple[str, ...]:
    return tuple(other.name for other in app.stages if stage.output in other.inputs)
