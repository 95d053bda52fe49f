"""Throughput against replicas, distance and share, beside what the batch-time and the paper's form fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fogmodels.throughput import Sample, ThroughputModel, fit
from fogmodels.throughput.model import FormName

from benchmarks.row import Row
from benchmarks.runtime_rows.bed import Bed, Settings, bed

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "img" / "runtime-throughput.svg"
_BACKLOG = 30_000
_CPU_CORES = 0.25
"""Four such nodes leave a core to what runs beside them."""
_WARM_S = 15.0
UNSEEN = (
    ((5.0, 30.0, 60.0, 150.0), 400),
    ((5.0, 5.0, 200.0, 200.0), 600),
    ((50.0, 50.0, 50.0, 50.0), 1200),
    ((10.0, 60.0, 220.0), 500),
    ((30.0, 30.0, 30.0), 1000),
    ((20.0, 180.0), 300),
)
"""Node sets and batch sizes that no model was fitted to: round trips in ms, and rows."""


def rows(settings: Settings) -> Iterator[Row]:
    """Records a second at saturation, with batches of fixed size; and how far two models are off."""
    samples: list[Sample] = []
    replicas = (1, 2) if settings.quick else (1, 2, 4)
    rtts = (5.0, 150.0) if settings.quick else (5.0, 100.0, 300.0)
    sizes = (200,) if settings.quick else (200, 800)
    with bed("taxi", max(replicas), rtt_ms=5, cpu_cores=_CPU_CORES) as here:
        stage = here.app.stages[0]
        tasks = max(1, stage.partitions // stage.slots)
        for count in replicas:
            nodes = [f"pi{number}" for number in range(1, count + 1)]
            if count == replicas[0]:
                here.deploy(nodes)
                here.fill(_BACKLOG)
            else:
                here.apps.scale("taxi", "nearest", nodes)
            warm(here, sizes[-1])
            for rtt_ms in rtts:
                here.set_rtts(dict.fromkeys(nodes, rtt_ms))
                for rows_a_batch in sizes:
                    rate = saturated(here, rows_a_batch, 10 if settings.quick else 15)
                    samples.append(Sample(count, rtt_ms, rate, rows_a_batch, tasks))
                    what = f"{count} replicas at {rtt_ms:g} ms, batches of {rows_a_batch}"
                    yield Row(what, rate, "records/s")
        afterwards = []
        for set_ms, rows_a_batch in () if settings.quick else UNSEEN:
            nodes = [f"pi{number}" for number in range(1, len(set_ms) + 1)]
            here.apps.scale("taxi", "nearest", nodes)
            here.set_rtts(dict(zip(nodes, set_ms, strict=True)))
            rate = saturated(here, rows_a_batch, 15)
            afterwards.append(Sample(len(nodes), max(set_ms), rate, rows_a_batch, tasks))
            where = ", ".join(f"{rtt_ms:g}" for rtt_ms in set_ms)
            what = f"afterwards: replicas at {where} ms, batches of {rows_a_batch}"
            yield Row(what, rate, "records/s")
        nodes = [f"pi{number}" for number in range(1, max(replicas) + 1)]
        here.apps.scale("taxi", "nearest", nodes)
        here.set_rtts(dict.fromkeys(nodes, 5.0))
        if afterwards:
            warm(here, sizes[-1])
        whole = None
        for share in (1.0, 0.5, 0.25):
            here.apps.share("taxi", "nearest", share)
            rate = saturated(here, sizes[0], 10 if settings.quick else 15)
            whole = whole or rate
            note = f"{rate / whole:.0%} of the whole"
            yield Row(f"{max(replicas)} replicas with {share:.0%} of their CPU", rate, "records/s", note=note)
    yield from _fits(samples, afterwards)


def warm(here: Bed, rows_a_batch: int) -> None:
    """Return when new executors are as fast as they get: at a quarter of a core compiling takes a while."""
    before = saturated(here, rows_a_batch, _WARM_S)
    for _ in range(6):
        now = saturated(here, rows_a_batch, _WARM_S)
        if now < before * 1.05:
            return
        before = now


def refill(here: Bed, least: int) -> None:
    """See to it that at least so many records wait."""
    done = sum(each["numInputRows"] for each in here.progress())
    if here.apps.sent(here.app.name) - done < least:
        here.fill(_BACKLOG)


def rate_of(batches: Sequence[dict[str, Any]]) -> float:
    """Records a second of these batches."""
    spent_ms = sum(each["durationMs"]["triggerExecution"] for each in batches)
    return float(1e3 * sum(each["numInputRows"] for each in batches) / spent_ms)


def saturated(here: Bed, rows_a_batch: int, seconds: float) -> float:
    """Records a second with a backlog and batches of this size; the first batch is left out."""
    refill(here, 40 * rows_a_batch)
    here.ask({"ask": "batch", "max_rows": rows_a_batch})
    found: list[dict[str, Any]] = []
    for _ in range(6):  # far and slow: a window may see no whole batch
        found += here.batches(seconds)
        if len(found) >= 3:
            break
    full = [each for each in found if each["numInputRows"] >= 0.8 * rows_a_batch][1:] or found
    if not full:
        raise RuntimeError(f"no batch within {6 * seconds:g} s")
    return rate_of(full)


def _fits(samples: Sequence[Sample], afterwards: Sequence[Sample]) -> Iterator[Row]:
    models: dict[str, ThroughputModel] = {}
    targets: dict[FormName, tuple[float | None, float | None]] = {
        "batch": (5.0, 10.0),
        "gesscale": (None, None),
    }
    for form, (fitted_target, unseen_target) in targets.items():
        model = models[form] = fit(samples, form=form)
        fitted = [_error_percent(model, each) for each in samples]
        unseen = [
            _error_percent(fit([*samples[:index], *samples[index + 1 :]], form=form), each)
            for index, each in enumerate(samples)
        ]
        for what, errors, target in (
            ("points it was fitted to", fitted, fitted_target),
            ("points left out one by one", unseen, unseen_target),
            ("afterwards", [_error_percent(model, each) for each in afterwards], unseen_target),
        ):
            if not errors:
                continue
            note = f"worst {max(errors):.0f} %"
            yield Row(f"{form} form, {what}", sum(errors) / len(errors), "% off", target, note=note)
    _draw(samples, models)


def _error_percent(model: ThroughputModel, sample: Sample) -> float:
    return abs(_said(model, sample) / sample.mst - 1) * 100


def _said(model: ThroughputModel, sample: Sample) -> float:
    return model.mst(sample.replicas, sample.rtt_max_ms, sample.batch_rows, sample.partitions)


def _draw(samples: Sequence[Sample], models: dict[str, ThroughputModel]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    size = max(each.batch_rows or 0 for each in samples)
    shown = [each for each in samples if each.batch_rows == size]
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.6), sharey=True)
    for axis, (form, model) in zip(axes, models.items(), strict=True):
        for number, count in enumerate(sorted({each.replicas for each in shown})):
            points = sorted((each.rtt_max_ms, each.mst) for each in shown if each.replicas == count)
            colour = f"C{number}"
            axis.plot(*zip(*points, strict=True), "o", color=colour, label=f"{count} replicas")
            line = [
                (each.rtt_max_ms, _said(model, each))
                for each in sorted(shown, key=lambda each: each.rtt_max_ms)
                if each.replicas == count
            ]
            axis.plot(*zip(*line, strict=True), "-", color=colour)
        axis.set_title(f"{form} form")
        axis.set_xlabel("largest round trip (ms)")
    axes[0].set_ylabel(f"records/s (batches of {size:g})")
    axes[0].legend()
    figure.tight_layout()
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, metadata={"Date": None})
    pyplot.close(figure)
