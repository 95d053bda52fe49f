"""A window of a live run out of what the injector and the stages' batches tell. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from fogctl.metrics.batch import Batch
from fogctl.planner.measure import StageSeen, Window


@dataclass(frozen=True, slots=True)
class StageRun:
    """A stage's batches since it was deployed, and what is needed to tell how busy it was."""

    name: str
    batches: tuple[Batch, ...]
    replicas: int
    freshness_s: float
    """How long a batch may take: a stage is busy to the full when its batches are that long."""

    def at(self, time_s: float) -> Batch | None:
        """The last batch that had ended by then."""
        place = bisect_right([batch.ended_s for batch in self.batches], time_s)
        return self.batches[place - 1] if place else None


def window_of(
    sent: Sequence[tuple[float, int]],
    stages: Sequence[StageRun],
    sources: int,
    limited_by: str | None,
    injected_per_s: float,
) -> Window:
    """What was seen between the first and the last look at the injector.

    `sent` are times and how many records had been sent since the app was deployed; the first `sources` stages
    read them. `injected_per_s` is the injector's own figure: looks begin before its processes are there. The
    lag of the first stages is exact, because what is sent is known at any time; that of later ones is known
    when a batch begins.
    """
    began, ended = sent[0][0], sent[-1][0]
    heads, later = stages[:sources], stages[sources:]
    lags = []
    for time_s, count in sent:
        own = sum(count - _processed(stage.at(time_s)) for stage in heads)
        lags.append(float(max(0, own) + sum(_left(stage.at(time_s)) for stage in later)))
    inside = [batch for batch in heads[0].batches if began <= batch.ended_s <= ended and batch.rows]
    ends = [batch.ended_s for batch in inside]
    span = ends[-1] - ends[0] if len(ends) > 1 else 0.0
    rows = _processed(inside[-1]) - _processed(inside[0]) if span else 0
    gaps = [after - before for before, after in pairwise(ends)]
    seconds = ended - began
    return Window(
        times_s=tuple(time_s - began for time_s, _ in sent),
        lags=tuple(lags),
        injected_per_s=injected_per_s,
        processed_per_s=rows / span if span else 0.0,
        cycle_s=max(gaps, default=seconds),
        limited_by=limited_by,
        stages=tuple(_seen(stage, began, ended) for stage in stages),
    )


def _processed(batch: Batch | None) -> int:
    return 0 if batch is None else _sum(batch.processed)


def _left(batch: Batch | None) -> int:
    return 0 if batch is None else max(0, _sum(batch.latest) - _sum(batch.processed))


def _sum(offsets: Mapping[str, int]) -> int:
    return sum(offsets.values())


def _seen(stage: StageRun, began: float, ended: float) -> StageSeen:
    """Rate and busyness. A stage that runs batch after batch always works, so time alone says nothing: what
    counts is how long its batches are, of what they may be."""
    inside = [batch for batch in stage.batches if began <= batch.ended_s <= ended and batch.rows]
    if not inside:
        return StageSeen(stage.name, 0.0, 0.0, stage.replicas)
    span = ended - began
    rows = sum(batch.rows for batch in inside)
    mean_s = sum(batch.duration_s * batch.rows for batch in inside) / rows
    return StageSeen(stage.name, rows / span, min(1.0, mean_s / stage.freshness_s), stage.replicas)
