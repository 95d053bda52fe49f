"""Policies: what one is, and how they are found by name, the shipped ones and those of other packages."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol, get_type_hints

from pydantic import TypeAdapter, ValidationError

from fogctl.agent.knowledge import Knowledge
from fogctl.agent.observation import Observation
from fogctl.agent.plan import Plan
from fogctl.config.problems import choice_hint
from fogctl.errors import FAILED, FogError

GROUP = "fogctl.policies"
"""The entry point group in which other packages name their policies."""

BUILT_IN: Mapping[str, str] = {
    "thr-nlunaware": "fogctl.agent.policies.thr_nlunaware:ThrNlUnaware",
    "thr-nlaware": "fogctl.agent.policies.thr_nlaware:ThrNlAware",
    "mdl-nlunaware": "fogctl.agent.policies.mdl_nlunaware:MdlNlUnaware",
    "gesscale": "fogctl.agent.policies.gesscale:Gesscale",
    "gesscale-spark": "fogctl.agent.policies.gesscale_spark:GesscaleSpark",
    "ds2": "fogctl.agent.policies.ds2:Ds2",
    "hybrid": "fogctl.agent.policies.hybrid:Hybrid",
    "mead": "fogctl.agent.policies.mead:Mead",
    "mead-mg1": "fogctl.agent.policies.mead:MeadMg1",
    "mead-gig1": "fogctl.agent.policies.mead:MeadGig1",
    "threshold-vertical": "fogctl.agent.policies.threshold_vertical:ThresholdVertical",
}
"""Each shipped policy and where it is."""


class Policy(Protocol):
    """A pure function with settings: the same observation and knowledge give the same plan.

    One that has `wants_arrivals = False` is not given the instants of arrivals, which take time to collect.
    """

    @property
    def name(self) -> str:
        """What the command line calls it."""
        ...

    def decide(self, seen: Observation, known: Knowledge) -> Plan:
        """What to change now, and why. No clock, no files, no chance but what `known` gives."""
        ...


def names() -> dict[str, str]:
    """Every policy by name, with where it is."""
    return {**{point.name: point.value for point in entry_points(group=GROUP)}, **BUILT_IN}


def make(name: str, options: Mapping[str, Any] | None = None) -> Policy:
    """The policy of that name with these settings; FogError that names what is wrong."""
    kind = load(name)
    given = dict(options or {})
    known = (
        {field.name for field in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else set[str]()
    )
    for key in given:
        if key not in known:
            settings = f"its settings: {', '.join(sorted(known)) or 'none'}"
            raise FogError(
                f"policy {name} has no setting {key}", key=key, hint=choice_hint(key, sorted(known), settings)
            )
    for key, value in given.items():
        given[key] = _checked(kind, key, value)
    try:
        return kind(**given)
    except ValueError as error:
        raise FogError(f"policy {name}: {error}") from error


def load(name: str) -> Callable[..., Policy]:
    """The class of a policy."""
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        kind: Callable[..., Policy] = getattr(importlib.import_module(module), attribute)
        return kind
    found = names()
    if name not in found:
        raise FogError(
            f"there is no policy {name}",
            hint=choice_hint(name, sorted(found), f"there are: {', '.join(found)}"),
        )
    point: EntryPoint = next(point for point in entry_points(group=GROUP) if point.name == name)
    try:
        elsewhere: Callable[..., Policy] = point.load()
        return elsewhere
    except (ImportError, AttributeError) as error:
        raise FogError(
            f"policy {name} cannot be loaded from {point.value}: {error}", exit_code=FAILED
        ) from error


def summary(name: str) -> str:
    """The first line of what a policy says of itself."""
    return (inspect.getdoc(load(name)) or "").partition("\n")[0]


def settings(name: str) -> dict[str, Any]:
    """A policy's settings with their defaults."""
    kind = load(name)
    if not dataclasses.is_dataclass(kind):
        return {}
    missing = dataclasses.MISSING
    return {
        field.name: field.default if field.default_factory is missing else field.default_factory()
        for field in dataclasses.fields(kind)
    }


def _checked(kind: Any, key: str, value: object) -> Any:
    """A setting's value in the type that its policy declares."""
    wanted = get_type_hints(kind)[key]
    try:
        return TypeAdapter(wanted).validate_python(value)
    except ValidationError as error:
        raise FogError(f"{error.errors()[0]['msg']}, not {value!r}", key=key) from error
