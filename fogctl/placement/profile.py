"""An app's profile: what a record costs in each of its stages. A JSON file with the units in its names."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from fogctl.config.source import read
from fogctl.config.units import quoted
from fogctl.config.validate import validate
from fogctl.errors import FogError
from fogctl.planner.operators import number

Number = Annotated[float, BeforeValidator(number)]
"""Finite and not negative."""


class StateSource(StrEnum):
    """Where the figures of a stage's state come from."""

    none = "none"
    """It keeps none."""
    rocksdb = "rocksdb"
    """RocksDB counts the bytes it reads and writes."""
    rows = "rows"
    """The store in memory counts rows alone: rows touched times a row's mean size."""


class ReplicaProfile(BaseModel):
    """What one replica did."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    node: str
    cpu_s: Number
    cpu_used_cores: Number


class StageProfile(BaseModel):
    """What a stage did in the window, in all and for each record that it took in."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stage: str
    records: Number
    records_per_s: Number
    records_per_s_per_replica: Number
    cpu_s_per_record: Number
    state_read_bytes_per_record: Number = 0.0
    state_written_bytes_per_record: Number = 0.0
    state_source: StateSource = Field(default=StateSource.none, strict=False)
    output_records_per_record: Number = 0.0
    output_bytes_per_record: Number = 0.0
    busyness: Number = Field(0.0, description="executors' run time over slots × time, 0 to 1")
    replicas: list[ReplicaProfile] = Field(default_factory=list)

    @property
    def state_bytes_per_record(self) -> float:
        """State read and written."""
        return self.state_read_bytes_per_record + self.state_written_bytes_per_record


class Profile(BaseModel):
    """What `fogctl app profile` writes and `fogctl app deploy --place` reads."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    app: str
    measured_at: str = Field(description="when the window ended, ISO 8601")
    window_s: Number
    stages: list[StageProfile] = Field(min_length=1)

    @model_validator(mode="after")
    def _names_differ(self) -> Profile:
        seen: set[str] = set()
        for stage in self.stages:
            if stage.stage in seen:
                raise ValueError(f"two stages are called {quoted(stage.stage)}")
            seen.add(stage.stage)
        return self

    def stage(self, name: str) -> StageProfile | None:
        """That stage's figures; None if it has none of that name."""
        return next((stage for stage in self.stages if stage.stage == name), None)


def read_profile(file: Path) -> Profile:
    """A profile from its file; FogError names the line and the key."""
    if not file.exists():
        raise FogError("no such file", file=file, hint="fogctl app profile APP --to FILE makes one")
    return validate(read(file, "profile"), Profile)


def write_profile(profile: Profile, file: Path) -> None:
    """Write it in one piece."""
    fresh = file.with_name(f"{file.name}.new")
    try:
        fresh.write_text(json.dumps(profile.model_dump(mode="json"), indent=1) + "\n", encoding="utf-8")
        fresh.replace(file)
    except OSError as error:
        raise FogError(f"cannot write the profile: {error.strerror}", file=file) from None
