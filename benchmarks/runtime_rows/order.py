"""Why the choice of nodes matters on Spark: what n replicas sustain, nearest first and in random order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from fogmodels.throughput import Sample, fit

from benchmarks.row import Row
from benchmarks.runtime_rows.bed import Bed, Settings, bed
from benchmarks.runtime_rows.throughput import rate_of, refill, warm
from fogctl.experiment import experiment
from fogctl.testbed.model import Role

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "img" / "runtime-order.svg"
_CPU_CORES = 0.16
_NEAREST = "nearest first"
_SETTLE_S, _LOOK_S = 20.0, 15.0


@dataclass(frozen=True, slots=True)
class Point:
    """What was measured of one set of nodes."""

    order: str
    replicas: int
    rtt_max_ms: float
    rate_per_s: float
    batch_rows: float


def rows(settings: Settings) -> Iterator[Row]:
    """Records a second at the freshness bound, for growing sets of the nodes of the testbed `gesscale`."""
    far_ms = distances_ms()
    orders = {_NEAREST: far_ms}
    for seed in (1,) if settings.quick else (1, 2, 3):
        orders[f"random order {seed}"] = random.Random(seed).sample(far_ms, len(far_ms))
    counts = (1, 2) if settings.quick else (1, 2, 4, 6, 8)
    points: list[Point] = []
    with bed("taxi", max(counts), rtt_ms=5, cpu_cores=_CPU_CORES) as here:
        for count in counts:
            nodes = [f"pi{number}" for number in range(1, count + 1)]
            if count == counts[0]:
                here.deploy(nodes)
            else:
                here.apps.scale("taxi", "nearest", nodes)
            here.set_rtts(dict.fromkeys(nodes, 5.0))
            warm(here, 150 * count)
            # The same warm replicas stand for each set in turn: only their distances are those of its nodes.
            for order, all_ms in orders.items():
                set_ms = dict(zip(nodes, all_ms[:count], strict=True))
                here.set_rtts(set_ms)
                point = _at_the_bound(here, order, max(set_ms.values()), count)
                points.append(point)
                note = f"the farthest at {point.rtt_max_ms:.0f} ms"
                yield Row(f"{count} replicas, {order}", point.rate_per_s, "records/s", note=note)
    for count in counts:
        near = next(p.rate_per_s for p in points if p.order == _NEAREST and p.replicas == count)
        others = [p.rate_per_s for p in points if p.order != _NEAREST and p.replicas == count]
        what = f"{count} replicas, nearest first against random order"
        yield Row(what, near, "records/s", None, fmean(others), "random, mean", more_is_better=True)
    _draw(points)


def distances_ms() -> list[float]:
    """How far the edge nodes of the experiment `gesscale` are from control and broker, nearest first."""
    testbed = experiment.load("gesscale").testbed
    origins = [node.name for node in testbed.nodes if node.role is not Role.edge]
    edges = [node.name for node in testbed.nodes if node.role is Role.edge]
    return sorted(testbed.latencies.max_rtt_ms(origins, edge) for edge in edges)


def _at_the_bound(here: Bed, order: str, rtt_max_ms: float, replicas: int) -> Point:
    refill(here, 20_000)
    here.ask({"ask": "batch", "max_rows": None})
    here.batches(_SETTLE_S)
    found = here.batches(_LOOK_S)
    while len(found) < 3:
        found += here.batches(_LOOK_S)
    return Point(order, replicas, rtt_max_ms, rate_of(found), fmean(each["numInputRows"] for each in found))


def _draw(points: list[Point]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    samples = [Sample(p.replicas, p.rtt_max_ms, p.rate_per_s, p.batch_rows, 8) for p in points]
    model = fit(samples, form="batch")
    figure, axis = pyplot.subplots(figsize=(6, 3.8))
    near = [point for point in points if point.order == _NEAREST]
    axis.plot([p.replicas for p in near], [p.rate_per_s for p in near], "o-", color="C0", label=_NEAREST)
    said = [model.mst(p.replicas, p.rtt_max_ms, p.batch_rows, 8) for p in near]
    axis.plot([p.replicas for p in near], said, ":", color="C0", label="its model")
    for number, order in enumerate(dict.fromkeys(p.order for p in points if p.order != _NEAREST)):
        some = [point for point in points if point.order == order]
        style = ("s--", "^--", "v--")[number % 3]
        axis.plot([p.replicas for p in some], [p.rate_per_s for p in some], style, color="C1", label=order)
    axis.set_xlabel("replicas")
    axis.set_ylabel("records/s sustained")
    axis.set_ylim(bottom=0)
    axis.legend()
    figure.tight_layout()
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, metadata={"Date": None})
    pyplot.close(figure)
