"""Theodolite's task samples and OSPBench's aggregation in small, live: resource demand and load capacity.

    sudo python benchmarks/scalability.py measure --to scalability.jsonl [--only PART ...] [--dry-run]
    python benchmarks/scalability.py show scalability.jsonl [--plot uc.svg] [--markdown docs/bench.md]

Parts: uc1, uc2, uc3, uc4, ospbench, as they ship with `fogctl bench`. Both questions are asked of the same
experiments: what one has found out, the other does not measure again.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[0:1] = [str(ROOT)]

from benchmarks import campaign  # noqa: E402
from benchmarks.campaign import MISSING, Key, Line, Notes, Part  # noqa: E402
from benchmarks.command import Campaign, exit_code  # noqa: E402
from fogctl.bench.bench_file import Metric  # noqa: E402
from fogctl.bench.live import LiveSubject  # noqa: E402
from fogctl.bench.load import Case, asking, load  # noqa: E402
from fogctl.bench.search import Made, Outcome, counts, make, search  # noqa: E402
from fogctl.errors import REFUSED, FogError  # noqa: E402

NAMES = ("uc1", "uc2", "uc3", "uc4", "ospbench")
OVERHEAD_S = 45.0
"""Deploying and removing the app for an experiment."""
EXPECTED = {Metric.demand: 6, Metric.capacity: 2}
"""Experiments that each question takes, about; the second knows what the first found."""
DATABASE = Path("/var/tmp/fogctl-bench-uc1.sqlite")


def parts() -> tuple[Part, ...]:
    """Everything there is to measure."""
    made = []
    for name in NAMES:
        execution = load(name).execution
        each_s = (execution.warm_up + execution.duration + OVERHEAD_S) * sum(EXPECTED.values()) / len(Metric)
        keys = tuple({"metric": metric.value} for metric in Metric)
        made.append(Part(name, keys, each_s, 60.0, functools.partial(measured, name, each_s)))
    return tuple(made)


def measured(name: str, each_s: float, keys: Sequence[Key], notes: Notes) -> None:
    """Ask the questions, each experiment kept as it is made."""
    case = load(name)
    system, execution = case.benchmark.system.live, case.execution
    assert system is not None
    try:
        with campaign.bed_up("equal") as apps:
            most, greatest = int(max(execution.resources)), max(execution.loads)
            subject = LiveSubject.of(
                system, case.benchmark.load, execution.seed, most, greatest, apps, campaign.told
            )

            def sustains(load: float, resources: float) -> bool:
                known = _find(notes.lines, name, load, resources)
                if known is None:
                    known = asdict(make(case, subject, load, int(resources)))
                    word = "sustained" if known["sustained"] else "not sustained"
                    campaign.told(f"{name}: load {load:g} on {resources:g}: {word}")
                    notes.keep({"part": "experiment", "of": name, **known})
                return bool(known["sustained"])

            for key in keys:
                asked = asking(case, Metric(key["metric"]))
                found = search(asked.execution, sustains)
                answers = [{"at": at, "answer": answer} for at, answer in found.answers.items()]
                notes.add(name, key, {"answers": answers}, each_s)
    finally:
        DATABASE.unlink(missing_ok=True)


def _find(lines: Sequence[Line], name: str, load: float, resources: float) -> Mapping[str, Any] | None:
    wanted = {"part": "experiment", "of": name, "load": load, "resources": int(resources)}
    return next((line for line in lines if wanted.items() <= line.items()), None)


def outcome(lines: Sequence[Line], name: str, metric: Metric) -> Outcome | None:
    """What a search over the experiments that are there finds; None if one is missing."""
    case = asking(load(name), metric)
    used: list[Made] = []

    def sustains(load: float, resources: float) -> bool:
        known = _find(lines, name, load, resources)
        if known is None:
            raise FogError(MISSING, exit_code=REFUSED)
        used.append(Made(load, int(resources), 0, known["sustained"], tuple(known["reasons"])))
        return used[-1].sustained

    try:
        found = search(case.execution, sustains)
    except FogError:
        return None
    return Outcome(metric, dict(found.answers), tuple(used), counts(case.execution, found.answers))


def report(lines: Sequence[Line]) -> str:
    """The tables, as Markdown."""
    text = []
    for metric in Metric:
        at = _values(load(NAMES[0]), metric)
        heads = ("benchmark", *(f"{value:g}" for value in at), "experiments", "all would be")
        rows: list[tuple[object, ...]] = []
        for name in NAMES:
            found = outcome(lines, name, metric)
            if found is None:
                rows.append((name, *([MISSING] * len(at)), "", ""))
                continue
            beyond = "more" if metric is Metric.demand else "less"
            cells = [beyond if answer is None else f"{answer:g}" for answer in found.answers.values()]
            rows.append((name, *cells, len(found.experiments), found.needed["full"]))
        title = {
            Metric.demand: "Resource demand: the least replicas for so many records a second",
            Metric.capacity: "Load capacity: the most records a second of so many replicas",
        }[metric]
        known = any(outcome(lines, name, metric) is not None for name in NAMES)
        text += (
            [f"**{title}**", "", campaign.table(heads, rows), ""]
            if known
            else [f"**{title}**: {MISSING}", ""]
        )
    return "\n".join(text)


def _values(case: Case, metric: Metric) -> list[float]:
    return case.execution.loads if metric is Metric.demand else case.execution.resources


def draw(lines: Sequence[Line], file: Path) -> None:
    """Demand over load, with the linear bound and every experiment."""
    from matplotlib.figure import Figure

    from fogctl.planner.picture import save

    figure = Figure(figsize=(11, 2.8), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(NAMES), sharey=True), NAMES, strict=True):
        own = [line for line in lines if line["part"] == "experiment" and line["of"] == name]
        for sustained, colour, mark in ((True, "#0072B2", "o"), (False, "#D55E00", "x")):
            dots = [(each["load"], each["resources"]) for each in own if each["sustained"] is sustained]
            if dots:
                axes.scatter(*zip(*dots, strict=True), c=colour, marker=mark, s=22)
        found = outcome(lines, name, Metric.demand)
        known = [] if found is None else [(at, n) for at, n in found.answers.items() if n is not None]
        if known:
            axes.plot(*zip(*known, strict=True), color="0.2", drawstyle="steps-post")
        if found is not None and found.slope is not None:
            axes.plot([0, known[-1][0]], [0, found.slope * known[-1][0]], ":", color="0.5")
        axes.set_title(name, loc="left", fontsize=10)
        axes.set_xlabel("records/s")
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
    figure.axes[0].set_ylabel("replicas")
    save(figure, file)


def data(lines: Sequence[Line]) -> dict[str, Any]:
    """The answers, for programs; None where an experiment is missing."""
    found = {name: {metric.value: outcome(lines, name, metric) for metric in Metric} for name in NAMES}
    return {
        name: {metric: None if each is None else dict(each.answers) for metric, each in both.items()}
        for name, both in found.items()
    }


CAMPAIGN = Campaign(
    name="scalability",
    about="UC1 to UC4 and OSPBench, live and in small",
    names=NAMES,
    parts=lambda _: parts(),
    asked=lambda _: {
        "campaign": "scalability",
        "version": 1,
        "cases": {name: load(name).asked for name in NAMES},
    },
    report=report,
    data=data,
    draw=draw,
)
main = CAMPAIGN.main

if __name__ == "__main__":
    sys.exit(exit_code(main))
