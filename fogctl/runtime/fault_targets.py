"""What a user means by the words after `fault kill`: a node, a running service, the delay line. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from fogctl.errors import FAILED, FogError


class What(StrEnum):
    """What can be killed."""

    node = "node"
    executor = "executor"
    driver = "driver"
    master = "master"
    broker = "broker"
    bridge = "bridge"
    delay_line = "delay-line"


SERVICES = {What.broker: "broker", What.bridge: "mqtt.bridge"}
"""The services that are alone of their kind."""
_ALSO_CALLED = {"worker": What.executor}
"""A replica is its executor alone: there is no Worker process beside it."""
_STARTED_BY = {What.broker: "fogctl app deploy starts it", What.bridge: "fogctl mqtt up starts it"}


@dataclass(frozen=True, slots=True)
class Target:
    """What is to be killed."""

    what: What
    name: str
    """The node, or the service; nothing for the delay line."""

    def describe(self) -> str:
        """In words."""
        match self.what:
            case What.node:
                return f"node {self.name}: everything on it dies, and it is cut off"
            case What.delay_line:
                return "kill -9 the delay line: no packet passes the impaired network without it"
            case _:
                return f"kill -9 {self.name}"


def find(words: Sequence[str], nodes: Sequence[str], services: Iterable[str]) -> Target:
    """The one thing meant; FogError that lists the choices if it is none or several."""
    kinds = [what.value for what in What]
    words = [_ALSO_CALLED.get(words[0], words[0]), *words[1:]]
    if words[0] not in kinds:
        if words[0] in nodes:
            if len(words) > 1:
                raise FogError(f"too many words: {' '.join(words)}", hint="fogctl fault kill NODE")
            return Target(What.node, words[0])
        raise FogError(
            f"there is no node {words[0]}, and it is none of: {', '.join(kinds)}",
            hint=f"nodes: {', '.join(nodes)}",
        )
    what, where = What(words[0]), words[1] if len(words) > 1 else None
    if len(words) > 2 or (where is not None and what in (What.broker, What.bridge, What.delay_line)):
        raise FogError(f"too many words: {' '.join(words)}", hint=f"fogctl fault kill {_usage(what)}")
    if what is What.delay_line:
        return Target(what, "")
    if what is What.node:
        return Target(what, node(where, nodes))
    return Target(what, _service(what, where, list(services)))


def node(name: str | None, nodes: Sequence[str]) -> str:
    """That node's name; FogError with the known ones if there is none."""
    if name is None or name not in nodes:
        said = "which node?" if name is None else f"there is no node {name}"
        raise FogError(said, hint=f"nodes: {', '.join(nodes)}")
    return name


def _service(what: What, where: str | None, services: list[str]) -> str:
    if what in SERVICES:
        if SERVICES[what] not in services:
            raise FogError(f"no {what.value} runs here", hint=_STARTED_BY[what], exit_code=FAILED)
        return SERVICES[what]
    marker = ".executor." if what is What.executor else f".{what.value}"
    there = [name for name in services if marker in name]
    if not there:
        raise FogError(f"no {what.value} runs here", hint="fogctl app deploy starts some", exit_code=FAILED)
    fitting = [name for name in there if where is None or where in _names_of(name)]
    if len(fitting) == 1:
        return fitting[0]
    choices = ", ".join(_label(name) for name in there)
    said = f"which {what.value}?" if fitting else f"there is no {what.value} of {where}"
    raise FogError(said, hint=f"one of: {choices}")


def _label(service: str) -> str:
    """How a user names a service: APP.STAGE.NODE for an executor, APP.STAGE for a driver."""
    return service.replace(".executor.", ".").removesuffix(".driver").removesuffix(".master")


def _names_of(service: str) -> set[str]:
    label = _label(service)
    app, _, rest = label.partition(".")
    stage, _, replica = rest.partition(".")
    return {label, service, *((replica,) if replica else (app, stage))}


def _usage(what: What) -> str:
    match what:
        case What.node:
            return "node NODE"
        case What.executor:
            return "executor NODE"
        case What.driver | What.master:
            return f"{what.value} APP.STAGE"
        case _:
            return what.value
