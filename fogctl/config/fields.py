"""The field types of the files a user writes: quantities, names and node ranges, typed for pydantic."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, WithJsonSchema

from fogctl.config import units
from fogctl.config.units import Unit, quoted

LONGEST_NAME = 20
_NODE = re.compile(r"[a-z](?:[a-z0-9-]*[a-z0-9])?")
_TESTBED = re.compile(r"[a-z][a-z0-9]*")
_RANGE = re.compile(r"([a-z][a-z0-9-]*)\[(\d{1,6})-(\d{1,6})\]([a-z0-9-]*)")
_RESERVED = {
    "switch": "the namespace of the testbed's bridges has that name",
    "localhost": "every machine calls itself that",
}


class Entry(BaseModel):
    """A mapping in a file a user writes: unknown keys are refused, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _quantity(unit: Unit, description: str) -> Any:
    schema = {
        "type": "string",
        "pattern": unit.pattern(),
        "description": description,
        "examples": [unit.example],
    }
    return Annotated[float, BeforeValidator(unit.parse), WithJsonSchema(schema)]


def _rate(raw: object) -> float:
    return math.inf if raw == "unlimited" else units.RATE.parse(raw)


def _positive(unit: Unit) -> Callable[[object], float]:
    def parse(raw: object) -> float:
        value = unit.parse(raw)
        if value <= 0:
            raise ValueError(f"must be more than 0 (write for example {unit.example})")
        return value

    return parse


def _size(raw: object) -> int:
    return int(_positive(units.SIZE)(raw))


DelayMs = _quantity(units.DELAY, "a time; ms, s, us, min or h")
InstantS = _quantity(units.INSTANT, "time since the start of the schedule")
LossFraction = _quantity(units.PERCENT, "a percentage, 0% to 100%")
Watts = _quantity(units.POWER, "watts at the board's supply")
Hertz = _quantity(units.CLOCK, "clock frequency")
RateBitS = Annotated[
    float,
    BeforeValidator(_rate),
    WithJsonSchema(
        {
            "description": "bits per second in each direction: bit, kbit, mbit, gbit; or unlimited",
            "anyOf": [{"type": "string", "pattern": units.RATE.pattern()}, {"const": "unlimited"}],
            "examples": ["100mbit"],
        }
    ),
]
PositiveShare = Annotated[
    float,
    BeforeValidator(_positive(units.SHARE)),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": units.SHARE.pattern(),
            "description": "a share; 100% is one whole core (or all of the memory)",
            "examples": ["5%"],
        }
    ),
]
PositiveDelayMs = Annotated[
    float,
    BeforeValidator(_positive(units.DELAY)),
    WithJsonSchema({"type": "string", "pattern": units.DELAY.pattern(), "examples": ["2ms"]}),
]
SizeBytes = Annotated[
    int,
    BeforeValidator(_size),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": units.SIZE.pattern(),
            "description": "a size: MiB and GiB are binary, MB and GB decimal",
            "examples": ["512MiB"],
        }
    ),
]


def _word(raw: object, what: str) -> str:
    if not isinstance(raw, str):
        shown = "nothing" if raw is None else quoted(str(raw))
        raise ValueError(f"must be {what}, not {shown}")
    if not raw:
        raise ValueError(f"is empty (write {what})")
    return raw


def testbed_name(raw: object) -> str:
    """A testbed's name: it becomes part of namespace, cgroup and folder names, so it is short and plain.

    No hyphen: `fog-<testbed>-<node>` must be readable in one way only, or two testbeds could share a name.
    """
    name = _word(raw, 'a name such as "city"')
    if not _TESTBED.fullmatch(name) or len(name) > LONGEST_NAME:
        fixed = re.sub(r"[^a-z0-9]", "", name.casefold()).lstrip("0123456789")[:LONGEST_NAME]
        raise ValueError(
            f"{quoted(name)} cannot name a testbed: "
            f"use 1 to {LONGEST_NAME} lower-case letters and digits, a letter first"
            + (f' (did you mean "{fixed}"?)' if fixed else "")
        )
    return name


def node_name(raw: object) -> str:
    """A node's name: a host name label that stays unique when prefixes and `-mgmt` are added."""
    name = _word(raw, 'a host name such as "pi1"')
    if not _NODE.fullmatch(name) or len(name) > LONGEST_NAME:
        fixed = (
            re.sub(r"[^a-z0-9-]+", "-", name.casefold())
            .strip("-")
            .lstrip("0123456789-")[:LONGEST_NAME]
            .rstrip("-")
        )
        raise ValueError(
            f"{quoted(name)} is not a host name: "
            f"use 1 to {LONGEST_NAME} lower-case letters, digits and hyphens, a letter first"
            + (f' (did you mean "{fixed}"?)' if fixed else "")
        )
    if name in _RESERVED:
        raise ValueError(f"{quoted(name)} is taken: {_RESERVED[name]} (choose another name)")
    if name.endswith("-mgmt"):
        raise ValueError(
            f"{quoted(name)} is taken: it is how the management address of a node is called (choose another)"
        )
    return name


def node_names(raw: object, most: int) -> tuple[str, ...]:
    """A node name or a range of them: `pi[1-3]` is pi1, pi2, pi3; `pi[01-10]` keeps the zeros."""
    text = _word(raw, 'a host name such as "pi1" or a range such as "pi[1-10]"')
    if "[" not in text and "]" not in text:
        return (node_name(text),)
    match = _RANGE.fullmatch(text)
    if match is None:
        raise ValueError(f'{quoted(text)} is not a range of nodes (write for example "pi[1-10]")')
    prefix, low, high, suffix = match.groups()
    first, last = int(low), int(high)
    if first > last:
        raise ValueError(f"{quoted(text)} counts backwards (write {prefix}[{last}-{first}]{suffix})")
    if last - first >= most:
        raise ValueError(
            f"{quoted(text)} is {last - first + 1:,} nodes, more than the {most:,} a testbed can have"
        )
    width = len(low) if low.startswith("0") and len(low) > 1 else 0
    return tuple(node_name(f"{prefix}{number:0{width}d}{suffix}") for number in range(first, last + 1))


NAME_PATTERN = rf"^{_NODE.pattern}$"
RANGE_PATTERN = rf"^({_NODE.pattern}|{_RANGE.pattern})$"
TESTBED_PATTERN = rf"^{_TESTBED.pattern}$"
