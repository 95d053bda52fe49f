"""The files of a benchmark: benchmark.yaml, what is measured; execution.yaml, at which loads, how often."""

from __future__ import annotations

import re
from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, RootModel, WithJsonSchema, model_validator

from fogctl.config.fields import Entry, InstantS, LossFraction, PositiveDelayMs
from fogctl.config.units import quoted

MOST_VALUES = 200
LEAST_LOOKED_S = 10.0
"""In less there are too few looks at the lag for any objective to be met."""
_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")


class LoadType(StrEnum):
    """What grows with the load."""

    rate = "rate"
    keys = "keys"


class SloKind(StrEnum):
    """What must hold for a load to count as sustained."""

    lag_trend = "lag-trend"
    lag_trend_ratio = "lag-trend-ratio"
    processed = "processed"


class Metric(StrEnum):
    """What is asked for."""

    demand = "demand"
    capacity = "capacity"


class Strategy(StrEnum):
    """In which order experiments are made."""

    full = "full"
    linear = "linear"
    binary = "binary"
    guided = "guided"


def _name(raw: object) -> str:
    if not isinstance(raw, str) or not _NAME.fullmatch(raw):
        raise ValueError("must be 1 to 40 lower-case letters, digits and hyphens, a letter first")
    return raw


def _positive(raw: object) -> float:
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not 0 < raw < float("inf"):
        shown = quoted(str(raw)) if isinstance(raw, str | int | float) else "that"
        raise ValueError(f"must be a number above 0, not {shown}")
    return float(raw)


def _ascending(values: list[float]) -> list[float]:
    for before, after in pairwise(values):
        if after <= before:
            raise ValueError(f"must ascend, but {after:g} follows {before:g} (sort them, each once)")
    return values


def _long_enough(seconds: float) -> float:
    if seconds < LEAST_LOOKED_S:
        raise ValueError(
            f"must be {LEAST_LOOKED_S:g}s or more, or no objective can be met: the lag is looked at "
            "about once a second (write for example 240s)"
        )
    return seconds


def _some_time(seconds: float) -> float:
    if seconds <= 0:
        raise ValueError("must be more than 0 (write for example 60s)")
    return seconds


Length = Annotated[InstantS, AfterValidator(_some_time)]
Positive = Annotated[
    float, BeforeValidator(_positive), WithJsonSchema({"type": "number", "exclusiveMinimum": 0})
]
Values = Annotated[list[Positive], Field(min_length=1, max_length=MOST_VALUES), AfterValidator(_ascending)]
Name = Annotated[
    str, BeforeValidator(_name), WithJsonSchema({"type": "string", "pattern": f"^{_NAME.pattern}$"})
]


class Simulated(Entry):
    """A micro-batch engine in numbers: needs nothing, answers in seconds."""

    rate_of_one: Positive = Field(description="records a second of one replica", examples=[1000])
    growth: Annotated[float, Field(ge=0.1, le=1.5)] = Field(
        default=1.0, description="n replicas manage n^growth times as much"
    )
    fixed: PositiveDelayMs = Field(default=500.0, description="what a batch takes without rows")
    freshness: PositiveDelayMs = Field(default=5000.0, description="how long a batch may take")
    jitter: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.05, description="by how much batches vary in length"
    )

    @model_validator(mode="after")
    def _room_for_rows(self) -> Simulated:
        if self.fixed >= self.freshness:
            raise ValueError("needs a freshness above fixed, or a batch has no time for rows")
        return self


class Live(Entry):
    """An app on a virtual testbed that is up."""

    app: str = Field(description="an app that ships, or a folder with an app.yaml", examples=["uc3"])
    options: dict[str, dict[str, str | int | float | bool]] = Field(
        default_factory=dict, description="options of stages, instead of what the app says"
    )
    testbed: str | None = Field(default=None, description="its testbed.yaml, relative to this file")
    nodes: list[str] = Field(
        default_factory=list,
        description="which nodes may be used, in this order; all edge nodes if not given",
    )


class System(Entry):
    """The system under test: one of the two."""

    simulated: Simulated | None = Field(default=None, description="a simulated engine")
    live: Live | None = Field(default=None, description="an app on a testbed")

    @model_validator(mode="after")
    def _one(self) -> System:
        if (self.simulated is None) == (self.live is None):
            raise ValueError("needs one of simulated and live")
        return self


