"""The agent's settings as a user writes them: how often it looks, its policy, and its guard rails."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from fogctl.config import source
from fogctl.config.fields import Entry, InstantS, LossFraction, PositiveShare
from fogctl.config.units import quoted
from fogctl.config.validate import validate
from fogctl.metrics.values import WINDOW_S

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_PERIOD = re.compile(
    r"(?:(mon|tue|wed|thu|fri|sat|sun) )?([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)"
)


def _period(raw: object) -> str:
    text = str(raw).strip().casefold() if isinstance(raw, str) else ""
    if not _PERIOD.fullmatch(text):
        shown = quoted(raw) if isinstance(raw, str) else "that"
        raise ValueError(f'{shown} is not a period (write for example "22:00-06:30" or "sun 08:00-12:00")')
    return text


def _above_zero(value: float) -> float:
    if value <= 0:
        raise ValueError("must be more than 0 (write for example 10s)")
    return value


Period = Annotated[
    str, BeforeValidator(_period), WithJsonSchema({"type": "string", "pattern": f"^{_PERIOD.pattern}$"})
]
_Seconds = Annotated[InstantS, AfterValidator(_above_zero)]
_Count = Annotated[int, Field(ge=1, le=1_000_000)]


class StageLimits(Entry):
    """Limits of one stage; what is not given is as for every stage."""

    min_replicas: _Count | None = None
    max_replicas: _Count | None = None


class Guard(Entry):
    """What keeps a policy from doing harm. Times are those of the target's clock."""

    window: _Seconds = Field(default=WINDOW_S, description="how far back metrics and lag trends look")
    stale_after: _Seconds = Field(
        default=60.0, description="metrics older than this, and stages that do not answer, are not acted on"
    )
    stabilise: InstantS = Field(
        default=30.0, description="after a change of replicas, none of the same stage for this long"
    )
    stabilise_share: InstantS = Field(
        default=5.0, description="after a change of shares, none of the same stage for this long"
    )
    min_replicas: _Count = Field(default=1, description="of each stage")
    max_replicas: _Count | None = Field(default=None, description="of each stage; as many as there are nodes")
    stages: dict[str, StageLimits] = Field(default_factory=dict, description="limits of single stages")
    most_added: _Count = Field(default=4, description="replicas a stage may gain in one step")
    most_removed: _Count = Field(default=4, description="replicas a stage may lose in one step")
    largest_share_step: PositiveShare = Field(
        default=0.5, description="by how much a share may change in one step", examples=["50%"]
    )
    scale_in_delay: InstantS = Field(
        default=60.0,
        description="replicas are removed only if that was asked for throughout this time; "
        "of what was asked for meanwhile, the least removal is made, once",
    )
    headroom: LossFraction = Field(
        default=0.1, description="capacity beyond the arrival rate", examples=["10%"]
    )
    catch_up: _Seconds = Field(
        default=120.0, description="a backlog, and what piles up during a change, is worked off within this"
    )
    pause_while_catching_up: bool = Field(
        default=True, description="no change of replicas while a backlog shrinks fast enough"
    )
    ineffective_after: _Count = Field(
        default=2, description="so many additions in a row without gain, and no more are made for a while"
    )
    least_gain: LossFraction = Field(
        default=0.05, description="what an addition must gain to count as effective", examples=["5%"]
    )
    ineffective_pause: InstantS = Field(default=600.0, description="how long none are made then")
    excluded: list[Period] = Field(
        default_factory=list, description="daily or weekly periods (UTC) in which nothing is changed"
    )
    host_memory_free: LossFraction = Field(
        default=0.05, description="with less of the host's memory free, nothing is added", examples=["5%"]
    )
    node_memory_free: LossFraction = Field(
        default=0.05, description="no replica goes to a node with less memory free", examples=["5%"]
    )
    cool_off: InstantS = Field(
        default=60.0, description="after a failed change, none of the same stage; doubles while they fail"
    )

    @model_validator(mode="after")
    def _possible(self) -> Guard:
        for stage in ("every stage", *self.stages):
            least, most = self.limits(stage)
            if most is not None and least > most:
                raise ValueError(f"{stage} would have at least {least} and at most {most} replicas")
        return self

    def limits(self, stage: str) -> tuple[int, int | None]:
        """The least and the most replicas of a stage; None: as many as there are nodes."""
        own = self.stages.get(stage, StageLimits())
        return own.min_replicas or self.min_replicas, own.max_replicas or self.max_replicas


class AgentSettings(Entry):
    """What `fogctl agent run --config FILE` reads."""

    every: _Seconds = Field(
        default=10.0, description="how often the agent looks and decides", examples=["10s"]
    )
    options: dict[str, Any] = Field(default_factory=dict, description="the policy's own options")
    guard: Guard = Field(default_factory=Guard, description="the guard rails")


def load(file: Path) -> AgentSettings:
    """The settings in a YAML file; FogError in one sentence a problem."""
    return validate(source.read(file, "agent configuration"), AgentSettings)
