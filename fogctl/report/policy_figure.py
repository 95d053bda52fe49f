"""The figure of one policy: rates, replicas against the ideal, lag, CPU shares, and its decisions in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fogctl.experiment.series import StageSeries, changes, smoothed, stalls
from fogctl.report import drawing
from fogctl.report.drawing import BLUE, CYCLE, GREY, INK, ORANGE, VERMILION, Drawing

LONGEST_REASON = 400
_MARGINS = {"left": 0.085, "right": 0.99, "top": 0.99, "bottom": 0.065, "hspace": 0.13}


def draw(
    name: str,
    label: str,
    stages: Mapping[str, StageSeries],
    events: Sequence[Mapping[str, Any]],
    duration_s: float,
) -> Drawing:
    """Panels one above the other on one time axis; what acted is marked and says why when pointed at."""
    decisions = changes(events)
    figure = drawing.new_figure(9.6, 7.4, _MARGINS)
    rows = figure.subplots(5, 1, sharex=True, gridspec_kw={"height_ratios": [3.0, 2.4, 1.8, 1.5, 0.7]})
    minutes = duration_s > 300
    unit = 60.0 if minutes else 1.0
    probe_series: list[dict[str, Any]] = []
    first = next(iter(stages.values()))
    times = drawing.thinned(first.at_s, first.at_s)[0]
    _rates(rows[0], stages, unit, probe_series)
    for begin, seconds in stalls(events):
        if seconds >= 1:
            span = (begin / unit, (begin + seconds) / unit)
            rows[0].axvspan(*span, color=VERMILION, alpha=0.3, linewidth=0, hatch="////")
    _replicas(rows[1], stages, unit, times, probe_series)
    _lags(rows[2], stages, unit, probe_series)
    _shares(rows[3], stages, unit, times, probe_series)
    marks = _decisions(rows[4], name, decisions, unit)
    for axes in rows:
        axes.set_xlim(0, float(first.at_s[-1]) / unit)
        if axes is not rows[4]:
            drawing.tidy(axes)
        axes.axvline(duration_s / unit, color=GREY, linewidth=0.8, linestyle=":")
    rows[4].set_xlabel("minutes of the run" if minutes else "seconds of the run", fontsize=9, color=INK)
    for axes in rows:
        axes.yaxis.set_label_coords(-0.055, 0.5)
    probe = {
        "panels": drawing.panels(figure),
        "xmax": float(first.at_s[-1]),
        "unit": "min" if minutes else "s",
        "t": _rounded(times),
        "series": probe_series,
    }
    return Drawing(
        name, f"{label}: the run over time", _describe(label, stages, decisions), figure, probe, marks
    )


def _rates(axes: Any, stages: Mapping[str, StageSeries], unit: float, probe: list[dict[str, Any]]) -> None:
    entry = next(iter(stages.values()))
    exit_ = list(stages.values())[-1]
    at_s, offered = drawing.thinned(entry.at_s, entry.offered)
    _, processed = drawing.thinned(exit_.at_s, smoothed(exit_.at_s, exit_.processed, 3.0))
    axes.fill_between(at_s / unit, offered, step="mid", color="#d1d5db", linewidth=0, label="input")
    axes.plot(at_s / unit, processed, color=BLUE, linewidth=1.3, label="processed")
    axes.set_ylabel("records/s", fontsize=9)
    axes.set_ylim(0, None)
    axes.legend(loc="upper left", fontsize=8, frameon=False, ncols=2)
    probe.append({"name": "input", "unit": "/s", "v": _rounded(offered, 1)})
    probe.append({"name": "processed", "unit": "/s", "v": _rounded(processed, 1)})


def _replicas(
    axes: Any, stages: Mapping[str, StageSeries], unit: float, times: Any, probe: list[dict[str, Any]]
) -> None:
    many = len(stages) > 1
    for (stage, seen), (colour, dashes) in zip(stages.items(), CYCLE * 9, strict=False):
        at_s, have = drawing.stepped(seen.at_s, seen.replicas)
        axes.step(
            at_s / unit,
            have,
            where="post",
            color=colour,
            linewidth=1.8,
            linestyle=dashes if many else "-",
            label=f"{stage}: replicas" if many else "replicas",
        )
        probe.append(
            {
                "name": f"{stage} replicas" if many else "replicas",
                "unit": "",
                "v": _rounded(_at(seen.at_s, seen.replicas, times), 0),
            }
        )
        if seen.ideal is None:
            continue
        want_at, want = drawing.stepped(seen.at_s, seen.ideal)
        axes.step(
            want_at / unit,
            want,
            where="post",
            color=INK,
            linewidth=1.0,
            linestyle=(0, (2, 1.5)),
            label=None if many and stage != next(iter(stages)) else "ideal",
        )
        if not many:
            coarse_have, coarse_want = _at(seen.at_s, seen.replicas, times), _at(seen.at_s, seen.ideal, times)
            axes.fill_between(
                times / unit,
                coarse_have,
                coarse_want,
                where=coarse_have < coarse_want,
                step="post",
                color=VERMILION,
                alpha=0.35,
                linewidth=0,
                label="too few",
            )
            axes.fill_between(
                times / unit,
                coarse_have,
                coarse_want,
                where=coarse_have > coarse_want,
                step="post",
                color=ORANGE,
                alpha=0.25,
                linewidth=0,
                hatch="\\\\\\",
                edgecolor="#9a6a00",
                label="too many",
            )
            probe.append({"name": "ideal", "unit": "", "v": _rounded(coarse_want, 0)})
    most = max(
        float(max(s.replicas.max(), s.ideal.max() if s.ideal is not None else 0)) for s in stages.values()
    )
    axes.set_ylim(0, 1.22 * most + 0.6)  # room for the legend
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set_ylabel("replicas", fontsize=9)
    axes.legend(loc="upper left", fontsize=8, frameon=False, ncols=4)


def _lags(axes: Any, stages: Mapping[str, StageSeries], unit: float, probe: list[dict[str, Any]]) -> None:
    many = len(stages) > 1
    for (stage, seen), (colour, dashes) in zip(stages.items(), CYCLE * 9, strict=False):
        at_s, lag = drawing.thinned(seen.at_s, seen.lag)
        if many:
            axes.plot(at_s / unit, lag, color=colour, linestyle=dashes, linewidth=1.2, label=stage)
        else:
            axes.fill_between(at_s / unit, lag, color="#cbd5e1", linewidth=0)
            axes.plot(at_s / unit, lag, color=INK, linewidth=1.0)
        probe.append({"name": f"{stage} lag" if many else "lag", "unit": "", "v": _rounded(lag, 0)})
    axes.set_ylim(0, None)
    axes.set_ylabel("lag\nrecords", fontsize=9)
    if many:
        axes.legend(loc="upper left", fontsize=8, frameon=False, ncols=4)


def _shares(
    axes: Any, stages: Mapping[str, StageSeries], unit: float, times: Any, probe: list[dict[str, Any]]
) -> None:
    many = len(stages) > 1
    for (stage, seen), (colour, dashes) in zip(stages.items(), CYCLE * 9, strict=False):
        share = 100 * np.nan_to_num(seen.share, nan=1.0)
        at_s, steps = drawing.stepped(seen.at_s, share)
        axes.step(
            at_s / unit,
            steps,
            where="post",
            color=colour,
            linewidth=1.4,
            linestyle=dashes if many else "-",
            label=stage,
        )
        probe.append(
            {
                "name": f"{stage} share" if many else "CPU share",
                "unit": " %",
                "v": _rounded(_at(seen.at_s, share, times), 0),
            }
        )
    axes.set_ylim(0, 108)
    axes.set_ylabel("CPU share\n%", fontsize=9)
    if many:
        axes.legend(loc="lower left", fontsize=8, frameon=False, ncols=4)


def _decisions(
    axes: Any, name: str, decisions: Sequence[Mapping[str, Any]], unit: float
) -> tuple[tuple[str, str], ...]:
    """A mark for each decision that changed something: up, down, or a share."""
    marks = []
    for number, event in enumerate(decisions):
        shape, colour, height = _shape(event)
        mark = f"{name}-decision-{number}"
        axes.plot(
            [float(event["at_s"]) / unit],
            [height],
            marker=shape,
            color=colour,
            markersize=6.5,
            markeredgecolor="white",
            markeredgewidth=0.5,
            linestyle="none",
            gid=mark,
        )
        marks.append((mark, f"{float(event['at_s']):.0f} s · {said(event)}"))
    axes.set_ylim(-1.6, 1.6)
    axes.set_yticks([])
    axes.set_ylabel("changes", fontsize=9)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(labelsize=8, colors=INK, length=3)
    return tuple(marks)


def said(event: Mapping[str, Any]) -> str:
    """A decision in words: what was done, and why."""
    done = str(event.get("changes") or "")
    reason = str(event.get("error") or event.get("reason", ""))
    text = f"{done}: {reason}" if done and reason else done or reason
    return text if len(text) <= LONGEST_REASON else text[: LONGEST_REASON - 1] + "…"


def _shape(event: Mapping[str, Any]) -> tuple[str, str, float]:
    if event.get("what") == "failed":
        return "X", INK, 0.0
    direction = event.get("direction")
    if direction == "out":
        return "^", BLUE, 0.7
    if direction == "in":
        return "v", VERMILION, -0.7
    return "D", ORANGE, 0.0


def _at(at_s: Any, values: Any, times: Any) -> Any:
    return values[np.clip(np.searchsorted(at_s, times, side="right") - 1, 0, None)]


def _rounded(values: Any, digits: int = 1) -> list[float]:
    return [round(float(value), digits) for value in np.nan_to_num(values)]


def _describe(label: str, stages: Mapping[str, StageSeries], decisions: Sequence[Mapping[str, Any]]) -> str:
    parts = []
    for stage, seen in stages.items():
        parts.append(
            f"{stage}: {int(seen.replicas.min())} to {int(seen.replicas.max())} replicas, input up to "
            f"{seen.offered.max():.0f} records a second, lag up to {seen.lag.max():.0f} records"
        )
    return f"{label} made {len(decisions)} changes. " + "; ".join(parts) + "."
