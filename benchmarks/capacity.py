"""Capacity plans tried out live: how far reruns of an estimate differ, and if a plan holds on more nodes.

    sudo python benchmarks/capacity.py measure --to capacity.jsonl [--only PART ...] [--dry-run]
    python benchmarks/capacity.py show capacity.jsonl [--plot capacity.svg] [--markdown docs/planning.md]

Parts: `reruns` (the same estimate five times), `explore` (q1, q5 and q11 on one to three nodes), `validate`
(each on five nodes, at 100 %, 120 % and 150 % of what the plan from those three says five sustain). For one
app: `--only validate:nexmark-q1` measures what its plan needs, and tries it.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[0:1] = [str(ROOT)]

from fogmodels.capacity import CapacityModel, Observation, fit_capacity  # noqa: E402

from benchmarks import campaign  # noqa: E402
from benchmarks.campaign import MISSING, Key, Line, Notes, Part  # noqa: E402
from benchmarks.command import Campaign, exit_code  # noqa: E402
from fogctl.bench.live import by_arrival  # noqa: E402
from fogctl.planner.estimator import Estimate, Phases, RateSeen, estimate, judged  # noqa: E402
from fogctl.planner.live_lab import LiveLab, usable_nodes  # noqa: E402
from fogctl.planner.repeats import spread  # noqa: E402
from fogctl.runtime import app as app_files  # noqa: E402
from fogctl.runtime import app_variant  # noqa: E402
from fogctl.runtime.app_options import with_options  # noqa: E402
from fogctl.runtime.operate import Apps  # noqa: E402

RERUNS = 5
APPS = {"nexmark-q1": "q1", "nexmark-q5": "q5", "nexmark-q11": "q11"}
"""Each with its stage."""
WORK = 20_000
SMALL, LARGE = (1, 2, 3), 5
"""Nodes that are measured, and those of the pool that the plan is tried on."""
PERCENT = (100, 120, 150)
MEMORY_MB = 512.0
HEADROOM = 0.1
OVERLOAD_PER_NODE = 150.0
"""Records a second that are too much for a node, where nothing is known of the app yet."""
OVERLOAD = 1.5
"""How many times more than it sustained is too much, where something is known."""
FRESHNESS = "3s"
"""What a batch may take, instead of 5 s: the more batches in a look, the surer what it says."""
PHASES = Phases(25.0, 5.0, 20.0, 40.0, sensitivity=0.05, most_trials=5, patience=60)
"""How often plans so measured come out as they should on simulated engines: docs/planning.md."""
RAMP_UP_S, LOOKED_S = 25.0, 60.0
"""Of each rate that a plan is tried at."""
EACH_S = {"reruns": 450.0, "explore": 410.0, "validate": 110.0}
"""One of the nine of `explore` is among the reruns."""
SET_UP_S = 60.0


def parts() -> tuple[Part, ...]:
    """Everything there is to measure."""
    keys: dict[str, tuple[Key, ...]] = {
        "reruns": tuple({"app": "nexmark-q1", "slots": 2, "run": run} for run in range(RERUNS)),
        "explore": tuple({"app": app, "slots": slots} for app in APPS for slots in SMALL),
        "validate": tuple({"app": app, "percent": percent} for app in APPS for percent in PERCENT),
    }
    runs = {"reruns": estimates, "explore": estimates, "validate": validate}
    return tuple(
        Part(
            name,
            keys[name],
            EACH_S[name],
            SET_UP_S,
            functools.partial(runs[name], name),
            ("explore",) if name == "validate" else (),
        )
        for name in keys
    )


def estimates(part: str, keys: Sequence[Key], notes: Notes) -> None:
    """The highest rate of each key, by halving; trials of one that was stopped are gone on with."""
    with campaign.bed_up("equal") as apps, tempfile.TemporaryDirectory(prefix="fog-cap-") as folder:
        for key in keys:
            if part == "explore" and (again := notes.find("reruns", key)) is not None:
                notes.add(part, key, {name: again[name] for name in _MEASURED}, EACH_S[part])
                continue
            lab = _lab(apps, key["app"], Path(folder))
            with lab.deployed({APPS[key["app"]]: key["slots"]}, None) as live:
                found = estimate(
                    live,
                    too_much(notes.lines, key["app"], key["slots"]),
                    PHASES,
                    known=_known(notes.lines, part, key),
                    on_trial=functools.partial(_note_trial, notes, part, key),
                    say=campaign.told,
                )
            notes.add(part, key, _figures(found), EACH_S[part])


def too_much(lines: Sequence[Line], app: str, slots: int) -> float:
    """A rate to warm up with: more than the nodes take, but not much more, for all of it is waited for."""
    known = [
        line["mst"] / line["slots"]
        for line in lines
        if line["part"] in ("explore", "reruns") and line["app"] == app and line["mst"] > 0
    ]
    return slots * (OVERLOAD * max(known) if known else OVERLOAD_PER_NODE)


def _lab(apps: Apps, name: str, folder: Path) -> LiveLab:
    loaded = with_options(by_arrival(app_files.load(name)), [f"{APPS[name]}.work={WORK}"])
    app = app_variant.write(loaded, folder / name, lambda stage: {**stage, "freshness": FRESHNESS})
    return LiveLab(apps, app, usable_nodes(apps, ()), campaign.data_of(name), folder, campaign.told)


def _note_trial(notes: Notes, part: str, key: Key, trial: RateSeen) -> None:
    notes.keep({"part": "trial", "of": part, **key, "trial": dataclasses.asdict(trial)})


def _known(lines: Sequence[Line], part: str, key: Key) -> list[RateSeen]:
    """The trials that an estimate had made when it was stopped."""
    asked = {"part": "trial", "of": part, **key}
    return [RateSeen.read(line["trial"]) for line in lines if asked.items() <= line.items()]


_MEASURED = ("mst", "upper", "trials", "stages")


def _figures(found: Estimate) -> dict[str, Any]:
    stages = [dataclasses.asdict(stage) for stage in found.stages]
    figures = (found.mst, found.upper, len(found.trials), stages)
    return dict(zip(_MEASURED, figures, strict=True))


def validate(part: str, keys: Sequence[Key], notes: Notes) -> None:
    """The app on the larger pool, at so much of what the plan promises of it.

    One rate after the other on the same deployment, the lowest first: what one that was too much has left
    makes the next one no easier.
    """
    with campaign.bed_up("equal") as apps, tempfile.TemporaryDirectory(prefix="fog-cap-") as folder:
        for app in dict.fromkeys(key["app"] for key in keys):
            promised = promise(notes.lines, app)
            assert promised is not None, "explore comes first"
            with _lab(apps, app, Path(folder)).deployed({APPS[app]: LARGE}, None) as live:
                live.run(0.5 * promised, PHASES.warm_up_s)
                for key in (each for each in keys if each["app"] == app):
                    rate = promised * key["percent"] / 100
                    live.run(rate, RAMP_UP_S)
                    seen = judged(live.run(rate, LOOKED_S), rate, PHASES.confidence)
                    found = {"promised": promised, **dataclasses.asdict(seen)}
                    notes.add(part, key, found, EACH_S[part])


def model_of(lines: Sequence[Line], app: str) -> CapacityModel | None:
    """The plan from the small pools; None while one of them is missing."""
    rows = [
        Observation(line["slots"], MEMORY_MB, line["mst"])
        for line in lines
        if line["part"] == "explore" and line["app"] == app
    ]
    return fit_capacity(rows) if len(rows) == len(SMALL) else None


def promise(lines: Sequence[Line], app: str) -> float | None:
    """The highest rate for which the plan, with its headroom, says that the larger pool is enough."""
    model = model_of(lines, app)
    return None if model is None else model.mst(LARGE) / (1 + HEADROOM)


def rows(lines: Sequence[Line]) -> Iterator[dict[str, Any]]:
    """One row an app: what was measured, what was promised, and what came of it."""
    for app in APPS:
        model, promised = model_of(lines, app), promise(lines, app)
        own = [line for line in lines if line.get("app") == app]
        measured = {line["slots"]: line["mst"] for line in own if line["part"] == "explore"}
        tried = {line["percent"]: line["sustained"] for line in own if line["part"] == "validate"}
        wanted = {100: True, 150: False}
        done = all(percent in tried for percent in wanted)
        yield {
            "app": app,
            "measured": measured,
            "family": None if model is None else model.family,
            "promised": promised,
            "interval": None if model is None else dataclasses.asdict(model.interval(LARGE)),
            "tried": tried,
            "held": all(tried[percent] is held for percent, held in wanted.items()) if done else None,
        }


def report(lines: Sequence[Line]) -> str:
    """The tables, as Markdown."""
    again = [line["mst"] for line in lines if line["part"] == "reruns"]
    apart = spread(again)
    said = ", ".join(f"{mst:.1f}" for mst in again) or MISSING
    text = [
        f"**Reruns** of one estimate (nexmark-q1, two nodes): {said}"
        + ("" if apart is None else f"; greatest less least is {apart:.1%} of the median")
        + f" ({len(again)} of {RERUNS})",
        "",
    ]
    cells = []
    for row in rows(lines):
        sizes = ", ".join(f"{row['measured'][n]:.1f}" if n in row["measured"] else "–" for n in SMALL)
        tried = [
            {True: "sustained", False: "too much", None: MISSING}[row["tried"].get(percent)]
            for percent in PERCENT
        ]
        held = {True: "yes", False: "NO", None: ""}[row["held"]]
        promised = MISSING if row["promised"] is None else f"{row['promised']:.1f}"
        cells.append((row["app"], sizes, row["family"], promised, *tried, held))
    heads = (
        *("app", f"sustained on {', '.join(map(str, SMALL))} nodes (records/s)", "family"),
        f"promised for {LARGE}",
        *(f"{percent} %" for percent in PERCENT),
        "as it should be",
    )
    if not any(line["part"] == "explore" for line in lines):
        return "\n".join([*text, f"**Plans**: {MISSING}", ""])
    return "\n".join([*text, campaign.table(heads, cells), ""])


def draw(lines: Sequence[Line], file: Path) -> None:
    """Throughput over nodes: what was measured, the plan, and what was tried."""
    from matplotlib.figure import Figure

    from fogctl.planner.picture import save

    figure = Figure(figsize=(9, 3.4), layout="constrained")
    for axes, row in zip(figure.subplots(1, len(APPS), squeeze=False)[0], rows(lines), strict=True):
        model = model_of(lines, row["app"])
        axes.plot(list(row["measured"]), list(row["measured"].values()), "o", color="0.2", label="measured")
        if model is not None:
            slots = [1 + 0.1 * step for step in range(10 * LARGE - 5)]
            axes.plot(slots, [model.mst(n) for n in slots], color="0.6", label=f"plan ({model.family})")
        for sustained, colour, mark, label in (
            (True, "#0072B2", "^", "sustained"), (False, "#D55E00", "x", "too much")
        ):  # fmt: skip
            dots = [
                (LARGE, row["promised"] * percent / 100)
                for percent, held in row["tried"].items()
                if held is sustained
            ]
            if dots:
                axes.plot(*zip(*dots, strict=True), mark, color=colour, label=label)
        axes.set_title(row["app"], loc="left", fontsize=10)
        axes.set_xlabel("nodes")
        axes.set_ylim(bottom=0)
        axes.legend(fontsize=7)
    figure.axes[0].set_ylabel("records/s")
    save(figure, file)


def missed(lines: Sequence[Line]) -> list[str]:
    """Plans that did not hold."""
    return [f"the plan for {row['app']} did not hold" for row in rows(lines) if row["held"] is False]


CAMPAIGN = Campaign(
    name="capacity",
    about="Capacity plans tried out live",
    names=tuple(EACH_S),
    parts=lambda _: parts(),
    asked=lambda _: {
        "campaign": "capacity",
        "version": 2,
        "phases": dataclasses.asdict(PHASES),
        "freshness": FRESHNESS,
        "work": WORK,
    },
    report=report,
    data=lambda lines: list(rows(lines)),
    draw=draw,
    missed=missed,
)
main = CAMPAIGN.main

if __name__ == "__main__":
    sys.exit(exit_code(main))
