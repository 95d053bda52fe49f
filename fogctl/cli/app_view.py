"""How an app's stages look to people: where they run and why, how fast, how far behind, at what cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fogctl.cli.output import table

# The model needs scipy: imported when a placement is shown, not before.
if TYPE_CHECKING:
    from fogctl.placement.plan import Planned
    from fogctl.placement.profile import Profile

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


def profile_table(profile: Profile) -> Any:
    """One row a stage: what a record costs."""
    columns = ("stage", "on", "rec/s", "a replica", "CPU ms/rec", "state B/rec", "out B/rec", "busy")
    rows = [
        (
            stage.stage,
            ", ".join(replica.node for replica in stage.replicas),
            _rate(stage.records_per_s),
            _rate(stage.records_per_s_per_replica),
            f"{stage.cpu_s_per_record * 1000:.3g}",
            f"{stage.state_read_bytes_per_record:.0f} + {stage.state_written_bytes_per_record:.0f}",
            f"{stage.output_bytes_per_record:.0f}",
            f"{stage.busyness:.0%}",
        )
        for stage in profile.stages
    ]
    return table(f"{profile.app} over {profile.window_s:.1f} s (state: read + written)", columns, rows)


STRATEGIES = {
    "spread": "spread: each replica on the emptiest node, in the testbed's order where several are",
    "pack": "pack: each replica on the testbed's first node that has room",
    "random": "random: each replica on any node that has room, drawn with the seed",
}
NEUTRAL = "no profile: every stage counts alike (measure one: fogctl app profile APP --to FILE)"


def placement_view(planned: Planned, *, profiled: bool) -> list[Any]:
    """Where the replicas go, what that costs, and why."""
    from fogmodels.placement import Limits

    from fogctl.cli import place_view as view

    problem, plan, limits = planned.problem, planned.placement, planned.limits
    shown: list[Any] = [view.plan_table(problem, plan), view.cost_table(problem, plan, limits or Limits())]
    if limits is None:
        shown.append(STRATEGIES[planned.strategy])
    else:
        decisive = {name: plan.cost[name] for name in limits.limited if name in plan.cost}
        same = ", ".join(name for name in plan.cost if name not in decisive)
        shown.append(view.verdict(plan, limits, tuned=True))
        shown += [view.reason(replace(plan, cost=decisive), limits)] if decisive else []
        shown += [f"The same whatever the plan: {same}."] if same else []
    if planned.left_out:
        shown.append(f"no room for a replica: {', '.join(planned.left_out)}")
    if not profiled:
        shown.append(NEUTRAL)
    return [*shown, view.picture(problem, plan)]


def placement_data(planned: Planned) -> dict[str, Any]:
    """The same as plain data."""
    limits = planned.limits
    return {
        "strategy": planned.strategy.value,
        "nodes": {stage: list(nodes) for stage, nodes in planned.nodes.items()},
        "cost": planned.placement.cost,
        "load": planned.placement.load,
        "limits": None if limits is None else {name: limits[name] for name in limits.limited},
        "left_out": list(planned.left_out),
        "gap": None if limits is None else planned.placement.gap,
    }


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
