"""Experiments that each search strategy saves, on simulated response surfaces: which loads what sustains.

    python benchmarks/strategies.py [--markdown docs/bench.md] [-o json]

Needs no testbed: a surface says how much so many replicas sustain, and a strategy asks it as it would ask
experiments. Every strategy must find what the full search finds, or the table is refused.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[0:1] = [str(ROOT)]

from benchmarks.campaign import table  # noqa: E402
from benchmarks.report import placed as between_markers  # noqa: E402
from fogctl.bench.bench_file import ExecutionFile, Metric, Strategy  # noqa: E402
from fogctl.bench.search import search  # noqa: E402

SURFACES: Mapping[str, Callable[[float], float]] = {
    "linear": lambda n: 100 * n,
    "n^0.8": lambda n: 100 * n**0.8,
    "contention": lambda n: 100 * n / (1 + 0.05 * (n - 1)),
    "two by two": lambda n: 150 * math.ceil(n / 2),
}
"""What n replicas sustain."""
EXECUTIONS = {
    "12 loads, 20 amounts": ExecutionFile(
        benchmark="simulated",
        loads=[80.0 * n for n in range(1, 13)],
        resources=[float(n) for n in range(1, 21)],
    ),
    "4 loads, 3 amounts": ExecutionFile(
        benchmark="simulated", loads=[50.0, 100.0, 150.0, 250.0], resources=[1.0, 2.0, 3.0]
    ),
}
"""A study, and the size of the benchmarks that ship."""
WAYS = tuple(
    (each, bound) for each in Strategy for bound in ((False,) if each is Strategy.full else (False, True))
)


@dataclass(frozen=True, slots=True)
class Row:
    """One strategy: experiments on each surface."""

    executed: str
    metric: Metric
    strategy: str
    experiments: Mapping[str, int]
    saved: float
    """Of what the full search takes, over all surfaces."""


def rows() -> Iterator[Row]:
    """Every strategy for both questions."""
    for executed, execution in EXECUTIONS.items():
        for metric in Metric:
            found = {way: {s: asked(execution, metric, s, *way) for s in SURFACES} for way in WAYS}
            full = found[Strategy.full, False]
            for (strategy, bound), by_surface in found.items():
                for surface, (answers, _) in by_surface.items():
                    assert answers == full[surface][0], (executed, metric, strategy, bound, surface)
                counts = {surface: count for surface, (_, count) in by_surface.items()}
                saved = 1 - sum(counts.values()) / sum(count for _, count in full.values())
                name = f"{strategy.value}, lower bound" if bound else strategy.value
                yield Row(executed, metric, name, counts, saved)


def asked(
    execution: ExecutionFile, metric: Metric, surface: str, strategy: Strategy, lower_bound: bool
) -> tuple[dict[float, float | None], int]:
    """What a strategy finds on a surface, and in how many experiments."""
    chosen = {"metric": metric, "strategy": strategy, "lower_bound": lower_bound}
    sustained = SURFACES[surface]
    found = search(execution.model_copy(update=chosen), lambda load, n: load <= sustained(n))
    return dict(found.answers), found.count


def report() -> str:
    """The tables, as Markdown."""
    made, text = list(rows()), []
    for executed in EXECUTIONS:
        for metric in Metric:
            own = [row for row in made if (row.executed, row.metric) == (executed, metric)]
            cells = [(row.strategy, *row.experiments.values(), f"{row.saved:.0%}") for row in own]
            text += [f"**{metric.value.capitalize()}, {executed}**", ""]
            text += [table(("strategy", *SURFACES, "saved"), cells), ""]
    return "\n".join(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables, and write them into the guide if asked to."""
    parser = argparse.ArgumentParser(description="Experiments that search strategies save, simulated.")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables into it")
    chosen = parser.parse_args(arguments)
    if chosen.markdown is not None:
        before = chosen.markdown.read_text(encoding="utf-8") if chosen.markdown.is_file() else ""
        chosen.markdown.write_text(between_markers(report(), "strategies", before), encoding="utf-8")
    if chosen.output == "table":
        print(report())
        return 0
    made = [
        {"executed": row.executed, "metric": row.metric.value, "strategy": row.strategy,
         "experiments": dict(row.experiments), "saved": row.saved}
        for row in rows()
    ]  # fmt: skip
    print(json.dumps(made, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
