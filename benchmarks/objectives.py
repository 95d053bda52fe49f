"""How often objectives on the lag are wrong, on simulated lag whose truth is known: false alarms and misses.

    python benchmarks/objectives.py [--runs N] [--markdown docs/bench.md] [-o json]

Needs no testbed. Five rules: regression over the samples (p < 5 %), the thesis' ratio of 5 %, its ratio
widened for Spark (a cycle's records over the time looked at), the objective `lag-trend`, and what a benchmark
has unless told otherwise: that and `processed`.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[0:1] = [str(ROOT)]

from benchmarks.campaign import table  # noqa: E402
from benchmarks.report import placed as between_markers  # noqa: E402
from fogctl.bench.bench_file import Slo, SloKind  # noqa: E402
from fogctl.bench.objectives import judge  # noqa: E402
from fogctl.planner.measure import Window  # noqa: E402
from fogctl.planner.simulated import SimulatedStage  # noqa: E402

RUNS = 60
LOOKED_S = 230.0
RULES = ("regression, p < 5 %", "ratio 5 %", "ratio widened", "`lag-trend`", "and `processed`")
OURS = (Slo(kind=SloKind.lag_trend), Slo(kind=SloKind.processed))
CYCLES_S = (5.0, 15.0, 30.0, 60.0)
LOADS = (0.5, 0.9, 1.1, 1.2)
SHORT_CYCLES_S = (2.0, 5.0)
LOOKS_S = (30.0, 60.0, 120.0, 240.0)


@dataclass(frozen=True, slots=True)
class Lag:
    """Lag of a kind: at a share of what the engine sustains, with batches of about that length."""

    load: float
    cycle_s: float
    even: bool = False
    """Batches at fixed times that hardly vary; else one after the other, 20 % longer or shorter."""
    looked_s: float = LOOKED_S

    @property
    def kept_up(self) -> bool:
        """Whether an alarm would be a false one."""
        return self.load < 1


def window(lag: Lag, seed: int) -> tuple[Window, float]:
    """One run, looked at from some moment of a batch on; and its rate."""
    engine = SimulatedStage(
        2000.0,
        fixed_s=0.5 * lag.cycle_s,
        freshness_s=lag.cycle_s,
        trigger_s=lag.cycle_s if lag.even else 0.0,
        jitter=0.05 if lag.even else 0.2,
        seed=seed,
    )
    rate = lag.load * engine.mst
    engine.run(rate, 60 + 3 * lag.cycle_s + (7.3 * seed) % lag.cycle_s)
    return engine.run(rate, lag.looked_s), rate


@functools.cache
def alarms(lag: Lag, runs: int = RUNS) -> tuple[float, ...]:
    """How often each rule says that the lag grows."""
    from scipy.stats import linregress

    count = [0] * len(RULES)
    for seed in range(runs):
        seen, rate = window(lag, seed)
        line = linregress(seen.times_s, seen.lags)
        trend, processed = judge(seen, rate, OURS)
        said = (
            line.slope > 0 and line.pvalue < 0.05,
            line.slope > 0.05 * rate,
            line.slope > lag.cycle_s / lag.looked_s * rate,
            not trend.met,
            not (trend.met and processed.met),
        )
        count = [before + bool(each) for before, each in zip(count, said, strict=True)]
    return tuple(each / runs for each in count)


def wrong(lag: Lag, runs: int = RUNS) -> tuple[float, ...]:
    """Shares of false alarms where the engine keeps up, of misses where it does not."""
    return tuple(share if lag.kept_up else 1 - share for share in alarms(lag, runs))


def by_rule(even: bool) -> Iterator[Lag]:
    """The cases that rules are compared in."""
    return (Lag(load, cycle_s, even) for cycle_s in CYCLES_S for load in LOADS)


def by_length() -> Iterator[Lag]:
    """The cases that show how long to look."""
    return (
        Lag(load, cycle_s, looked_s=looked_s)
        for cycle_s in SHORT_CYCLES_S
        for looked_s in LOOKS_S
        for load in LOADS[1:]
    )


def report(runs: int = RUNS) -> str:
    """The tables, as Markdown."""
    text = []
    for even, about in (
        (False, "Batches one after the other, of uneven length (20 %)"),
        (True, "Batches at fixed times, of even length (5 %)"),
    ):
        rows = [
            (f"{lag.cycle_s:g} s", f"{lag.load:.0%}", "false alarms" if lag.kept_up else "missed",
             *(f"{share:.0%}" for share in wrong(lag, runs)))
            for lag in by_rule(even)
        ]  # fmt: skip
        said = f"**{about}**, {LOOKED_S:g} s looked at, {runs} runs: the share of wrong answers."
        text += [said, "", table(("batch", "load", "", *RULES), rows), ""]
    rows = [
        (f"{lag.cycle_s:g} s", f"{lag.looked_s:g} s", f"{lag.load:.0%}",
         "false alarms" if lag.kept_up else "missed", *(f"{share:.0%}" for share in wrong(lag, runs)[-2:]))
        for lag in by_length()
    ]  # fmt: skip
    heads = ("batch", "looked at", "load", "", *RULES[-2:])
    text += [f"**How long to look**, uneven batches, {runs} runs.", "", table(heads, rows)]
    return "\n".join(text) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables, and write them into the guide if asked to."""
    parser = argparse.ArgumentParser(description="False alarms and misses of objectives on simulated lag.")
    parser.add_argument("--runs", type=int, default=RUNS, help=f"of each case ({RUNS})")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables into it")
    chosen = parser.parse_args(arguments)
    if chosen.runs < 1:
        parser.error("--runs must be at least 1")
    if chosen.markdown is not None:
        before = chosen.markdown.read_text(encoding="utf-8") if chosen.markdown.is_file() else ""
        text = between_markers(report(chosen.runs), "objectives", before)
        chosen.markdown.write_text(text, encoding="utf-8")
    if chosen.output == "table":
        print(report(chosen.runs))
        return 0
    cases = (*by_rule(False), *by_rule(True), *by_length())
    found = [
        {**asdict(lag), "wrong": dict(zip(RULES, wrong(lag, chosen.runs), strict=True))} for lag in cases
    ]
    print(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
