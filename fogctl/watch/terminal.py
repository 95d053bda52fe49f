"""The view as the terminal shows it: a map of nodes by distance, stages with their curves, decisions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from fogctl.watch.view import NodeView, StageView, View

_BLOCKS = " ▁▂▃▄▅▆▇█"
_MAP_WIDTH = 60
_CURVE = 40


def render(view: View) -> RenderableType:
    """The whole screen."""
    parts: list[RenderableType] = [Text(f"{view.title} · {view.at}", style="bold")]
    if view.progress is not None:
        done = round(view.progress * _MAP_WIDTH)
        parts.append(Text("━" * done + "─" * (_MAP_WIDTH - done) + f" {view.progress:.0%}"))
    parts += [Text(f"! {note}", style="bold reverse") for note in view.notes]
    parts.append(_map(view.nodes))
    parts.append(_nodes(view.nodes))
    parts.append(_stages(view.stages))
    for agent in view.agents:
        style = "bold reverse" if agent.state == "dead" else ""
        parts.append(Text(f"agent of {agent.app}: {agent.policy}, {agent.state}; {agent.said}", style=style))
    events = Table("when", "what", "", box=None, pad_edge=False, expand=True)
    for event in view.events:
        events.add_row(event.at, escape(event.what), escape(event.text))
    parts.append(Panel(events, title="latest", title_align="left"))
    return Group(*parts)


def _map(nodes: Sequence[NodeView]) -> Text:
    """Edge nodes on a line by their distance: full where replicas are, crossed out where down."""
    edges = [node for node in nodes if node.role == "edge"]
    if not edges:
        return Text("no edge nodes")
    far = max(max(node.distance_ms for node in edges), 1.0)
    line = ["·"] * (_MAP_WIDTH + 1)
    for node in edges:
        place = round(node.distance_ms / far * _MAP_WIDTH)
        mark = "✖" if node.down else "●" if node.replicas else "○"
        line[place] = mark if line[place] in "·○" or mark == "✖" else line[place]
    return Text(f"0 ms {''.join(line)} {far:.0f} ms   ● replica  ○ free  ✖ down")


def _nodes(nodes: Sequence[NodeView]) -> Table:
    table = Table("node", "RTT", "CPU of its quota", "replicas", box=None, pad_edge=False)
    for node in sorted((n for n in nodes if n.role == "edge"), key=lambda n: n.distance_ms):
        replicas = ", ".join(f"{replica.stage} {replica.share:.0%}" for replica in node.replicas)
        table.add_row(node.name, f"{node.distance_ms:.0f} ms", _cpu(node), "down" if node.down else replicas)
    return table


def _cpu(node: NodeView) -> str:
    if node.used_cores is None:
        return "no answer"
    if not node.quota_cores:
        return f"{node.used_cores:.2f} cores"
    share = min(1.0, node.used_cores / node.quota_cores)
    full = round(share * 12)
    return f"{'█' * full}{'░' * (12 - full)} {share:4.0%}"


def _stages(stages: Sequence[StageView]) -> Table:
    headings = ("stage", "in/s", "out/s", "lag", "replicas", "share", "batch", "out/s, lately", "lag, lately")
    table = Table(*headings, box=None, pad_edge=False)
    for stage in stages:
        table.add_row(
            f"{stage.app}.{stage.stage}",
            _number(stage.input_rate),
            _number(stage.processed_rate),
            _number(stage.lag),
            str(stage.replicas),
            f"{stage.share:.0%}",
            "–" if not stage.batch_ms else f"{stage.batch_ms / 1e3:.1f} s",
            curve(stage.rates),
            curve(stage.lags),
        )
    return table


def curve(values: Sequence[float], width: int = _CURVE) -> str:
    """A curve of block characters: the mean of each stretch, against the largest of all."""
    if not values:
        return ""
    count = min(width, len(values))
    edges = [round(place * len(values) / count) for place in range(count + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in pairwise(edges) if b > a]
    top = max(means)
    if top <= 0:
        return _BLOCKS[1] * len(means)
    return "".join(_BLOCKS[1 + round(max(0.0, value) / top * 7)] for value in means)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"
