"""How fast the simulator is with the whole agent around it: taxi days × policies, and a thousand nodes.

    python benchmarks/sim.py [--only PART ...] [-o json] [--markdown FILE]

CPU seconds of one process. The exit code is 1 if a part fails or a target is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# `benchmarks` is importable whatever folder this is started from.
sys.path[0:1] = [str(ROOT)]

import numpy as np  # noqa: E402
from fognetem.matrix import LatencyMatrix  # noqa: E402
from fognetem.matrix import Path as NetworkPath  # noqa: E402

from benchmarks.report import Report, collect, machine, publish  # noqa: E402
from benchmarks.row import Row  # noqa: E402
from fogctl.agent import policy as policies  # noqa: E402
from fogctl.agent.events import MemoryLog  # noqa: E402
from fogctl.agent.loop import Agent  # noqa: E402
from fogctl.agent.settings import AgentSettings  # noqa: E402
from fogctl.agent.store import MemoryStore  # noqa: E402
from fogctl.config import shipped, testbed  # noqa: E402
from fogctl.runtime import app as apps  # noqa: E402
from fogctl.runtime.app import App, Stage  # noqa: E402
from fogctl.runtime.app_file import Mode  # noqa: E402
from fogctl.runtime.deployment import place  # noqa: E402
from fogctl.sim import Counted, SimTarget, Simulation  # noqa: E402
from fogctl.testbed.model import Kind, Node, Role, Testbed  # noqa: E402
from fogctl.trace import MakeOptions, make  # noqa: E402
from fogctl.trace.replay import Pace  # noqa: E402

SIX = ("thr-nlunaware", "thr-nlaware", "mdl-nlunaware", "gesscale", "gesscale-spark", "hybrid")
LENGTH_S = 17_280.0
"""Two days at the paper's speed factor of 10."""


def rows_of_days() -> Iterator[Row]:
    """Two taxi days × six policies on the paper's ten nodes."""
    bed = testbed.load(shipped.folder(shipped.Example.gesscale) / "testbed.yaml", host_cores=2.0)
    app = apps.load("taxi")
    rides = make(MakeOptions(days=2))
    arrivals = Counted.of_rides(rides, Pace(10.0, 3))
    for every_s, target in ((60.0, 5.0), (10.0, None)):
        total, decisions = 0.0, 0
        for name in SIX:
            simulation = Simulation(bed, app, {"rides": arrivals}, place(app, {"nearest": ["pi1"]}, ()))
            cpu_s, made = _run(simulation, name, every_s)
            total += cpu_s
            decisions += made
        note = f"{decisions:,} decisions, {int(arrivals.total):,} records a policy"
        yield Row(f"two days × six policies, a look every {every_s:g} s", total, "CPU s", target, note=note)


def rows_of_nodes() -> Iterator[Row]:
    """Two days on a thousand nodes, one stage that needs most of them at the peak."""
    nodes = 1000
    names = [f"n{i}" for i in range(nodes)]
    far = 300.0 * (np.arange(nodes) / (nodes - 1)) ** 1.5
    bed = Testbed(
        "thousand",
        Kind.sim,
        (
            Node("cloud", Role.control, "dc", "host", None, None),
            *(Node(name, Role.edge, "fog", "rpi4-2g", 0.16, 1 << 29) for name in names),
        ),
        LatencyMatrix(
            ("cloud", *names),
            tuple(
                ("cloud", name, NetworkPath(rtt_ms=float(ms))) for name, ms in zip(names, far, strict=True)
            ),
        ),
    )
    stage = Stage("work", "work", ("records",), "done", nodes, 5000.0, 1 << 28, Mode.micro_batch, ())
    app = App("wide", Path("app.py"), (stage,), Path("app.yaml"))
    hours = np.arange(LENGTH_S) / 360.0
    arrivals = Counted(np.round(12_000 * (1.0 + 0.8 * np.sin(2 * np.pi * (hours - 9) / 24))))
    for name in ("gesscale-spark", "thr-nlunaware"):
        started = time.process_time()
        simulation = Simulation(bed, app, {"records": arrivals}, place(app, {"work": names[:150]}, ()))
        built_s = time.process_time() - started
        cpu_s, decisions = _run(simulation, name, 60.0)
        most = max(count for _, count in simulation.supply["work"])
        note = f"{decisions:,} decisions, up to {most} replicas"
        yield Row(f"two days, 1,000 nodes, {name}", built_s + cpu_s, "CPU s", 60.0, note=note)


def _run(simulation: Simulation, policy: str, every_s: float) -> tuple[float, int]:
    """CPU seconds of the whole loop, and the decisions made."""
    started = time.process_time()
    settings = AgentSettings.model_validate({"every": f"{every_s:g}s"})
    agent = Agent(
        SimTarget(simulation),
        simulation.app.name,
        policies.make(policy),
        settings,
        MemoryStore(),
        MemoryLog(),
    )
    agent.run(until_s=LENGTH_S)
    simulation.drain(LENGTH_S)
    return time.process_time() - started, agent.state.learned.decisions


PARTS = {"days": rows_of_days, "nodes": rows_of_nodes}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and say by the exit code whether everything ran and met its target."""
    parser = argparse.ArgumentParser(description="Speed of the simulator with the agent around it.")
    parser.add_argument("--only", action="append", choices=[*PARTS], metavar="PART", help=", ".join(PARTS))
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="also write the table (between markers)"
    )
    chosen = parser.parse_args(arguments)
    facts = machine(("numpy", "scipy"))
    report = Report(tuple(collect(name, partial(PARTS[name])) for name in chosen.only or PARTS), facts)
    publish(report, "sim", chosen.output, chosen.markdown)
    return report.exit_code


if __name__ == "__main__":
    sys.exit(main())
