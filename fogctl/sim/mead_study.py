"""The MEAD paper's evaluation in the simulator: targets met or missed, and CPU, beside its Tables I and II.

    python -m fogctl.sim.mead_study [--trace synt] [--trace bc] [--seeds 3] [-o table|json]

The log analysis (parser, then counter and matcher) in real-time mode, one replica a stage, five CPU levels.
SYNT: arrivals from MAPs whose burstiness changes abruptly. BC: the recorded inter-arrival times of the
BC-pAug89 Ethernet trace, read from `arrivals/bc_paug89.npz` in the folder FOGCTL_TEST_DATA.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from fogmodels.arrivals import MAP, fit_maps
from fognetem.matrix import LatencyMatrix
from numpy.typing import NDArray

from fogctl.agent.knowledge import Knowledge, StageKnowledge
from fogctl.agent.observation import Observation
from fogctl.agent.plan import Plan
from fogctl.agent.policies.mead import Mead, markovian
from fogctl.agent.policies.mead_gig1 import independent
from fogctl.agent.policies.mead_mg1 import poisson
from fogctl.agent.policies.mead_network import Model, Targets
from fogctl.agent.policies.threshold_vertical import ThresholdVertical
from fogctl.runtime.app import App, Mode, Stage
from fogctl.runtime.deployment import place
from fogctl.sim.parameters import StageParameters
from fogctl.sim.simulation import Simulation
from fogctl.sim.streams import QueueOutput, Timed
from fogctl.sim.target import SimTarget
from fogctl.testbed.model import Kind, Node, Role, Testbed

Vector = NDArray[np.float64]
Decide = Callable[[Observation, Knowledge], Plan]

STAGES = {"parser": ("lines", "entries"), "counter": ("entries", "counts"), "matcher": ("entries", "matches")}
EVERY_S, REACTIVE_EVERY_S = 60.0, 10.0
"""The paper's intervals: models every minute, thresholds every ten seconds."""
LOADS = {"parser": 0.10, "counter": 0.08}
MATCHER_LOAD = {"synt": 0.36, "bc": 0.39}
"""Utilisation of each stage at full share: the matcher is the bottleneck. The paper prints no loads; with
these, M/G/1 misses the tightest mean target by about as much as there (BC: 0.93 s here, 0.91 s there)."""
MEAN_S = {"synt": (0.1, 0.2, 0.3), "bc": (0.3, 0.5, 0.75)}
P95_S = {"synt": (0.5, 0.75), "bc": (0.5, 1.0)}
PAPER = {
    # Trace, figure, target: response time and CPU of M/G/1, GI/G/1 and MAP/G/1 (Tables I and II).
    ("synt", "mean", 0.1): ((0.254, 46.4), (0.177, 46.4), (0.056, 53.2)),
    ("synt", "mean", 0.2): ((0.393, 46.4), (0.208, 46.4), (0.127, 50.2)),
    ("synt", "mean", 0.3): ((0.609, 46.5), (0.263, 48.3), (0.142, 48.1)),
    ("bc", "mean", 0.3): ((0.906, 46.9), (0.820, 47.0), (0.035, 55.8)),
    ("bc", "mean", 0.5): ((2.101, 46.8), (1.194, 46.9), (0.158, 53.1)),
    ("bc", "mean", 0.75): ((2.800, 46.9), (2.210, 46.8), (0.368, 50.3)),
    ("synt", "p95", 0.5): ((1.478, 46.6), None, (0.371, 60.0)),
    ("synt", "p95", 0.75): ((1.184, 46.6), None, (0.590, 49.7)),
    ("bc", "p95", 0.5): ((3.871, 47.1), None, (0.195, 58.6)),
    ("bc", "p95", 1.0): ((3.711, 47.1), None, (0.274, 54.5)),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run: what was asked, what was measured along the matcher's path, what CPU was given."""

    trace: str
    seed: int
    figure: str
    target_s: float | None
    policy: str
    response_s: float
    cpu_percent: float
    paper_s: float | None = None
    paper_cpu_percent: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the target was met; None without one."""
        return None if self.target_s is None else self.response_s <= self.target_s


def bursty(rate: float, scv: float, decay: float) -> MAP:
    """Hyperexponential gaps (balanced means) whose branch is kept with probability `decay`."""
    if scv <= 1.0:
        return MAP.poisson(rate)
    p = 0.5 * (1.0 + np.sqrt((scv - 1.0) / (scv + 1.0)))
    weights = np.array([p, 1.0 - p])
    speeds = 2.0 * weights * rate
    stay = decay * np.eye(2) + (1.0 - decay) * np.outer(np.ones(2), weights)
    return MAP(-np.diag(speeds), speeds[:, None] * stay)


def synt(seed: int, seconds: float = 360.0, rate: float = 200.0) -> Timed:
    """Five pieces of equal length whose burstiness changes abruptly: none, some, none, much, some.

    The paper does not print its processes. These were chosen so that its simplest model, M/G/1, misses by
    about as much as in the paper (0.30 s and 1.49 s here, 0.25 s and 1.48 s there, for 0.1 s and p95 0.5 s).
    """
    shapes = ((1.0, 0.0), (2.0, 0.9), (1.0, 0.0), (3.0, 0.97), (2.0, 0.9))
    return Timed.of_maps([(bursty(rate, scv, decay), seconds) for scv, decay in shapes], seed=seed)


def bc(folder: Path) -> Timed | None:
    """The recorded trace's first half hour; None where it is not at hand."""
    file = folder / "arrivals" / "bc_paug89.npz"
    if not file.is_file():
        return None
    with np.load(file) as data:
        times = np.cumsum(data[data.files[0]])
    return Timed(times[times < 1800.0])


def run(
    arrivals: Timed, decide: Decide, every_s: float, seed: int = 0, matcher: float = MATCHER_LOAD["synt"]
) -> tuple[Vector, float]:
    """Response times along the matcher's path, and the mean share of all stages in per cent."""
    target = SimTarget(_simulation(arrivals, seed, {**LOADS, "matcher": matcher}))
    facts = target.facts("logs")
    known = Knowledge(
        target.latencies, facts.origins, facts.edge, {s.stage: StageKnowledge(s) for s in facts.stages}
    )
    given = 0.0
    while target.now_s() < arrivals.end_s:
        shares = [r.share for p in target.deployment("logs").stages for r in p.replicas]
        given += every_s * sum(shares) / len(shares)
        target.sleep(every_s)
        seen = Observation(
            target.now_s(),
            "logs",
            target.stages("logs"),
            target.nodes(),
            target.deployment("logs"),
            target.arrivals("logs"),
        )
        plan = decide(seen, known)
        known = Knowledge(
            known.latencies, known.origins, known.edge, known.stages, memory={**known.memory, **plan.remember}
        )
        target.apply("logs", plan)
    length_s = target.now_s()
    target.simulation.drain()
    output = target.simulation.stages["matcher"].output
    assert isinstance(output, QueueOutput)
    left, born = output.records
    return left - born, 100.0 * given / length_s


def study(
    trace: str, arrivals: Timed, seed: int = 0, say: Callable[[str], None] = print
) -> Iterator[Outcome]:
    """Every target and model on one trace. Fits are shared: the arrivals do not depend on the shares."""
    kept: dict[tuple[int, float, float], Sequence[MAP]] = {}

    def fits(gaps: Vector, best: int) -> Sequence[MAP]:
        key = (gaps.size, float(gaps.sum()), float(gaps[-1]))
        if key not in kept:
            kept[key] = fit_maps(gaps, best)
        return kept[key]

    careful, load = Mead().caution, MATCHER_LOAD[trace]
    models: dict[str, tuple[Model, float]] = {
        "M/G/1": (poisson, 1.0),
        "GI/G/1": (independent, 1.0),
        "MAP/G/1": (markovian(5, fits), 1.0),
        "M/G/1, careful": (poisson, careful),
        "mead as shipped": (markovian(5, fits), careful),
    }
    wanted = [("mean", None, s) for s in MEAN_S[trace]] + [("p95", 0.95, s) for s in P95_S[trace]]
    for figure, percentile, target_s in wanted:
        printed = dict(zip(models, PAPER[trace, figure, target_s], strict=False))
        for name, (model, caution) in models.items():
            if percentile is not None and name == "GI/G/1":
                continue  # Kingman's formula has no percentiles
            say(f"{trace} {seed}: {figure} {target_s} s, {name}")
            own = caution > 1.0  # the paper's algorithm looks at no backlog
            targets = Targets(1e3 * target_s, percentile, clear_backlog=own, caution=caution)
            times, cpu = run(arrivals, partial(targets.decide, model=model), EVERY_S, seed, load)
            paper = printed.get(name) or (None, None)
            yield Outcome(trace, seed, figure, target_s, name, _figure(times, percentile), cpu, *paper)
    for figure, percentile in (("mean", None), ("p95", 0.95)):
        say(f"{trace} {seed}: {figure}, thresholds and full share")
        times, cpu = run(arrivals, ThresholdVertical().decide, REACTIVE_EVERY_S, seed, load)
        yield Outcome(trace, seed, figure, None, "threshold", _figure(times, percentile), cpu)
        times, cpu = run(arrivals, _static, EVERY_S, seed, load)
        yield Outcome(trace, seed, figure, None, "static 100 %", _figure(times, percentile), cpu)


def _static(seen: Observation, known: Knowledge) -> Plan:  # noqa: ARG001
    return Plan.keep("every stage has all of its CPU")


def _figure(times: Vector, percentile: float | None) -> float:
    return float(times.mean() if percentile is None else np.quantile(times, percentile))


def _simulation(arrivals: Timed, seed: int, loads: Mapping[str, float]) -> Simulation:
    stages = tuple(
        Stage(name, name, (source,), output, 1, 5000.0, 1 << 28, Mode.real_time, ())
        for name, (source, output) in STAGES.items()
    )
    app = App("logs", Path("app.py"), stages, Path("app.yaml"))
    nodes = (
        Node("cloud", Role.control, "dc", "host", None, None),
        *(Node(name, Role.edge, "fog", "rpi4-4g", 1.0, 1 << 32) for name in STAGES),
    )
    testbed = Testbed("mead", Kind.sim, nodes, LatencyMatrix(("cloud", *STAGES)))
    rate = arrivals.total / arrivals.end_s
    parameters = {
        name: StageParameters(mu_per_s=rate / load, beta=1.0, reference_cores=1.0, service_scv=0.5)
        for name, load in loads.items()
    }
    deployment = place(app, {name: [name] for name in STAGES}, ())
    return Simulation(testbed, app, {"lines": arrivals}, deployment, parameters, seed=seed)


def table(outcomes: Sequence[Outcome]) -> str:
    """Markdown: the slowest seed's response time (bold: too long) and the median CPU; the paper's beside."""
    ours = ("M/G/1", "GI/G/1", "MAP/G/1", "M/G/1, careful", "mead as shipped")
    paper = ours[:3]
    free = tuple(dict.fromkeys(o.policy for o in outcomes if o.target_s is None))
    head = ["trace, target", *ours, *(f"*paper: {name}*" for name in paper)]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    below: list[str] = []
    groups: dict[tuple[Any, ...], list[Outcome]] = {}
    for outcome in outcomes:
        key = (outcome.trace, outcome.figure, outcome.target_s)
        groups.setdefault(key, []).append(outcome)
    for (trace, figure, target_s), runs in groups.items():
        own = {name: [run for run in runs if run.policy == name] for name in (*ours, *free)}
        if target_s is None:
            told = ", ".join(f"{name} {_cell(own[name])}" for name in free)
            below.append(f"{trace.upper()}, {figure}, without a target: {told}")
            continue
        cells = [f"{trace.upper()}, {figure} {target_s:g} s", *(_cell(own[name]) for name in ours)]
        cells += [_printed(own[name]) for name in paper]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", *below])


def _cell(runs: Sequence[Outcome]) -> str:
    if not runs:
        return "–"
    slowest = max(run.response_s for run in runs)
    cpu = float(np.median([run.cpu_percent for run in runs]))
    return f"{_seconds(slowest, runs[0].target_s)} / {cpu:.1f} %"


def _printed(runs: Sequence[Outcome]) -> str:
    if not runs or runs[0].paper_s is None:
        return "–"
    return f"{_seconds(runs[0].paper_s, runs[0].target_s)} / {runs[0].paper_cpu_percent:.1f} %"


def _seconds(value: float, target_s: float | None) -> str:
    text = f"{value:.3f}" if value < 1 else f"{value:.2f}"
    return f"**{text}**" if target_s is not None and value > target_s else text


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study and print it."""
    here = Path(__file__).resolve().parents[2].parent / "shared" / "data"
    parser = argparse.ArgumentParser(description="MEAD's evaluation in the simulator.")
    parser.add_argument("--trace", action="append", choices=("synt", "bc"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    chosen = parser.parse_args(arguments)
    folder = Path(os.environ.get("FOGCTL_TEST_DATA", here))
    outcomes: list[Outcome] = []
    for trace in chosen.trace or ("synt", "bc"):
        for seed in range(1, chosen.seeds + 1):
            arrivals = synt(seed) if trace == "synt" else bc(folder)
            if arrivals is None:
                print(f"BC is left out: {folder} has no arrivals/bc_paug89.npz", file=sys.stderr)
                break
            outcomes += study(trace, arrivals, seed, lambda text: print(text, file=sys.stderr))
    print(json.dumps([asdict(o) for o in outcomes]) if chosen.output == "json" else table(outcomes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
