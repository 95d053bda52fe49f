"""`fogctl metrics`: what measures a testbed, and what it measures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from fogctl.cli.output import Format, OutputOption, emit, stderr, table
from fogctl.cli.testbed import DryRunOption, WhichOption, which
from fogctl.testbed.model import Kind

if TYPE_CHECKING:
    from fogctl.kube.running import KubeRunning
    from fogctl.metrics.services import Measuring
    from fogctl.metrics.values import NodeMetrics
    from fogctl.runtime.ground import Ground
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

    On a cluster the nodes' kubelets measure already; its Prometheus runs on this machine, on loopback.

    \b
    Examples:
      sudo fogctl metrics up
      sudo fogctl metrics up --prometheus
    """
    services = _services(_ground(testbed))
    if dry_run:
        steps = services.steps(with_prometheus=prometheus)
        emit(output, {"dry_run": True, "steps": steps}, *(steps or ["nothing to do"]))
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
    services = _services(_ground(testbed))
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
    from fogctl.metrics.readers import reader_of
    from fogctl.metrics.values import node_to_json, stage_to_json, troubles_of
    from fogctl.runtime.operate import Apps

    ground = _ground(testbed)
    reader = reader_of(ground, through_prometheus=prometheus)
    nodes = reader.nodes()
    stages = {found.app: reader.stages(found.app) for found in Apps(ground).deployments()}
    data = {
        "nodes": [node_to_json(each) for each in nodes],
        "stages": [stage_to_json(each) for found in stages.values() for each in found],
    }
    tables = [
        stages_table(app, [{"stage": each.stage, "metrics": stage_to_json(each)} for each in found])
        for app, found in stages.items()
    ]
    emit(output, data, table("nodes", _NODE_COLUMNS, map(_node_row, nodes)), *tables)
    for trouble in troubles_of(reader).values():
        stderr().print(trouble, markup=False, highlight=False)


def _node_row(node: NodeMetrics) -> tuple[Any, ...]:
    quota = node.cpu_quota_cores
    if node.cpu_used_cores is None:
        used = "not known yet"
    elif quota:
        used = f"{node.cpu_used_cores / quota:.0%} of {quota:.3g}"
    else:
        used = f"{node.cpu_used_cores:.2f} of all"
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


def _services(ground: Ground) -> Measuring:
    if ground.testbed.kind is Kind.k3s:
        from fogctl.kube.measuring import ClusterMeasuring

        return ClusterMeasuring(_cluster(ground))
    from fogctl.metrics.services import MetricServices
    from fogctl.runtime.service import Services

    running = _emulated(ground)
    return MetricServices(running, Services(running))


def _ground(testbed: str | None) -> Ground:
    from fogctl.runtime.grounds import ground_of

    ground = ground_of(which(testbed).name)
    ground.attend()
    return ground


def _cluster(ground: Ground) -> KubeRunning:
    from fogctl.kube.running import KubeRunning

    return KubeRunning.load(ground.testbed.name, ground.folder.parent)


def _emulated(ground: Ground) -> Running:
    from fogctl.testbed.running import Running

    return Running.load(ground.testbed.name, ground.folder.parent)
