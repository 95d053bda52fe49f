"""Fitting a throughput model to samples and asking it: MST, interval, replicas for a rate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from fogmodels.throughput import checks
from fogmodels.throughput.batch import BatchForm
from fogmodels.throughput.gesscale import GesscaleForm
from fogmodels.throughput.nodes import tightest_set
from fogmodels.throughput.samples import Measurements, Point, Sample
from fogmodels.throughput.solver import Solution

FormName = Literal["gesscale", "batch"]
_FORMS: Final[dict[str, GesscaleForm | BatchForm]] = {"gesscale": GesscaleForm(), "batch": BatchForm()}
# Leave-one-out refits every sample once; beyond this many, a spread-out choice of them tells as much.
_MOST_FOLDS: Final = 40


@dataclass(frozen=True, slots=True)
class ThroughputModel:
    """A fitted form. Where `batch_rows`, `partitions` or `share` is None, the latest sample's is meant.

    Slots are always the latest sample's, and what is foretold is of warm replicas.

    `parameters` carry the formula's names; `informed` says which of them the samples decided and which
    still sit at their prior or default; `noise` is the relative standard deviation of one measurement.
    """

    form: FormName
    parameters: Mapping[str, float]
    informed: Mapping[str, bool]
    noise: float
    samples: tuple[Sample, ...]
    _data: Measurements
    _solution: Solution

    def mst(
        self,
        replicas: int,
        rtt_max_ms: float,
        batch_rows: float | None = None,
        partitions: int | None = None,
        share: float | None = None,
    ) -> float:
        """Records/s that `replicas` sustain if the farthest is `rtt_max_ms` away; never negative."""
        return self._mst(self._point(replicas, rtt_max_ms, batch_rows, partitions, share))

    def batch_seconds(
        self,
        replicas: int,
        rtt_max_ms: float,
        batch_rows: float | None = None,
        partitions: int | None = None,
        share: float | None = None,
    ) -> float:
        """How long a full batch takes (the freshness it gives); only the batch form knows."""
        point = self._need_batches(self._point(replicas, rtt_max_ms, batch_rows, partitions, share))
        return point.rows / self._mst(point)

    def batch_rows_within(
        self,
        seconds: float,
        replicas: int,
        rtt_max_ms: float,
        partitions: int | None = None,
        share: float | None = None,
    ) -> float:
        """The most rows a batch may take to last at most `seconds`; 0 if even an empty one lasts longer."""
        checks.real("seconds", seconds, above=0.0)
        point = self._need_batches(self._point(replicas, rtt_max_ms, None, partitions, share))
        # D is affine in N: what a batch costs without rows, then a constant time per row.
        one = point.rows
        takes = one / self._mst(point)
        per_row = (2 * one / self._mst(replace(point, rows=2 * one)) - takes) / one
        empty = takes - one * per_row
        return max(0.0, (seconds - empty) / per_row) if per_row > 0.0 else math.inf

    def interval(
        self,
        replicas: int,
        rtt_max_ms: float,
        batch_rows: float | None = None,
        partitions: int | None = None,
        share: float | None = None,
        *,
        level: float = 0.9,
        measurement: bool = False,
    ) -> tuple[float, float]:
        """Where the true MST lies with probability `level`; with `measurement`, where one reading would lie.

        What the samples cannot tell counts as doubt, so the interval of a model of few samples is wide.
        """
        checks.fraction("level", level)
        point = self._point(replicas, rtt_max_ms, batch_rows, partitions, share)
        mst = self._mst(point)
        deviation, logarithmic = _FORMS[self.form].spread(self._solution, Measurements.at(point))
        reading = self.noise if logarithmic else self.noise * mst
        deviation = math.hypot(deviation, reading) if measurement else deviation
        reach = float(stdtrit(self._solution.freedom, 0.5 + level / 2.0)) * deviation
        if logarithmic:
            reach = min(reach, 500.0)
            return mst * math.exp(-reach), mst * math.exp(reach)
        return max(0.0, mst - reach), max(0.0, mst + reach)

    def replicas_for(
        self,
        rate: float,
        rtts: Sequence[float] | ArrayLike,
        *,
        batch_rows: float | None = None,
        partitions: int | None = None,
        share: float | None = None,
        headroom: float = 0.0,
    ) -> int | None:
        """The least n whose best node set sustains `rate` * (1 + headroom); None if no n does.

        `rtts`: each free node's round trip (the n nearest are the best set), or the square matrix between
        nodes (the set of least largest round trip is). More replicas are not always faster: a far node
        slows the whole set, so every n is tried in turn.
        """
        needed = checks.real("rate", rate) * (1.0 + checks.real("headroom", headroom))
        table = checks.rtt_list("rtts", rtts)
        ordered = np.sort(table) if table.ndim == 1 else None
        for n in range(1, table.shape[0] + 1):
            farthest = float(ordered[n - 1]) if ordered is not None else tightest_set(table, n).rtt_max_ms
            if self.mst(n, farthest, batch_rows, partitions, share) >= needed:
                return n
        return None

    def add(self, sample: Sample) -> ThroughputModel:
        """The model after one more sample, same form, refitted from here (well under a millisecond).

        `fit(model.samples)` reconsiders the form as well.
        """
        if not isinstance(sample, Sample):
            raise ValueError(f"add needs a Sample, not {type(sample).__name__}.")
        if self.form == "batch" and sample.batch_rows is None:
            raise ValueError("A model of the batch form needs batch_rows in every sample.")
        data = self._data.with_sample(sample)
        return _model(self.form, data, (*self.samples, sample), self._solution)

    def leave_one_out(self) -> tuple[float, ...]:
        """For each sample the relative error of a model fitted without it; empty for a single sample."""
        if len(self.samples) < 2:
            return ()
        return tuple(_held_out(self.form, self._data, i, self._solution) for i in range(len(self.samples)))

    def _mst(self, point: Point) -> float:
        return _FORMS[self.form].mst(self.parameters, point)

    def _point(
        self, replicas: int, rtt: float, rows: float | None, partitions: int | None, share: float | None
    ) -> Point:
        latest = self.samples[-1]
        n = checks.whole("replicas", replicas)
        rtt = checks.real("rtt_max_ms", rtt)
        rows = latest.batch_rows if rows is None else checks.real("batch_rows", rows, above=0.0)
        tasks = latest.partitions if partitions is None else checks.whole("partitions", partitions)
        x = float(latest.share) if share is None else checks.real("share", share, above=0.0)
        return Point.of(n, rtt, math.nan if rows is None else float(rows), tasks, x, latest.slots)

    def _need_batches(self, point: Point) -> Point:
        if self.form != "batch":
            raise ValueError("Only a model of the batch form knows how long a batch takes.")
        return point


def fit(samples: Iterable[Sample], form: Literal["auto", "gesscale", "batch"] = "auto") -> ThroughputModel:
    """The model of `samples`, robust to noise and to a minority of outliers.

    `auto` takes the form with the smaller mean leave-one-out error; with fewer than three samples, or a
    tie, the batch form; where a sample lacks `batch_rows`, Gesscale's, which needs none.
    """
    known = tuple(samples)
    if not known:
        raise ValueError("fit needs at least one sample.")
    if not all(isinstance(s, Sample) for s in known):
        raise ValueError("fit needs Sample values only.")
    if form not in ("auto", "gesscale", "batch"):
        raise ValueError(f'form must be "auto", "gesscale" or "batch", not {form!r}.')
    data = Measurements.of(known)
    batched = bool(np.isfinite(data.rows).all())
    if form == "batch" and not batched:
        raise ValueError("The batch form needs batch_rows in every sample.")
    if form != "auto":
        return _model(form, data, known)
    if not batched:
        return _model("gesscale", data, known)
    if len(known) < 3:
        return _model("batch", data, known)
    rivals: tuple[FormName, FormName] = ("batch", "gesscale")
    return min((_model(name, data, known) for name in rivals), key=_mean_held_out_error)


def _model(
    form: FormName, data: Measurements, samples: tuple[Sample, ...], before: Solution | None = None
) -> ThroughputModel:
    kind = _FORMS[form]
    solution = kind.fit(data) if before is None else kind.refit(data, before)
    parameters = MappingProxyType(kind.parameters(solution.parameters))
    informed = MappingProxyType(kind.informed(solution))
    return ThroughputModel(form, parameters, informed, solution.noise, samples, data, solution)


def _held_out(form: FormName, data: Measurements, index: int, near: Solution) -> float:
    kind = _FORMS[form]
    rest = data.without(index)
    parameters = kind.parameters(kind.fit(rest, near.parameters).parameters)
    mst = float(data.mst[index])
    return abs(kind.mst(parameters, data.point(index)) - mst) / mst


def _mean_held_out_error(model: ThroughputModel) -> float:
    """Mean leave-one-out error, each capped at 100 % so that one outlier does not choose the form."""
    count = len(model.samples)
    chosen = np.unique(np.linspace(0, count - 1, min(count, _MOST_FOLDS)).astype(int))
    errors = [min(1.0, _held_out(model.form, model._data, int(i), model._solution)) for i in chosen]
    weights = model._data.weight[chosen]
    return float(weights @ np.array(errors)) / float(weights.sum())
