"""What each stage of an app needs: replicas, and load as profiled, or else the same for all. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
    """As measured; FogError if the profile is of another app or lacks a stage."""
    if profile.app != app.name:
        raise FogError(
            f"the profile is of the app {profile.app}, not of {app.name}",
            file=file,
            key="app",
            hint=f"fogctl app profile {app.name} --to FILE makes one",
        )
    found = []
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
                seen.cpu_cores,
                seen.state_bytes_per_s,
                seen.output_bytes_per_s,
                _memory(stage),
                _readers(app, stage),
            )
        )
    return tuple(found)


def _memory(stage: Stage) -> int:
    return stage.memory_bytes + BESIDE_HEAP_BYTES


def _readers(app: App, stage: Stage) -> tuple[str, ...]:
    return tuple(other.name for other in app.stages if stage.output in other.inputs)
