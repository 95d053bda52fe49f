"""Where `fogctl plan` measures an app: on the nodes of a testbed that is up, or in numbers alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fogctl.cli.output import stderr
from fogctl.errors import FogError

if TYPE_CHECKING:
    from fogctl.planner.explorer import Lab
    from fogctl.planner.measure import Measure
    from fogctl.runtime.app import App
    from fogctl.testbed.model import Node

SIMULATED = "simulated"
"""The app that is an engine in numbers."""
SIMULATED_MEMORY_MB = 512.0


@dataclass(frozen=True, slots=True)
class Place:
    """A lab, and what is said of it."""

    lab: Lab
    nodes: tuple[str, ...]
    """Empty where nodes are only numbers."""
    slot: str
    """What a slot is, in words."""
    asked: dict[str, Any]
    """What measurements depend on besides the search itself."""
    whole: Callable[[int], AbstractContextManager[Measure]]
    """The app with all there is: its one stage on all nodes; simulated, one task of each stage. The number is
    how many were there before: simulated ones differ by it."""
    say: Callable[[str], None]


def place_of(
    app: str,
    nodes: str | None,
    keys: int,
    options: list[str] | None,
    testbed: str | None,
    folder: Path,
    injectors: int,
) -> Place:
    """Checked before anything is deployed: the app, data for it, the testbed, its nodes."""
    console = stderr()

    def say(text: str) -> None:
        console.print(text, highlight=False, soft_wrap=True)

    if app == SIMULATED:
        from fogctl.planner.simulated_lab import SimulatedLab

        require_measurable(app, keys, options)
        lab = SimulatedLab()
        single = dict.fromkeys(lab.stages, 1)

        def simulated(before: int) -> AbstractContextManager[Measure]:
            return SimulatedLab(seed=before).deployed(single, SIMULATED_MEMORY_MB)

        return Place(
            lab,
            (),
            "a task of a simulated engine",
            {"app": app},
            simulated,
            say,
        )
    from fogctl.bench.data import values
    from fogctl.cli.app import running_apps
    from fogctl.planner.live_lab import LiveLab, require_absent, usable_nodes

    loaded = _app(app, keys, options)
    found = running_apps(testbed)
    require_absent(found, loaded)
    chosen = usable_nodes(found, [name.strip() for name in nodes.split(",")] if nodes else [])
    live = LiveLab(found, loaded, chosen, values(loaded, keys, seed=1), folder, say, injectors)
    return Place(
        live,
        chosen,
        _slot([found.ground.testbed.node(name) for name in chosen]),
        {"app": app, "options": options or [], "keys": keys, "nodes": list(chosen)},
        lambda _: live.deployed({live.stages[0]: len(chosen)}, None),
        say,
    )


def require_measurable(app: str, keys: int, options: list[str] | None) -> None:
    """FogError if there is no such app, no data for it, or no such option."""
    if app != SIMULATED:
        _app(app, keys, options)
    elif options:
        raise FogError("the simulated app has no options", key="--set", hint="leave it out")


def _app(app: str, keys: int, options: list[str] | None) -> App:
    from fogctl.bench.data import require_data
    from fogctl.bench.live import by_arrival
    from fogctl.runtime.app import load
    from fogctl.runtime.app_options import with_options

    loaded = with_options(by_arrival(load(app)), options or ())
    require_data(loaded, keys)
    return loaded


def _slot(nodes: Sequence[Node]) -> str:
    boards = ", ".join(dict.fromkeys(node.board for node in nodes))
    cores = sorted({round(node.cpu_cores, 3) for node in nodes if node.cpu_cores is not None})
    if not cores:
        return f"a replica on a node ({boards}) without CPU limit"
    span = " to ".join(f"{each:g}" for each in dict.fromkeys((cores[0], cores[-1])))
    return f"a replica on an emulated node ({boards}) with {span} host cores"
