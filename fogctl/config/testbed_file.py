"""The shape of `testbed.yaml`: its keys, their types and their defaults."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from fogctl.config.fields import (
    LONGEST_NAME,
    NAME_PATTERN,
    RANGE_PATTERN,
    TESTBED_PATTERN,
    DelayMs,
    Entry,
    InstantS,
    LossFraction,
    PositiveDelayMs,
    PositiveShare,
    RateBitS,
    SizeBytes,
    node_name,
    node_names,
    testbed_name,
)
from fogctl.config.hosts_section import HostEntry
from fogctl.config.kafka_section import KafkaEntry
from fogctl.config.kube_section import KubeEntry
from fogctl.testbed.model import Kind, Role
from fogctl.testbed.names import MOST_NODES

_TestbedName = Annotated[
    str,
    BeforeValidator(testbed_name),
    WithJsonSchema({"type": "string", "pattern": TESTBED_PATTERN, "maxLength": LONGEST_NAME}),
]
_Name = Annotated[
    str,
    BeforeValidator(node_name),
    WithJsonSchema({"type": "string", "pattern": NAME_PATTERN, "maxLength": LONGEST_NAME}),
]
_Names = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda raw: node_names(raw, MOST_NODES)),
    WithJsonSchema({"type": "string", "pattern": RANGE_PATTERN, "examples": ["pi1", "pi[1-10]"]}),
]


def _pair(raw: object) -> object:
    if not isinstance(raw, list) or len(raw) != 2 or not all(isinstance(name, str) and name for name in raw):
        raise ValueError("must name two ends (write for example [pi1, pi2])")
    return tuple(raw)


_Pair = Annotated[
    tuple[str, str],
    BeforeValidator(_pair),
    WithJsonSchema({"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}),
]
_Kind = Annotated[Kind, Field(strict=False)]
_Role = Annotated[Role, Field(strict=False)]


class ScaleEntry(Entry):
    """How much of the host stands for how much of a board."""

    cpu: PositiveShare = Field(
        default=1.0, description="one core of a Raspberry Pi 4 is this share of a host core", examples=["4%"]
    )
    memory: PositiveShare = Field(
        default=1.0, description="a node gets this share of its board's memory", examples=["50%"]
    )


class NodeEntry(Entry):
    """One node, or a range of equal ones."""

    name: _Names = Field(description="a host name, or a range of them", examples=['"pi[1-10]"'])
    board: str = Field(description="a board (fogctl board list), or host: not limited", examples=["rpi4-4g"])
    role: _Role = Field(default=Role.edge, examples=["edge"])
    site: _Name = Field(
        default="main",
        description="where it stands; latencies can be given between sites",
        examples=["north"],
    )
    cpu: PositiveShare | None = Field(
        default=None, description="of one host core, instead of board × scale", examples=["20%"]
    )
    memory: SizeBytes | None = Field(
        default=None, description="instead of board × scale", examples=["512MiB"]
    )


class PathEntry(Entry):
    """What lies between two ends; what is not given comes from the next weaker rule."""

    rtt: DelayMs | None = Field(
        default=None, description="round-trip time; half goes on each direction", examples=["80ms"]
    )
    jitter: DelayMs | None = Field(
        default=None, description="how far a round trip varies either way", examples=["5ms"]
    )
    loss: LossFraction | None = Field(default=None, description="lost in each direction", examples=["0.1%"])
    rate: RateBitS | None = Field(default=None, examples=["100mbit"])
    reorder: bool | None = Field(
        default=None, description="whether jitter may let packets overtake each other"
    )


class DefaultEntry(PathEntry):
    """The path between nodes about which nothing else is said."""


class BetweenEntry(PathEntry):
    """The path between two sites, or two nodes."""

    between: _Pair = Field(examples=["[pi1, pi2]"])

    @model_validator(mode="after")
    def _says_something(self) -> BetweenEntry:
        if not path_settings(self):
            raise ValueError("changes nothing (add rtt, jitter, loss, rate or reorder)")
        return self


class ChangeEntry(PathEntry):
    """A change of latency at a moment of the schedule, between two nodes or two sites."""

    at: InstantS = Field(examples=["60s"])
    between: _Pair | None = Field(default=None, description="two nodes", examples=["[pi1, pi2]"])
    sites: _Pair | None = Field(
        default=None, description="two sites: every pair of their nodes", examples=["[north, dc]"]
    )

    @model_validator(mode="after")
    def _says_something(self) -> ChangeEntry:
        if (self.between is None) == (self.sites is None):
            raise ValueError(
                "must name either two nodes or two sites (between: [pi1, pi2] or sites: [north, dc])"
            )
        if not path_settings(self):
            raise ValueError("changes nothing (add rtt, jitter, loss, rate or reorder)")
        return self


class LatencyEntry(Entry):
    """Latencies, weakest rule first: default, matrix, sites, links."""

    default: DefaultEntry = Field(default_factory=DefaultEntry)
    matrix: str | None = Field(
        default=None,
        description="a square CSV of round-trip times, relative to this file",
        examples=["latencies.csv"],
    )
    sites: list[BetweenEntry] = Field(default_factory=list, max_length=2_000)
    links: list[BetweenEntry] = Field(default_factory=list, max_length=20_000)


class TestbedFile(Entry):
    """A testbed: nodes, the latencies between them, and how those change over time."""

    __test__ = False  # not a test, whatever pytest thinks of the name

    name: _TestbedName = Field(examples=["city"])
    kind: _Kind = Field(
        default=Kind.virtual, description="virtual: on this host; k3s: real boards; sim: a model"
    )
    scale: ScaleEntry = Field(default_factory=ScaleEntry)
    tolerance: PositiveDelayMs = Field(
        default=2.0, description="how far a measured RTT may be off before a run is refused", examples=["2ms"]
    )
    nodes: list[NodeEntry] = Field(
        min_length=1, max_length=MOST_NODES, examples=["[{name: cloud, role: control, board: host}]"]
    )
    latency: LatencyEntry = Field(default_factory=LatencyEntry)
    schedule: list[ChangeEntry] = Field(default_factory=list, max_length=20_000)
    kafka: KafkaEntry | None = Field(
        default=None, description="a Kafka that runs already; default: a broker of the testbed's own"
    )
    hosts: dict[str, HostEntry] = Field(
        default_factory=dict,
        max_length=MOST_NODES,
        description="by node the real machine behind it; other kinds than k3s do not look at it",
        examples=["{pi1: {address: 192.168.1.11}}"],
    )
    kube: KubeEntry | None = Field(
        default=None, description="the cluster of a testbed of kind k3s; other kinds do not look at it"
    )


def path_settings(entry: PathEntry) -> dict[str, float | bool]:
    """What an entry says about a path, as keyword arguments of `Path` (an unlimited rate is infinite)."""
    said: dict[str, float | bool | None] = {
        "rtt_ms": entry.rtt,
        "jitter_ms": entry.jitter,
        "loss": entry.loss,
        "rate_bit_s": entry.rate,
        "reorder": entry.reorder,
    }
    return {name: value for name, value in said.items() if value is not None}
