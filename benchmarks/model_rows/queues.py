"""Figures of the arrival and queue models: fit, exact solution beside LINE, prediction on the BC trace."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from fogmodels.arrivals import MAP, fit_map
from fogmodels.queueing import VARIANTS, PhaseType, lindley, predict, solve
from numpy.typing import NDArray

from benchmarks.cpu import cpu_s
from benchmarks.row import Row

DATA = Path(os.environ.get("FOGCTL_TEST_DATA", Path(__file__).parents[3] / "shared" / "data")) / "arrivals"
LOADS = (0.3, 0.5, 0.7, 0.8, 0.9)
EVENTS = 50_000
WINDOWS = 20


def rows() -> Iterator[Row]:
    """Measure; without the recorded data a bursty process of our own stands in, and the rows say so."""
    windows, source = _windows()
    yield from _fit(windows, source)
    yield from _solve()
    yield from _predict(windows, source)


def _windows() -> tuple[list[NDArray[np.float64]], str]:
    file = DATA / "bc_paug89.npz"
    if file.exists():
        trace, source = np.load(file)["iat"], "BC trace"
    else:
        bursts = MAP([[-11.0, 1.0], [0.02, -0.32]], [[10.0, 0.0], [0.0, 0.3]])
        trace, source = bursts.sample(EVENTS * WINDOWS, np.random.default_rng(0)), "synthetic bursts"
    cut = [trace[i * EVENTS : (i + 1) * EVENTS] for i in range(WINDOWS)]
    return [window for window in cut if window.size >= EVENTS - 1], source


def _fit(windows: list[NDArray[np.float64]], source: str) -> Iterator[Row]:
    seconds = float(np.median([cpu_s(partial(fit_map, window), rounds=1)[0] for window in windows[:7]]))
    for peer, name in ((12.0, "MEAD, published (wall)"), (950.0, "KPC-Toolbox in Octave")):
        yield Row(
            f"fit a MAP to {EVENTS:,} arrivals",
            seconds,
            "CPU s",
            target=0.5,
            peer=peer,
            peer_name=name,
            note=source,
        )


def _solve() -> Iterator[Row]:
    what = "mean, p95 and p99 of MAP/PH/1, 16 states"
    cases, note = _cases()
    if not cases:
        made = MAP([[-11.0, 1.0], [0.02, -0.32]], [[10.0, 0.0], [0.0, 0.3]])
        made = made.superposed(made).superposed(made).superposed(made)
        service = PhaseType.erlang(2, 0.9 * made.mean)
        ours = 1e3 * cpu_s(partial(_figures, made, service), rounds=9)[0]
        yield Row(
            what, ours, "CPU ms", target=10.0, peer=2500.0, peer_name="MEAD, published (wall)", note=note
        )
        return
    worst, slowest, largest = 0.0, 0.0, [case for case in cases if case["states"] == 16]
    for case in cases:
        arrivals, service = _queue(case)
        response = solve(arrivals, service)
        seen = (response.mean, response.percentile(95), response.percentile(99))
        worst = max(
            worst, *(abs(a / case[key] - 1) for a, key in zip(seen, ("mean", "p95", "p99"), strict=True))
        )
    for case in largest:
        arrivals, service = _queue(case)
        slowest = max(slowest, 1e3 * cpu_s(partial(_figures, arrivals, service), rounds=9)[0])
    yield Row(what, slowest, "CPU ms", target=10.0, peer=2500.0, peer_name="MEAD, published (wall)")
    yield Row("worst error against the exact figures", worst, "relative", target=1e-8)
    installed = importlib.util.find_spec("line_solver") is not None
    for case in largest:
        arrivals, service = _queue(case)
        ours = 1e3 * cpu_s(partial(solve, arrivals, service), rounds=9)[0]
        line, theirs = _line(case) if installed else (None, None)
        off = None if line is None else max(line / case["mean"], case["mean"] / line)
        yield Row(
            f"mean of MAP/PH/1, 16 states, load {case['rho']}",
            ours,
            "CPU ms",
            target=10.0,
            peer=theirs,
            peer_name="LINE (MAM)",
            note="line-solver is not installed: not run" if off is None else f"LINE's mean is {off:.3g}x off",
        )


def _predict(windows: list[NDArray[np.float64]], source: str) -> Iterator[Row]:
    for load in LOADS:
        truths, ours, simple = [], [], []
        for i, window in enumerate(windows):
            unit = load * float(window.mean())
            service = PhaseType.erlang(2, unit)
            work = np.random.default_rng(1000 + i).standard_gamma(2, size=window.size) * unit / 2
            truths.append(float(lindley(window, work).mean()) / unit)
            ours.append(predict(window, service).mean / unit)
            simple.append(VARIANTS["M/G/1"](window, service).mean / unit)
        yield Row(
            f"predicted mean response, load {load}",
            _factor(ours, truths),
            "times off",
            target=1.5,
            peer=_factor(simple, truths),
            peer_name="M/G/1",
            note=f"{source}, same window, median of {len(windows)}",
        )
        yield Row(
            f"predicted mean response, load {load}, next window",
            _factor(ours[:-1], truths[1:]),
            "times off",
            target=1.02 * _factor(truths[:-1], truths[1:]),
            peer=_factor(truths[:-1], truths[1:]),
            peer_name="replay, one draw of services",
            note=source,
        )


def _cases() -> tuple[list[dict[str, Any]], str]:
    file = DATA / "map_ph_1_reference.json"
    if not file.exists():
        return [], f"{file.name} not found; set FOGCTL_TEST_DATA"
    return json.loads(file.read_text()), ""


def _queue(case: dict[str, Any]) -> tuple[MAP, PhaseType]:
    return MAP(case["D0"], case["D1"]), PhaseType(case["service"]["beta"], case["service"]["S"])


def _figures(arrivals: MAP, service: PhaseType) -> None:
    response = solve(arrivals, service)
    response.percentile(95)
    response.percentile(99)


def _line(case: dict[str, Any]) -> tuple[float, float]:
    """LINE's mean for a case and the CPU milliseconds it took."""
    import line_solver as line

    begin = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        model = line.Network("queue")
        source, queue, sink = (
            line.Source(model, "source"),
            line.Queue(model, "queue", line.SchedStrategy.FCFS),
            line.Sink(model, "sink"),
        )
        jobs = line.OpenClass(model, "jobs")
        source.setArrival(jobs, line.MAP(np.array(case["D0"]), np.array(case["D1"])))
        queue.setService(jobs, line.Erlang.fit_mean_and_order(case["service"]["mean"], 2))
        model.link(line.Network.serial_routing([source, queue, sink]))
        found = line.SolverMAM(model).avg_table()
        mean = float(np.max(np.asarray(found["RespT"], dtype=float)))
    return mean, 1e3 * (time.process_time() - begin)


def _factor(predicted: list[float], true: list[float]) -> float:
    ratio = np.asarray(predicted) / np.asarray(true)
    return float(np.median(np.maximum(ratio, 1 / ratio)))
