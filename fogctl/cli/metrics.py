"""`fogctl metrics`: what measures a testbed, and what it measures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from fogctl.cli.output import Format, OutputOption, emit, stderr, table
from fogctl.cli.testbed import DryRunOption, WhichOption, which

if TYPE_CHECKING:
    from fogctl.metrics.services import MetricServices
    from fogctl.metrics.values import NodeMetrics, Reader
    from fogctl.testbed.running import Running

app = typer.Typer(help="What stages and nodes do: measured, exposed, shown.", no_args_is_help=True)

_NODE_COLUMNS = ("node", "cpu of cores", "throttled", "memory MiB", "waits cpu/mem/io", "busiest part")


@app.command()
def up(
    prometheus: Annotated[
        bool, typer.Option("--prometheus", help="Also a Prometheus that scrapes everything every second.")
    ] = False,
    dry_run: DryRunOption = False,
    testbed: WhichOption = None,
    output: OutputOption = Format.table,
) -> None:
    """Start the node exporter of a testbed, and a Prometheus if asked for.

    \b
    Examples:
      sudo fogctl metrics up
      sudo fogctl metrics up --prometheus
    """
    services = _services(testbed)
    if dry_run:
        wanted = services.wanted(with_prometheus=prometheus)
        steps = [f"start {service.name} on {service.node}: {' '.join(service.argv)}" for service in wanted]
        emit(output, {"dry_run": True, "steps": steps}, *steps)
        return
    stderr().print("starting what measures", markup=False)
    started = services.up(with_prometheus=prometheus)
    addresses = services.addresses()
    data = {"started": started, "addresses": addresses}
    said = f"started {', '.join(started)}" if started else "everything runs already"
    lines = [f"{name}: {url}" for name, url in addresses.items()]
    emit(output, data, said, *lines, "next: fogctl metrics show")


@app.command()
def down(
    dry_run: DryRunOption = False, testbed: WhichOption = None, output: OutputOption = Format.table
) -> None:
    """Stop the node exporter and Prometheus; what Prometheus stored stays until the testbed goes.

    \b
    Example:
      sudo fogctl metrics down
    """
    services = _services(testbed)
    if dry_run:
        steps = [f"stop {name}" for name in services.addresses()]
        emit(output, {"dry_run": True, "steps": steps}, *(steps or ["nothing to do: nothing runs"]))
        return
    stopped = services.down()
    emit(output, {"stopped": stopped}, f"stopped {', '.join(stopped)}" if stopped else "nothing ran")


@app.command()
def show(
    prometheus: Annotated[
        bool, typer.Option("--prometheus", help="Ask Prometheus instead of those who measure.")
    ] = False,
    testbed: WhichOption = None,
    output: OutputOption = Format.table,
) -> None:
    """Show what every node and every deployed stage does.

    \b
    Examples:
      sudo fogctl metrics show
      sudo fogctl metrics show -o json
    """
    from fogctl.cli.app_view import stages_table
    from fogctl.metrics.values import node_to_json, stage_to_json
    from fogctl.runtime.operate import Apps

    running = _running(testbed)
    reader = _reader(running, through_prometheus=prometheus)
    nodes = reader.nodes()
    stages = {found.app: reader.stages(found.app) for found in Apps.on(running).deployments()}
    data = {
        "nodes": [node_to_json(each) for each in nodes],
        "stages": [stage_to_json(each) for found in stages.values() for each in found],
    }
    tables = [
        stages_table(app, [{"stage": each.stage, "metrics": stage_to_json(each)} for each in found])
        for app, found in stages.items()
    ]
    emit(output, data, table("nodes", _NODE_COLUMNS, map(_node_row, nodes)), *tables)


def _node_row(node: NodeMetrics) -> tuple[Any, ...]:
    quota = node.cpu_quota_cores
    used = (
        f"{node.cpu_used_cores / quota:.0%} of {quota:.3g}" if quota else f"{node.cpu_used_cores:.2f} of all"
    )
    limit = "" if node.memory_limit_bytes is None else f" of {node.memory_limit_bytes >> 20}"
    waits = [node.pressure.get(resource) for resource in ("cpu", "memory", "io")]
    parts = sorted(node.cpu_used_by_part.items(), key=lambda part: part[1])
    return (
        node.node,
        used,
        f"{node.cpu_throttled:.0%}",
        f"{node.memory_bytes >> 20}{limit}",
        " / ".join("–" if share is None else f"{share:.0%}" for share in waits),
        f"{parts[-1][0]} {parts[-1][1]:.2f}" if parts and parts[-1][1] > 0 else None,
    )


def _reader(running: Running, *, through_prometheus: bool) -> Reader:
    if through_prometheus:
        from fogctl.metrics.prometheus import PrometheusReader

        return PrometheusReader.of(running)
    from fogctl.metrics.direct import DirectReader

    return DirectReader(running)


def _services(testbed: str | None) -> MetricServices:
    from fogctl.metrics.services import MetricServices
    from fogctl.runtime.service import Services

    running = _running(testbed)
    return MetricServices(running, Services(running))


def _running(testbed: str | None) -> Running:
    from fogctl.testbed.running import Running
    from fogctl.testbed.virtual import require_root

    running = Running.load(which(testbed).name)
    require_root()
    return running
