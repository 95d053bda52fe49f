"""What `fogctl trace fit` does: a Markovian arrival process for a file of arrivals, and what it predicts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from fogmodels.arrivals import MAP, autocorrelation, fit_map
from fogmodels.queueing import VARIANTS, PhaseType, ResponseTime, Unstable, predict
from numpy.typing import NDArray

from fogctl.cli.output import Format, emit, stderr, table
from fogctl.cli.trace import Kind, Unit
from fogctl.cli.trace_file import read_times
from fogctl.errors import FogError

Vector = NDArray[np.float64]

LAGS = (1, 2, 5, 10, 50, 100)
_SECONDS = {Unit.s: 1.0, Unit.ms: 1e-3, Unit.us: 1e-6, Unit.ns: 1e-9}


def report(
    file: Path,
    column: str | None,
    kind: Kind,
    unit: Unit,
    service_mean: float | None,
    utilisation: float | None,
    plot: Path | None,
    output: Format,
) -> None:
    """Fit, compare, predict if asked, draw if asked, and print."""
    found = read_times(file, column, kind)
    seconds = found.times * _SECONDS[unit]
    if service_mean is not None and utilisation is not None:
        raise FogError("give --service-mean or --utilisation, not both")
    if utilisation is not None:
        if not 0 < utilisation < 1:
            raise FogError(f"--utilisation must be in (0, 1), not {utilisation}")
        service_mean = utilisation * float(seconds.mean())
    if service_mean is not None and not 0 < service_mean < float("inf"):
        raise FogError(f"--service-mean must be positive and finite, not {service_mean}")
    if seconds.size > 200_000 and output is Format.table:
        stderr().print(f"fitting {seconds.size:,} times …")
    try:
        process = fit_map(seconds)
    except ValueError as error:
        raise FogError(str(error), file=file) from error
    comparison = _compare(seconds, process)
    predictions = [] if service_mean is None else _predictions(seconds, service_mean)
    if plot is not None:
        _draw(plot, seconds, process, file.name)
    data: dict[str, Any] = {
        "file": str(file),
        "kind": found.kind.value,
        "events": int(seconds.size),
        "states": process.states,
        "statistics": [{"what": what, "trace": seen, "fit": fitted} for what, seen, fitted in comparison],
        "D0": process.D0.tolist(),
        "D1": process.D1.tolist(),
    }
    if service_mean is not None:
        data["service_mean_s"] = service_mean
        data["utilisation"] = service_mean / float(seconds.mean())
        data["predictions"] = [p.as_dict() for p in predictions]
    if plot is not None:
        data["plot"] = str(plot)
    shown = [
        table(
            f"{file.name}: {seconds.size:,} gaps from {found.kind.value}, MAP of {process.states} states",
            ("", "trace", "fit"),
            [(what, f"{seen:.6g}", f"{fitted:.6g}") for what, seen, fitted in comparison],
        )
    ]
    if predictions:
        shown.append(
            table(
                f"response time in seconds, Erlang-2 service of {service_mean:.6g} s",
                ("predictor", "mean", "p95", "p99"),
                [p.row() for p in predictions],
            )
        )
    emit(output, data, *shown)


@dataclass(frozen=True, slots=True)
class _Prediction:
    name: str
    mean: float
    p95: float | None
    p99: float | None

    @classmethod
    def of(cls, name: str, response: ResponseTime) -> _Prediction:
        if response.distribution is None:
            return cls(name, response.mean, None, None)
        return cls(name, response.mean, response.percentile(95), response.percentile(99))

    def as_dict(self) -> dict[str, Any]:
        return {"predictor": self.name, "mean_s": self.mean, "p95_s": self.p95, "p99_s": self.p99}

    def row(self) -> tuple[str, ...]:
        return (self.name, *("–" if v is None else f"{v:.6g}" for v in (self.mean, self.p95, self.p99)))


def _predictions(seconds: Vector, service_mean: float) -> list[_Prediction]:
    service = PhaseType.erlang(2, service_mean)
    try:
        made = [_Prediction.of("recommended", predict(seconds, service))]
        made += [
            _Prediction.of(name, VARIANTS[name](seconds, service)) for name in ("MAP", "M/G/1", "Kingman")
        ]
    except Unstable as error:
        raise FogError(
            f"the server would be overloaded: {error}", hint="lower --service-mean, or use --utilisation"
        ) from error
    return made


def _compare(seconds: Vector, process: MAP) -> list[tuple[str, float, float]]:
    mean, deviation = float(seconds.mean()), float(seconds.std())
    skewness = 0.0 if deviation == 0 else float((((seconds - mean) / deviation) ** 3).mean())
    lags = [lag for lag in LAGS if lag < seconds.size // 4]
    rows = [
        ("mean (s)", mean, process.mean),
        ("SCV", (deviation / mean) ** 2, process.scv),
        ("skewness", skewness, process.skewness),
    ]
    seen, fitted = autocorrelation(seconds, lags), process.acf(lags)
    return rows + [
        (f"autocorrelation, lag {lag}", float(a), float(b))
        for lag, a, b in zip(lags, seen, fitted, strict=True)
    ]


def _draw(plot: Path, seconds: Vector, process: MAP, title: str) -> None:
    from fogctl.cli.trace_plot import draw_fit

    try:
        draw_fit(plot, seconds, process, title)
    except (OSError, ValueError) as error:
        raise FogError(f"the plot cannot be written: {error}", file=plot) from error
