"""Placements compared live: `auto` against spread, pack and random; both apps together; ds2 under each.

    sudo python benchmarks/placement.py measure --to p.jsonl [--only PART ...] [--slots 2|3|4] [--dry-run]
    python benchmarks/placement.py show p.jsonl [--plot placement.svg] [--markdown docs/placement.md]

Parts: `calibrate` (profiles, and the input that the others use), `taxi3` and `nexmark-q5` (ten seeds each at
a fixed input), `together` (both apps in one plan, and one after the other), `scale` (CAPSys, section 6.4).
What a part needs of `calibrate` is measured before it.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[0:1] = [str(ROOT)]

from benchmarks import campaign  # noqa: E402
from benchmarks.campaign import MISSING, Line, Part  # noqa: E402
from benchmarks.command import Campaign, exit_code  # noqa: E402

PLACES = ("auto", "spread", "pack", "random")
TOGETHER = (*PLACES, "auto-in-turn")
SEEDS = 10
APPS = ("taxi3", "nexmark-q5")
EACH_S = {"calibrate": 230.0, "taxi3": 48.0, "nexmark-q5": 43.0, "together": 73.0, "scale": 310.0}
SET_UP_S = 60.0


def keys(part: str) -> tuple[campaign.Key, ...]:
    """What is measured, round by round; in each another strategy comes first."""
    if part == "calibrate":
        return tuple({"app": app} for app in APPS)
    places, rounds = (TOGETHER, 2) if part == "together" else (PLACES, 1 if part == "scale" else SEEDS)
    own = {} if part == "together" else {"app": APPS[0] if part == "scale" else part}
    return tuple(
        {**own, "place": places[(first + turn) % len(places)], "seed": turn}
        for turn in range(rounds)
        for first in range(len(places))
    )


def parts(slots: int) -> tuple[Part, ...]:
    """Everything there is to measure."""
    from benchmarks import placement_live as live
    from benchmarks import placement_scaling as scaling

    def part(name: str, run: Any, after: tuple[str, ...] = ("calibrate",)) -> Part:
        bound = functools.partial(run, each_s=EACH_S[name], slots=slots)
        return Part(name, keys(name), EACH_S[name], SET_UP_S, bound, after)

    return (
        part("calibrate", live.calibrate, ()),
        *(part(name, functools.partial(live.compare, name)) for name in (*APPS, "together")),
        part("scale", scaling.scale),
    )


def compared(lines: Sequence[Line], part: str, app: str) -> Iterator[dict[str, Any]]:
    """One row a strategy: medians and spread over its runs."""
    for place in TOGETHER if part == "together" else PLACES:
        runs = [line["apps"][app] for line in lines if line["part"] == part and line.get("place") == place]
        row: dict[str, Any] = {"part": part, "app": app, "place": place, "runs": len(runs)}
        if runs:
            reached = [run["throughput_per_s"] / run["rate_per_s"] for run in runs]
            row |= {
                "rate_per_s": runs[0]["rate_per_s"],
                "throughput": statistics.median(reached),
                "throughput_least": min(reached),
                "throughput_spread": statistics.pstdev(reached),
                "lag_end": statistics.median(run["lag_end"] for run in runs),
                "lag_worst": max(run["lag_end"] for run in runs),
                "latency_p50_s": _middle(runs, "latency_p50_s"),
                "latency_p95_s": _middle(runs, "latency_p95_s"),
            }
        yield row


def _middle(runs: Sequence[Mapping[str, Any]], name: str) -> float | None:
    known = [run[name] for run in runs if run.get(name) is not None]
    return statistics.median(known) if known else None


def scaled(lines: Sequence[Line]) -> Iterator[dict[str, Any]]:
    """One row a strategy: steps and what came of them, after the doubling and after the halving."""
    for place in PLACES:
        runs = [line for line in lines if line["part"] == "scale" and line["place"] == place]
        for name in ("doubled", "halved"):
            row: dict[str, Any] = {"place": place, "load": name, "runs": len(runs)}
            if runs:
                row |= {
                    "steps": statistics.fmean(run[name]["steps"] for run in runs),
                    "last_after_s": statistics.fmean(run[name]["last_after_s"] for run in runs),
                    "reached": sum(run[name]["reached"] for run in runs),
                    "replicas": statistics.fmean(sum(run[name]["replicas"].values()) for run in runs),
                }
            yield row


def report(lines: Sequence[Line]) -> str:
    """The tables, as Markdown."""
    heads = ("app", "placement", "runs", "throughput", "least", "st. dev.", "lag at the end", "worst",
             "latency p50", "p95")  # fmt: skip
    shown = []
    for title, part, apps in (
        *((f"{app} alone", app, (app,)) for app in APPS),
        ("both apps on the nodes", "together", APPS),
    ):
        rows = [row for app in apps for row in compared(lines, part, app)]
        rate = {row["app"]: row["rate_per_s"] for row in rows if "rate_per_s" in row}
        if not rate:
            shown += [f"**{title}**: {MISSING}", ""]
            continue
        given = ", ".join(f"{app} {value:.0f} records/s" for app, value in rate.items())
        shown += [
            f"**{title}**, input: {given}",
            "",
            campaign.table(heads, [_cells(row) for row in rows]),
            "",
        ]
    steps = ("placement", "load", "runs", "steps", "last one after", "rate reached", "replicas at the end")
    settled = list(scaled(lines))
    title = "**ds2 on taxi3**, one replica a stage at first"
    if any(row["runs"] for row in settled):
        shown += [title, "", campaign.table(steps, [_steps(row) for row in settled]), ""]
    else:
        shown += [f"{title}: {MISSING}", ""]
    return "\n".join(shown)


def _steps(row: Mapping[str, Any]) -> tuple[object, ...]:
    head = (row["place"], row["load"], row["runs"])
    if "steps" not in row:
        return (*head, MISSING, "", "", "")
    reached = f"{row['reached']} of {row['runs']}"
    return (*head, f"{row['steps']:g}", f"{row['last_after_s']:.0f} s", reached, f"{row['replicas']:g}")


def _cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    head = (row["app"], row["place"], row["runs"])
    if "throughput" not in row:
        return (*head, MISSING, "", "", "", "", "", "")
    return (
        *head,
        f"{row['throughput']:.1%}",
        f"{row['throughput_least']:.1%}",
        f"{row['throughput_spread']:.1%}",
        f"{row['lag_end']:,.0f}",
        f"{row['lag_worst']:,.0f}",
        *("" if row[name] is None else f"{row[name]:.2f} s" for name in ("latency_p50_s", "latency_p95_s")),
    )


def draw(lines: Sequence[Line], file: Path) -> None:
    """Every run as a dot: throughput of the input, and the median latency, by strategy."""
    from matplotlib.figure import Figure

    from fogctl.planner.picture import save

    figure = Figure(figsize=(9, 4.6), layout="constrained")
    grid = figure.subplots(2, len(APPS), squeeze=False)
    for column, app in enumerate(APPS):
        for row, (name, label) in enumerate(
            (("throughput", "processed / input"), ("latency_p50_s", "median latency (s)"))
        ):
            axes = grid[row][column]
            for x, place in enumerate(PLACES):
                runs = [line["apps"][app] for line in lines if line["part"] == app and line["place"] == place]
                dots = [
                    run["throughput_per_s"] / run["rate_per_s"] if name == "throughput" else run[name]
                    for run in runs
                ]
                known = [dot for dot in dots if dot is not None]
                axes.scatter([x] * len(known), known, s=18, alpha=0.6, color="#0072B2")
                if known:
                    axes.plot([x - 0.3, x + 0.3], [statistics.median(known)] * 2, color="#D55E00")
            axes.set_xticks(range(len(PLACES)), PLACES)
            axes.set_ylim(bottom=0)
            axes.set_ylabel(label)
            for side in ("top", "right"):
                axes.spines[side].set_visible(False)
        grid[0][column].set_title(app, loc="left", fontsize=10)
    save(figure, file)


def _slots(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--slots", type=int, choices=(2, 3, 4), default=2, help="replicas a node may hold (2); a file each"
    )


def data(lines: Sequence[Line]) -> dict[str, Any]:
    """Every row, for programs."""
    every = [row for app in APPS for part in (app, "together") for row in compared(lines, part, app)]
    return {"compared": every, "scaled": list(scaled(lines))}


CAMPAIGN = Campaign(
    name="placement",
    about="Placements compared on live runs",
    names=tuple(EACH_S),
    parts=lambda chosen: parts(chosen.slots),
    asked=lambda chosen: {"campaign": "placement", "version": 2, "slots": chosen.slots},
    report=report,
    data=data,
    draw=draw,
    more=_slots,
)
main = CAMPAIGN.main

if __name__ == "__main__":
    sys.exit(exit_code(main))
