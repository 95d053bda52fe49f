"""app.yaml as a user writes it: its keys, their types and limits."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from fogctl.config.fields import Entry, PositiveDelayMs, SizeBytes
from fogctl.config.units import quoted

LONGEST_NAME = 31
NAME_PATTERN = r"^[a-z][a-z0-9_-]{0,30}$"
LEAST_MEMORY = 64 << 20
"""Spark refuses a heap below one and a half times what it sets aside, which fogctl has at 32 MiB."""

OWN_CLIENT_SETTINGS = ("bootstrap.servers", "group.id", "acks", "enable.auto.commit", "auto.offset.reset")
OWN_CLIENT_PREFIXES = ("security.", "sasl.", "ssl.", "key.", "value.", "transactional.")
"""Settings of Kafka's clients that decide where records come from and whether one can be lost."""

MOVED = {
    "checkpoint": "fogctl keeps each stage's checkpoint itself, with the testbed's state (remove this key)",
    "trigger": "how a stage runs is told by mode and freshness (write mode: micro-batch or mode: real-time)",
}
"""Keys that people expect in a stage, with the sentence that says why they are not there."""


class Mode(StrEnum):
    """How a stage's query runs."""

    micro_batch = "micro-batch"
    real_time = "real-time"


class OutputMode(StrEnum):
    """What a stage writes when a result changes: only final rows, or every row that changed."""

    append = "append"
    update = "update"


def app_name(raw: object) -> str:
    """The name of an app, stage or stream: it becomes part of topics, folders and process names."""
    if not isinstance(raw, str):
        shown = "nothing" if raw is None else quoted(str(raw))
        raise ValueError(f'must be a name such as "taxi", not {shown}')
    if re.fullmatch(NAME_PATTERN, raw) is None or raw.endswith("\n"):
        fixed = re.sub(r"[^a-z0-9_-]+", "-", raw.casefold()).strip("-_").lstrip("0123456789-_")[:LONGEST_NAME]
        raise ValueError(
            f"{quoted(raw)} is not a name: use 1 to {LONGEST_NAME} lower-case letters, digits, "
            "hyphens and underscores, a letter first" + (f' (did you mean "{fixed}"?)' if fixed else "")
        )
    return raw


def _option(raw: object) -> str:
    if isinstance(raw, bool):
        return "true" if raw else "false"
    if isinstance(raw, str | int | float):
        return str(raw)
    shown = {type(None): "nothing", list: "a list", dict: "a mapping"}.get(type(raw), "something else")
    raise ValueError(f"an option is text, a number or true/false, not {shown}")


def _count(most: int) -> BeforeValidator:
    """Takes whole numbers from 1 to `most`."""

    def parse(raw: object) -> int:
        if isinstance(raw, bool) or not isinstance(raw, int) or not 1 <= raw <= most:
            shown = "nothing" if raw is None else quoted(str(raw))
            raise ValueError(f"must be a whole number from 1 to {most}, not {shown}")
        return raw

    return BeforeValidator(parse, json_schema_input_type=Annotated[int, Field(ge=1, le=most)])


def _client_settings(given: dict[str, str]) -> dict[str, str]:
    for key in given:
        if key in OWN_CLIENT_SETTINGS or key.startswith(OWN_CLIENT_PREFIXES):
            raise ValueError(f"{quoted(key)} is set by fogctl, so that no record is lost (remove it)")
    return given


def _memory(raw: int) -> int:
    if raw < LEAST_MEMORY:
        raise ValueError(f"is too little for an executor (give it {LEAST_MEMORY >> 20}MiB or more)")
    return raw


Name = Annotated[str, BeforeValidator(app_name), WithJsonSchema({"type": "string", "pattern": NAME_PATTERN})]
_Option = Annotated[str, BeforeValidator(_option), WithJsonSchema({"type": ["string", "number", "boolean"]})]
_Partitions = Annotated[int, _count(1000)]
_Slots = Annotated[int, _count(64)]
_ClientSettings = Annotated[dict[str, _Option], AfterValidator(_client_settings)]


class ClientsEntry(Entry):
    """Settings of a stage's Kafka clients in app.yaml, by Kafka's own names."""

    consumer: _ClientSettings = Field(
        default_factory=dict, examples=["{fetch.max.wait.ms: 500}"], description="of what reads its inputs"
    )
    producer: _ClientSettings = Field(
        default_factory=dict, examples=["{linger.ms: 0}"], description="of what writes its output"
    )


class StageEntry(Entry):
    """A stage in app.yaml."""

    name: Name = Field(examples=["nearest"], description="what commands call the stage")
    function: str | None = Field(
        default=None, description="the function in the code file; the stage's name if not given"
    )
    inputs: list[Name] = Field(
        min_length=1, examples=["[rides]"], description="the streams it reads, in the function's order"
    )
    output: Name = Field(examples=["places"], description="the stream it writes, and no other stage")
    partitions: _Partitions = Field(
        default=8, description="partitions of each of its inputs: the most tasks that can share the work"
    )
    slots: _Slots = Field(
        default=4,
        description="tasks a replica runs at a time: they share its CPU and wait for a far broker together",
    )
    tasks: _Partitions | None = Field(
        default=None,
        description="tasks a batch is divided into at most; default: as many as its slots on all edge nodes",
    )
    freshness: PositiveDelayMs = Field(
        default=5000.0,
        description="how long a batch may take; in real-time mode the time between checkpoints, at least 5s",
    )
    memory: Annotated[SizeBytes, AfterValidator(_memory)] = Field(
        default=300 << 20, description="heap of one executor, 64MiB or more"
    )
    mode: Mode = Field(default=Mode.micro_batch, strict=False, description="how the query runs")
    output_mode: OutputMode | None = Field(
        default=None,
        strict=False,
        description="append: final rows only; update: every row that changed. "
        "Default: append, in real-time mode update",
    )
    keeps_keys: bool = Field(
        default=True,
        description="whether each input record comes out once under its own key, so that an audit can count",
    )
    kafka: ClientsEntry = Field(
        default=ClientsEntry(), description="settings of its Kafka clients instead of fogctl's"
    )
    options: dict[str, _Option] = Field(default_factory=dict, description="handed to the function as text")

    @property
    def effective_output_mode(self) -> OutputMode:
        """The output mode, given or not."""
        default = OutputMode.update if self.mode is Mode.real_time else OutputMode.append
        return self.output_mode or default


class AppFile(Entry):
    """app.yaml."""

    name: Name = Field(examples=["taxi"], description="the app's name; its topics are NAME.STREAM")
    code: str = Field(default="app.py", description="the Python file with the functions, beside app.yaml")
    stages: list[StageEntry] = Field(min_length=1, description="the stages, in any order")
