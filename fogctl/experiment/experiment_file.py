"""The shape of `experiment.yaml`: its keys, their types and their defaults."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import (
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    WithJsonSchema,
    model_validator,
)
from pydantic_core.core_schema import CoreSchema, no_info_before_validator_function

from fogctl.agent.settings import Guard
from fogctl.config.fields import Entry, InstantS, LossFraction, PositiveDelayMs, PositiveShare, node_name
from fogctl.config.units import quoted
from fogctl.runtime.app_file import Mode
from fogctl.testbed.model import Kind

MOST_REPETITIONS = 100
MOST_POLICIES = 50
_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ./()%<>=+_-]{0,39}")


def experiment_name(raw: object) -> str:
    """An experiment's name: run folders are called after it."""
    if not isinstance(raw, str) or not _NAME.fullmatch(raw):
        shown = quoted(raw) if isinstance(raw, str) else "that"
        raise ValueError(
            f"{shown} cannot name an experiment: use 1 to 40 lower-case letters, digits and hyphens, "
            "a letter first"
        )
    return raw


def _label(raw: object) -> object:
    if raw is not None and (not isinstance(raw, str) or not _LABEL.fullmatch(raw)):
        raise ValueError("must be 1 to 40 plain characters (write for example mead p95)")
    return raw


def _positive_number(raw: object) -> float:
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not 0 < raw < float("inf"):
        shown = quoted(str(raw)) if isinstance(raw, str | int | float) else "that"
        raise ValueError(f"must be a number above 0, not {shown}")
    return float(raw)


_Positive = Annotated[
    float, BeforeValidator(_positive_number), WithJsonSchema({"type": "number", "exclusiveMinimum": 0})
]
_Node = Annotated[str, BeforeValidator(node_name), WithJsonSchema({"type": "string"})]
_Nodes = Annotated[int, Field(ge=1, le=1000)]
_Steps = Annotated[int, Field(ge=0, le=10_000_000)]
_Records = Annotated[int, Field(ge=10, le=10_000_000)]
_Copies = Annotated[int, Field(ge=1, le=100)]
_Repetitions = Annotated[int, Field(ge=1, le=MOST_REPETITIONS)]
_Seed = Annotated[int, Field(ge=0, le=2**31)]
_Kind = Annotated[Kind, Field(strict=False)]


@dataclass(frozen=True, slots=True)
class _OrWord:
    """A mapping, or one word that stands for the mapping with that word under `key`."""

    key: str

    def __get_pydantic_core_schema__(self, kind: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_before_validator_function(self._parsed, handler(kind))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [{"type": "string"}, handler(schema)]}

    def _parsed(self, raw: object) -> object:
        return {self.key: raw} if isinstance(raw, str) else raw


class TestbedChoice(Entry):
    """Where it runs: a testbed that ships, or a testbed.yaml."""

    __test__ = False  # not a test, whatever pytest thinks of the name

    use: str = Field(
        description="a testbed that ships (gesscale, city, lab), or a testbed.yaml relative to this file",
        examples=["gesscale"],
    )
    kind: _Kind | None = Field(default=None, description="instead of the testbed's own kind")
    nodes: _Nodes | None = Field(default=None, description="how many edge nodes, for a testbed that ships")


class AppChoice(Entry):
    """What runs: an app that ships, or a folder with an app.yaml."""

    use: str = Field(description="an app that ships, or a folder relative to this file", examples=["taxi"])
    work: _Steps | None = Field(
        default=None, description="CPU steps per record, for the stages that have the option work"
    )
    mode: Annotated[Mode, Field(strict=False)] | None = Field(
        default=None, description="how every stage runs, instead of what the app says"
    )
    partitions: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        default=None, description="partitions of every stage, instead of what the app says"
    )
    start: dict[str, list[_Node]] = Field(
        default_factory=dict, description="nodes of each stage at the start; one of the nearest if not given"
    )


class MadeRides(Entry):
    """Taxi rides made from the seed: New York's daily shape."""

    days: _Positive = Field(default=2.0, description="how many days")
    rides_per_day: _Positive = Field(default=500_000.0)
    start: str = Field(default="2013-05-01T00:00:00", description="when the first day begins")
    dirt: LossFraction = Field(default=0.0, description="share of rides that are spoiled", examples=["1%"])


class Burst(Entry):
    """A stretch of arrivals from one Markovian arrival process."""

    lasts: InstantS = Field(description="how long", examples=["300s"])
    rate: _Positive = Field(description="records a second", examples=["40"])
    scv: _Positive = Field(
        default=1.0, description="squared coefficient of variation of the gaps; 1 is Poisson, above: bursty"
    )
    decay: LossFraction = Field(
        default=0.0,
        description="how much of the correlation of two gaps is left one gap later",
        examples=["95%"],
    )

    @model_validator(mode="after")
    def _possible(self) -> Burst:
        if self.lasts <= 0:
            raise ValueError("lasts must be more than 0 (write for example 300s)")
        if self.scv < 1:
            raise ValueError(
                "an scv below 1 is smoother than Poisson, which a burst is not (write 1 or more)"
            )
        if self.decay >= 1:
            raise ValueError("the decay must be below 100%: such a correlation never ends")
        return self