class Load(Entry):
    """What grows, and what stays as it is."""

    by: LoadType = Field(strict=False, description="rate: records a second; keys: sensors that report")
    keys: Annotated[int, Field(ge=1, le=10_000_000)] = Field(
        default=100, description="how many keys, for a load by rate"
    )
    per_key: Positive = Field(default=1.0, description="records a second of each key, for a load by keys")

    def rate_per_s(self, value: float) -> float:
        """Records a second at this load."""
        return value if self.by is LoadType.rate else value * self.per_key


class Slo(Entry):
    """One objective; a load is sustained if all hold."""

    kind: SloKind = Field(strict=False, description="lag-trend, lag-trend-ratio or processed")
    share: LossFraction | None = Field(
        default=None,
        description="of the load: what the lag may grow by a second (1%, ratio 5%); what is processed (99%)",
    )
    confidence: LossFraction = Field(default=0.95, description="of the lag's trend")

    @model_validator(mode="after")
    def _possible(self) -> Slo:
        if not 0 < self.confidence < 1:
            raise ValueError("confidence must lie between 0% and 100%, both excluded (write for example 95%)")
        if self.kind is SloKind.processed and self.limit >= 1:
            raise ValueError(
                "share of processed must be below 100%, which no run meets for sure: "
                "some of the load is always on its way (write for example 99%)"
            )
        if self.kind is SloKind.lag_trend_ratio and self.limit <= 0:
            raise ValueError(
                "share of lag-trend-ratio must be above 0%, or chance decides (write for example 5%)"
            )
        return self

    @property
    def limit(self) -> float:
        """The share, given or not."""
        usual = {SloKind.lag_trend: 0.01, SloKind.lag_trend_ratio: 0.05, SloKind.processed: 0.99}
        return usual[self.kind] if self.share is None else self.share


class BenchmarkFile(Entry):
    """benchmark.yaml: what is measured."""

    name: Name = Field(examples=["uc3-keys"], description="what reports call it")
    system: System = Field(description="the system under test")
    load: Load = Field(description="the type of load")
    resource: Literal["replicas"] = Field(default="replicas", description="the type of resource")
    slos: list[Slo] = Field(
        default_factory=lambda: [Slo(kind=SloKind.lag_trend), Slo(kind=SloKind.processed)],
        min_length=1,
        description="what must hold; lag-trend and processed unless given",
    )


class ExecutionFile(Entry):
    """execution.yaml: how often, at which loads and resources."""

    benchmark: str = Field(
        description="the benchmark.yaml, relative to this file", examples=["benchmark.yaml"]
    )
    loads: Values = Field(description="loads to try, ascending", examples=["[100, 200, 400]"])
    resources: Values = Field(description="replicas to try, ascending", examples=["[1, 2, 3]"])
    metric: Metric = Field(
        default=Metric.demand,
        strict=False,
        description="demand: the least resources for each load; capacity: the greatest load of each",
    )
    strategy: Strategy = Field(
        default=Strategy.linear,
        strict=False,
        description="full, linear, binary, or guided by the answer before",
    )
    lower_bound: bool = Field(
        default=True, description="begin each search at the answer before: a larger load never needs less"
    )
    warm_up: Length = Field(
        default=60.0, description="how long each experiment runs unseen", examples=["60s"]
    )
    duration: Annotated[Length, AfterValidator(_long_enough)] = Field(
        default=240.0, description="how long it is looked at", examples=["240s"]
    )
    repetitions: Annotated[int, Field(ge=1, le=99)] = Field(
        default=1, description="of each experiment; the median decides, so take an odd number"
    )
    seed: Annotated[int, Field(ge=0, le=2**31)] = Field(default=1, description="of the data")

    @model_validator(mode="after")
    def _whole(self) -> ExecutionFile:
        if any(value != int(value) for value in self.resources):
            raise ValueError("resources are whole numbers of replicas")
        if self.repetitions % 2 == 0:
            raise ValueError(f"repetitions must be odd, or {self.repetitions} of them may be undecided")
        return self


class BenchFile(RootModel[BenchmarkFile | ExecutionFile]):
    """Either file of a benchmark: what is measured (benchmark.yaml), or how often (execution.yaml)."""
