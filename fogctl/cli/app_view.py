"""How an app's stages look to people: where they run, how fast, how far behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fogctl.cli.output import table

COLUMNS = (
    "stage",
    "state",
    "on",
    "in/s",
    "out/s",
    "can/s",
    "lag",
    "trend/s",
    "batch s",
    "rows",
    "busy",
)


def stages_table(title: str, stages: Sequence[Mapping[str, Any]]) -> Any:
    """One row a stage, from what its runner says; fits 100 columns, `-o json` has every figure."""
    return table(title, COLUMNS, map(_row, stages))


def stage_details(stages: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each stage that has options, keeps state or has a watermark."""
    lines = []
    for stage in stages:
        metrics = stage.get("metrics") or {}
        said = [f"{option}={value}" for option, value in stage.get("options", {}).items()]
        if metrics.get("state_rows"):
            said.append(f"state {metrics['state_rows']:,} rows, {metrics['state_bytes'] / 2**20:.1f} MiB")
        if metrics.get("watermark_delay_s") is not None:
            said.append(f"watermark {metrics['watermark_delay_s']:,.1f} s behind the clock")
        if said:
            lines.append(f"{stage['stage']}: {'; '.join(said)}")
    return lines


def _row(stage: Mapping[str, Any]) -> tuple[Any, ...]:
    metrics = stage.get("metrics")
    nodes = metrics["nodes"] if metrics else [executor["node"] for executor in stage.get("executors", [])]
    head = (stage["stage"], stage.get("state", "running"), ", ".join(nodes))
    if not metrics:
        return (*head, *([None] * (len(COLUMNS) - len(head))))
    return (
        *head,
        _rate(metrics["input_rate"]),
        _rate(metrics["processed_rate"]),
        _rate(metrics["true_rate"]),
        str(metrics["lag"]),
        f"{metrics['lag_trend']:+.1f}",
        f"{metrics['batch_ms'] / 1000:.2f}",
        f"{metrics['batch_rows']:.0f}",
        f"{metrics['busyness']:.0%}",
    )


def _rate(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"
