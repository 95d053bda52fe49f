"""Figures of the throughput model: errors on the measured Spark grid, time of a refit, node sets."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from statistics import fmean

import numpy as np
from fogmodels.throughput import Sample, ThroughputModel, fit, tightest_set
from fogmodels.throughput.model import FormName

from benchmarks.cpu import cpu_s
from benchmarks.row import Row

DATA = Path(os.environ.get("FOGCTL_TEST_DATA", Path(__file__).parents[3] / "shared" / "data"))
GRID = DATA / "spark" / "mst_grid.csv"
HOLD_OUTS = {"batch_rows": "batch sizes", "replicas": "replica counts", "rtt_max_ms": "round trips"}
PEER = "Gesscale's form, same samples"


def rows() -> Iterator[Row]:
    """Measure; without the grid the errors are left out and the times are of synthetic samples."""
    measured = _grid()
    if measured:
        yield from _errors(measured)
    samples = measured or _synthetic()
    *before, last = samples
    for form in ("batch", "gesscale"):
        model = fit(before, form)
        cpu = 1e3 * cpu_s(partial(model.add, last), repeats=200)[0]
        yield Row(f"add a sample and refit, {form} form, {len(samples)} samples", cpu, "CPU ms", target=1.0)
    auto = 1e3 * cpu_s(lambda: fit(samples))[0]
    yield Row(f"fit and choose the form by leave-one-out, {len(samples)} samples", auto, "CPU ms")
    model = fit(samples, "batch" if measured else "gesscale")
    yield Row("one prediction", 1e6 * cpu_s(lambda: model.mst(3, 100.0, 500.0, 8), repeats=2000)[0], "CPU µs")
    places = np.random.default_rng(0).uniform(0.0, 100.0, (100, 2))
    apart = np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1))
    yield Row(
        "tightest 20 of 100 places, exact",
        1e3 * cpu_s(lambda: tightest_set(apart, 20), repeats=5)[0],
        "CPU ms",
    )


def _errors(samples: list[Sample]) -> Iterator[Row]:
    forms: tuple[FormName, ...] = ("batch", "gesscale")
    models = {form: fit(samples, form) for form in forms}
    fitted = {form: 100 * fmean(_relative(model, samples)) for form, model in models.items()}
    yield _row("mean error on the points it was fitted to", fitted, 5.0)
    single = {form: 100 * fmean(model.leave_one_out()) for form, model in models.items()}
    yield _row("mean error on points left out one by one", single, 10.0)
    for key, words in HOLD_OUTS.items():
        groups = sorted({getattr(s, key) for s in samples})
        errors: dict[FormName, list[float]] = {"batch": [], "gesscale": []}
        for value in groups:
            held = [s for s in samples if getattr(s, key) == value]
            kept = [s for s in samples if getattr(s, key) != value]
            for form, found in errors.items():
                found += _relative(fit(kept, form), held)
        mean = {form: 100 * fmean(found) for form, found in errors.items()}
        worst = 100 * max(errors["batch"])
        yield _row(f"mean error on {words} never seen", mean, 10.0, f"worst point {worst:.0f} %")


def _row(what: str, error: Mapping[FormName, float], target: float, note: str = "") -> Row:
    return Row(what, error["batch"], "%", target=target, peer=error["gesscale"], peer_name=PEER, note=note)


def _relative(model: ThroughputModel, samples: list[Sample]) -> list[float]:
    return [abs(model.mst(s.replicas, s.rtt_max_ms, s.batch_rows, s.partitions) / s.mst - 1) for s in samples]


def _grid() -> list[Sample]:
    if not GRID.is_file():
        return []
    with GRID.open() as file:
        return [
            Sample(
                int(line["replicas"]),
                float(line["rtt_max_ms"]),
                float(line["mst_rec_s"]),
                float(line["batch_rows"]),
                int(line["partitions"]),
            )
            for line in csv.DictReader(file)
        ]


def _synthetic() -> list[Sample]:
    rng = np.random.default_rng(0)
    points = [
        (n, rtt, size) for n in (1, 2, 4) for rtt in (0.0, 50.0, 150.0, 300.0) for size in (300.0, 1500.0)
    ]
    return [
        Sample(
            n,
            rtt,
            size / (0.9 / n + size / (120 * n) + (4 + 16 / n) * rtt / 1e3) * rng.normal(1, 0.03),
            size,
            8,
        )
        for n, rtt, size in points
    ]
