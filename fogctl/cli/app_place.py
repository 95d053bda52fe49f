"""Options of `fogctl app deploy --place` and `fogctl app profile`, and what they mean together."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fogctl.cli.app_view import placement_data, placement_view
from fogctl.cli.output import Format, emit, stderr
from fogctl.cli.testbed import DEFAULT_FILE, which
from fogctl.errors import FogError

if TYPE_CHECKING:
    from fogctl.placement.bed import Wish
    from fogctl.runtime.app import App
    from fogctl.runtime.deployment import Change

SHORTEST_PROFILE_S, LONGEST_PROFILE_S = 1.0, 300.0

PlaceOption = Annotated[
    str | None,
    typer.Option("--place", metavar="auto|spread|pack|random", help="Have the nodes chosen instead of --on."),
]
ReplicasOption = Annotated[
    str | None,
    typer.Option(
        "--replicas",
        metavar="STAGE=N,…",
        help="With --place: how many replicas (APP.STAGE=N of several apps). Stages not named keep theirs, "
        "or get one.",
    ),
]
ProfileOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--profile",
        metavar="FILE",
        help="With --place: what a record costs (fogctl app profile); one of each app.",
    ),
]
SlotsOption = Annotated[
    int | None,
    typer.Option(
        "--slots",
        min=1,
        max=16,
        help="With --place: replicas a node may hold, of one stage each; each gets that part of its CPU.",
    ),
]
SeedOption = Annotated[
    int | None, typer.Option("--seed", help="With --place random: another seed, another choice.")
]


def loaded_apps(names: Sequence[str], options: Sequence[str]) -> list[App]:
    """The apps of these names or folders, with options; those of several apps are APP.STAGE.OPTION=VALUE."""
    from fogctl.runtime import app as apps
    from fogctl.runtime.app_options import with_options

    found = [apps.load(name) for name in names]
    if len(found) == 1:
        return [with_options(found[0], options)]
    known = [app.name for app in found]
    for name in known:
        if known.count(name) > 1:
            raise FogError(f"{name} is named twice", hint="name each app once")
    given: dict[str, list[str]] = {name: [] for name in known}
    for text in options:
        app, _, rest = text.partition(".")
        if app not in given or "." not in rest.partition("=")[0]:
            raise FogError(
                f"{text} does not say which of the apps it is for",
                key="--set",
                hint=f"--set {known[0]}.STAGE.OPTION=VALUE",
            )
        given[app].append(rest)
    return [with_options(app, given[app.name]) for app in found]


def wished(
    place: str | None,
    on: Sequence[str] | None,
    replicas: str | None,
    profile_files: Sequence[Path] | None,
    seed: int | None,
    slots: int | None,
    apps: Sequence[App],
) -> Wish | None:
    """How the nodes are to be chosen; None if they are named. FogError if the options do not fit together."""
    given = {"--replicas": replicas, "--profile": profile_files or None, "--seed": seed, "--slots": slots}
    if place is None:
        if len(apps) > 1:
            raise FogError(
                "--on is for one app", hint="deploy one after the other, or have them placed: --place auto"
            )
        for option, value in given.items():
            if value is not None:
                raise FogError("is for --place", key=option, hint="--place auto|spread|pack|random")
        if not on:
            raise FogError("no nodes", hint="name them with --on NODE,…, or have them chosen: --place auto")
        return None
    from fogctl.placement.bed import Wish, labels, replicas_from
    from fogctl.placement.plan import Strategy

    if on:
        raise FogError("--on names the nodes and --place chooses them", hint="give one of them")
    if place not in {each.value for each in Strategy}:
        raise FogError(f"there is no strategy {place}", key="--place", hint=f"one of {', '.join(Strategy)}")
    strategy = Strategy(place)
    if seed is not None and strategy is not Strategy.random:
        raise FogError(f"{place} leaves nothing to chance", key="--seed", hint="it is for --place random")
    wanted = replicas_from(replicas, list(labels(apps)))
    return Wish(strategy, wanted, tuple(profile_files or ()), seed or 0, slots or 1)


def deploy_placed(
    apps: Sequence[App], wish: Wish, testbed: str | None, output: Format, *, dry_run: bool
) -> None:
    """Choose the nodes of these apps in one plan, and use them or say what that would be."""
    from fogctl.placement.bed import Bed, first_changes, nodes_by_app, placed

    known_by_file = Path(testbed or DEFAULT_FILE).is_file()
    if dry_run and known_by_file and not which(testbed, models=True).exists:
        bed = Bed.described(Path(testbed or DEFAULT_FILE))
        planned = placed(apps, bed, wish)
        steps = first_changes(apps, bed, planned, wish.share)
    else:
        from fogctl.cli.app import running_apps
        from fogctl.placement.kept import keep
        from fogctl.placement.profile import read_profile
        from fogctl.placement.together import Together

        found = running_apps(testbed)
        planned = placed(apps, Bed.running(found), wish)
        together = Together(found, apps, nodes_by_app(apps, planned), wish.share)
        if not dry_run:
            for label, nodes in planned.nodes.items():
                _say(f"{label} on {', '.join(nodes)}")
            began = time.monotonic()
            steps = together.deploy(_say)
            for file in wish.profiles:
                keep(found.ground.folder, read_profile(file))
            lines = _lines(steps)
            took = time.monotonic() - began
            names = ", ".join(app.name for app in apps)
            runs = f"{names} {'run' if len(apps) > 1 else 'runs'}"
            data = {"changes": lines, "seconds": round(took, 3), **placement_data(planned)}
            changed = f"; {len(lines)} changes in {took:.1f} s" if lines else " already: nothing to change"
            emit(output, data, runs + changed)
            return
        steps = together.changes()
    lines = _lines(steps)
    emit(
        output,
        {"changes": lines, "dry_run": True, **placement_data(planned)},
        *placement_view(planned, profiled=bool(wish.profiles)),
        *(lines or ["nothing to change: it is so already"]),
    )


def _lines(steps: Mapping[str, Sequence[Change]]) -> list[str]:
    """The changes in words; with the app's name in front where there are several apps."""
    return [
        f"{app}: {step.describe()}" if len(steps) > 1 else step.describe()
        for app, own in steps.items()
        for step in own
    ]


def _say(line: str) -> None:
    stderr().print(line, markup=False, highlight=False)


def profile_window_s(text: str) -> float:
    """How long to measure, from `30s`; FogError if that is no time, or too short or long."""
    from fogctl.config.units import INSTANT

    try:
        seconds = INSTANT.parse(text)
    except ValueError as error:
        raise FogError(str(error), key="--for") from None
    if not SHORTEST_PROFILE_S <= seconds <= LONGEST_PROFILE_S:
        least, most = f"{SHORTEST_PROFILE_S:g}", f"{LONGEST_PROFILE_S:g}"
        raise FogError(f"must be from {least} s to {most} s, not {seconds:g} s", key="--for")
    return seconds
