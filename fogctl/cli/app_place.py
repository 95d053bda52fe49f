"""Options of `fogctl app deploy --place` and `fogctl app profile`, and what they mean together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fogctl.errors import FogError

if TYPE_CHECKING:
    from fogctl.placement.bed import Wish

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
        help="With --place: how many replicas. Stages not named keep theirs, or get one.",
    ),
]
ProfileOption = Annotated[
    Path | None,
    typer.Option("--profile", metavar="FILE", help="With --place: what a record costs (fogctl app profile)."),
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


def wished(
    place: str | None,
    on: Sequence[str] | None,
    replicas: str | None,
    profile_file: Path | None,
    seed: int | None,
    slots: int | None,
    stages: list[str],
) -> Wish | None:
    """How the nodes are to be chosen; None if they are named. FogError if the options do not fit together."""
    given = {"--replicas": replicas, "--profile": profile_file, "--seed": seed, "--slots": slots}
    if place is None:
        for option, value in given.items():
            if value is not None:
                raise FogError("is for --place", key=option, hint="--place auto|spread|pack|random")
        if not on:
            raise FogError("no nodes", hint="name them with --on NODE,…, or have them chosen: --place auto")
        return None
    from fogctl.placement.bed import Wish, replicas_from
    from fogctl.placement.plan import Strategy

    if on:
        raise FogError("--on names the nodes and --place chooses them", hint="give one of them")
    if place not in {each.value for each in Strategy}:
        raise FogError(f"there is no strategy {place}", key="--place", hint=f"one of {', '.join(Strategy)}")
    strategy = Strategy(place)
    if seed is not None and strategy is not Strategy.random:
        raise FogError(f"{place} leaves nothing to chance", key="--seed", hint="it is for --place random")
    return Wish(strategy, replicas_from(replicas, stages), profile_file, seed or 0, slots or 1)


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