class Recorded(Entry):
    """Recorded arrivals: only their instants matter."""

    file: str = Field(
        description="CSV, npz, npy or text of times, relative to this file", examples=["bc.npz"]
    )
    column: str | None = Field(default=None, description="column of a CSV, or array of an npz")
    unit: str = Field(default="s", pattern="^(s|ms|us|ns)$", description="s, ms, us or ns")
    rate: _Positive | None = Field(
        default=None, description="play it so that this many records a second come on average"
    )
    records: _Records | None = Field(default=None, description="only the first so many")


class TraceChoice(Entry):
    """What is sent: one of make, file, bursts, recorded."""

    make: MadeRides | None = Field(default=None, description="taxi rides made from the seed")
    file: str | None = Field(
        default=None, description="taxi rides from a file (fogctl trace info)", examples=["rides.parquet"]
    )
    bursts: list[Burst] | None = Field(default=None, min_length=1, max_length=1000)
    recorded: Recorded | None = Field(default=None)
    speed: _Positive = Field(
        default=1.0, description="seconds of the trace in each second of the run", examples=["192"]
    )
    copies: _Copies = Field(default=1, description="how often each record is sent")

    @model_validator(mode="after")
    def _one_source(self) -> TraceChoice:
        given = [key for key in ("make", "file", "bursts", "recorded") if getattr(self, key) is not None]
        if len(given) != 1:
            many = f"names {', '.join(given)}" if given else "names no source"
            raise ValueError(f"{many} (give exactly one of make, file, bursts, recorded)")
        return self


class FaultChoice(Entry):
    """What goes wrong on purpose while the trace is replayed, with every policy."""

    at: LossFraction = Field(description="when, as a part of the trace", examples=["60%"])
    kill: _Node | None = Field(default=None, description="a node that loses its power", examples=["pi2"])
    cut: _Node | None = Field(default=None, description="a node that is cut off from all others")
    lasts: InstantS = Field(default=15.0, description="how long", examples=["15s"])

    @model_validator(mode="after")
    def _one_thing(self) -> FaultChoice:
        if (self.kill is None) == (self.cut is None):
            raise ValueError("names what is to go wrong (give kill or cut, and a node)")
        if self.lasts <= 0:
            raise ValueError("lasts must be more than 0 (write for example 15s)")
        return self


class Goal(Entry):
    """What the response time of a path shall be; the report says whether it was met."""

    mean: PositiveDelayMs | None = Field(default=None, examples=["200ms"])
    p95: PositiveDelayMs | None = Field(default=None, examples=["500ms"])


class PolicyChoice(Entry):
    """A policy and its options."""

    name: str = Field(description="a policy (fogctl agent policies)", examples=["gesscale"])
    label: Annotated[str | None, BeforeValidator(_label)] = Field(
        default=None, description="what reports call it; needed where one policy is used twice"
    )
    options: dict[str, Any] = Field(default_factory=dict, description="the policy's own options")
    goal: Goal | None = Field(default=None, description="instead of the experiment's goal")


class Tolerances(Entry):
    """Beyond these a run is refused, or says that it cannot be trusted."""

    rtt: PositiveDelayMs | None = Field(
        default=None, description="how far a measured RTT may be off; the testbed's if not given"
    )
    host_busy: PositiveShare = Field(
        default=0.95, description="share of the host's CPU above which a second counts as saturated"
    )
    saturated: LossFraction = Field(
        default=0.05, description="share of saturated seconds above which the report warns", examples=["5%"]
    )
    schedule: PositiveDelayMs = Field(
        default=500.0, description="how late the replay's p99 may be before the report warns"
    )


class ExperimentFile(Entry):
    """experiment.yaml."""

    name: Annotated[str, BeforeValidator(experiment_name)] = Field(
        description="run folders are called after it", examples=["gesscale"]
    )
    testbed: Annotated[TestbedChoice, _OrWord("use")] = Field(examples=["gesscale"])
    app: Annotated[AppChoice, _OrWord("use")] = Field(examples=["taxi"])
    trace: Annotated[TraceChoice, _OrWord("file")] = Field(examples=["{make: {days: 2}, speed: 192}"])
    policies: list[Annotated[PolicyChoice, _OrWord("name")]] = Field(
        min_length=1, max_length=MOST_POLICIES, examples=["[thr-nlunaware, gesscale]"]
    )
    guard: Guard = Field(
        default_factory=Guard, description="the agent's guard rails, the same for every policy"
    )
    every: InstantS = Field(default=10.0, description="how often the agent decides", examples=["10s"])
    faults: list[FaultChoice] = Field(
        default_factory=list,
        max_length=100,
        description="what goes wrong on purpose during each replay",
        examples=["[{at: 60%, kill: pi2, lasts: 15s}]"],
    )
    repetitions: _Repetitions = Field(default=1)
    seed: _Seed = Field(default=1, description="of the trace and of what policies choose at random")
    calibrate: bool = Field(
        default=False, description="measure throughput at a few points before the first policy"
    )
    drain: InstantS = Field(
        default=600.0, description="how long to wait for the last record after the trace", examples=["10min"]
    )
    goal: Goal = Field(default_factory=Goal)
    tolerances: Tolerances = Field(default_factory=Tolerances)
