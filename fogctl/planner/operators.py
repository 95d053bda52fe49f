"""The operators of a job from a YAML or JSON file or from the command line: true rates and input ratios."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

from fogmodels.capacity import true_rate
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from fogctl.config.source import read
from fogctl.config.units import quoted
from fogctl.config.validate import validate
from fogctl.errors import FogError


def number(raw: object) -> float:
    """A finite number that is not negative, from a number or its text; ValueError in one sentence."""
    if isinstance(raw, bool) or not isinstance(raw, int | float | str):
        raise ValueError(f"must be a number, not {quoted(str(raw))}")
    try:
        value = float(raw)
    except (ValueError, OverflowError):
        raise ValueError(f"must be a number, not {quoted(str(raw))}") from None
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"must be finite and not negative, not {quoted(str(raw))}")
    return value


Number = Annotated[float, BeforeValidator(number)]


class Operator(BaseModel):
    """One operator: how fast a task of it is, and how much of the source's rate it sees."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(examples=["parse"])
    ratio: Number = Field(description="input rate over the source's rate", examples=[1.0])
    true_rate: Number | None = Field(None, description="events per second of one always-busy task")
    rate: Number | None = Field(None, description="measured events per second of one task")
    busyness: Number | None = Field(None, description="share of time that task was busy, 0 to 1")

    @model_validator(mode="after")
    def _one_way_to_say_it(self) -> Operator:
        measured = self.rate is not None and self.busyness is not None
        if (self.true_rate is None) != measured or (
            self.true_rate is not None and (self.rate is not None or self.busyness is not None)
        ):
            raise ValueError(f"{quoted(self.name)} needs either true_rate, or rate and busyness")
        if self.task_rate == 0 and self.ratio > 0:
            raise ValueError(f"{quoted(self.name)} has input but its rate is 0: measure it under load")
        return self

    @property
    def task_rate(self) -> float:
        """Events per second that one task can process."""
        if self.true_rate is not None:
            return self.true_rate
        return true_rate(self.rate or 0.0, self.busyness or 0.0)


class Job(BaseModel):
    """What `fogctl plan parallelism` reads."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    budget: int | None = Field(None, strict=True, description="tasks in all", examples=[16])
    operators: list[Operator] = Field(min_length=1)

    @model_validator(mode="after")
    def _names_differ(self) -> Job:
        seen: set[str] = set()
        for operator in self.operators:
            if operator.name in seen:
                raise ValueError(f"two operators are called {quoted(operator.name)}")
            seen.add(operator.name)
        return self


def read_job(file: Path) -> Job:
    """A job from YAML or JSON; FogError names the line and the key."""
    if not file.exists():
        raise FogError("no such file", file=file, hint="check the name")
    return validate(read(file, "job file"), Job)


def operator_from(text: str) -> Operator:
    """`NAME:TRUE_RATE:RATIO` from the command line."""
    parts = text.rsplit(":", 2)
    if len(parts) != 3 or not parts[0]:
        raise FogError(
            f"{quoted(text)} is not an operator",
            key="--operator",
            hint="write NAME:TRUE_RATE:RATIO, parse:1200:1",
        )
    values: list[Any] = []
    for what, part in zip(("true rate", "ratio"), parts[1:], strict=True):
        try:
            values.append(number(part))
        except ValueError as error:
            raise FogError(f"the {what} of {quoted(parts[0])} {error}", key="--operator") from None
    if values[0] == 0 and values[1] > 0:
        raise FogError(f"the true rate of {quoted(parts[0])} must be above 0", key="--operator")
    return Operator(name=parts[0], true_rate=values[0], ratio=values[1])
