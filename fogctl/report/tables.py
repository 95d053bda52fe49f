"""The tables of a report as HTML: scores beside the papers', decisions with reasons, figures as numbers."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from fogctl.report import paper
from fogctl.report.columns import COLUMNS, RESPONSE_COLUMNS, Column, change
from fogctl.report.policy_figure import said

Score = Mapping[str, Any]
_PAPER_KEYS = tuple(field.name for field in fields(paper.Elastic))


def elasticity(policies: Sequence[Score]) -> str:
    """The medians of every policy; under those that the paper has, the paper's row."""
    shown = [column for column in COLUMNS if _worth(column, policies)]
    best = {column.key: _best(column, policies) for column in shown}
    lines = [_head("Scores, medians over repetitions; ◂ marks the best", shown)]
    for index, policy in enumerate(policies):
        cells = [
            _cell(policy, column, f"policies.{index}.{column.key}", best[column.key]) for column in shown
        ]
        lines.append(f"<tr><th scope=row>{_text(policy['policy'])}</th>{''.join(cells)}</tr>")
        published = paper.GESSCALE.get(str(policy["policy"]))
        if published is not None:
            values = asdict(published)
            own = "".join(f"<td>{_text(c.text(values.get(c.key)))}</td>" for c in shown)
            lines.append(f"<tr class=paper><th scope=row>in the paper, on Flink</th>{own}</tr>")
    return _table(lines)


def relative(policies: Sequence[Score]) -> str:
    """Each policy against the first one that finished, ours and the paper's."""
    base = next((p for p in policies if p.get("finished_s") is not None), policies[0])
    keys = [c for c in COLUMNS if c.key in _PAPER_KEYS]
    columns = [c for c in keys if base.get(c.key) is not None]
    lines = [_head(f"Change against {base['policy']}", columns)]
    published_base = paper.GESSCALE.get(str(base["policy"]))
    for policy in (p for p in policies if p is not base and p.get("finished_s") is not None):
        own = "".join(
            f"<td>{'–' if policy.get(c.key) is None else change(policy[c.key], base[c.key])}</td>"
            for c in columns
        )
        lines.append(f"<tr><th scope=row>{_text(policy['policy'])}</th>{own}</tr>")
        published = paper.GESSCALE.get(str(policy["policy"]))
        if published is not None and published_base is not None:
            theirs = "".join(
                f"<td>{_text(change(getattr(published, c.key), getattr(published_base, c.key)))}</td>"
                for c in columns
            )
            lines.append(f"<tr class=paper><th scope=row>in the paper, on Flink</th>{theirs}</tr>")
    return _table(lines)


def responses(policies: Sequence[Score], targets: Mapping[str, Mapping[str, Any]]) -> str:
    """Response times and CPU of each policy, with its target."""
    shown = [c for c in RESPONSE_COLUMNS if any(p.get(c.key) is not None for p in policies)]
    target = Column("target", "target", "flag", "what was asked for", "none")
    lines = [_head("Response times and CPU", [target, *shown])]
    for index, policy in enumerate(policies):
        goal = targets.get(str(policy["policy"]), {})
        asked = ", ".join(
            f"{name} ≤ {float(goal[key]):g} s"
            for key, name in (("mean_s", "mean"), ("p95_s", "p95"))
            if goal.get(key)
        )
        cells = "".join(_cell(policy, c, f"policies.{index}.{c.key}", None) for c in shown)
        lines.append(
            f"<tr><th scope=row>{_text(policy['policy'])}</th><td>{_text(asked or '–')}</td>{cells}</tr>"
        )
    return _table(lines)


def published_responses() -> str:
    """MEAD's Tables I and II."""
    lines = []
    for caption, rows in (
        ("MEAD, Table I: mean response time", paper.MEAD_MEAN),
        ("MEAD, Table II: 95th percentile", paper.MEAD_P95),
    ):
        head = "".join(
            f"<th scope=col>{name}</th>" for name in ("trace", "model", "target", "result", "CPU", "met")
        )
        body = "".join(
            f"<tr class=paper><th scope=row>{row.trace}</th><td>{row.model}</td><td>{row.target_s:g} s</td>"
            f"<td>{row.response_s:g} s</td><td>{row.cpu_percent:g} %</td>"
            f"<td>{'yes' if row.met else 'no'}</td></tr>"
            for row in rows
        )
        lines.append(_framed(head, body, caption))
    return "".join(lines)


def decisions(events: Sequence[Mapping[str, Any]]) -> str:
    """Every change with its reason."""
    body = "".join(
        f"<tr><td>{float(event['at_s']):.0f} s</td><td>{_text(event.get('what', ''))}</td>"
        f"<td class=reason>{_text(said(event))}</td><td class=reason>{_text(_numbers(event))}</td></tr>"
        for event in events
    )
    head = "".join(f"<th scope=col>{name}</th>" for name in ("at", "what", "decision and reason", "numbers"))
    return _framed(head, body)


def series(probe: Mapping[str, Any], most: int = 60) -> str:
    """A figure's values as a table, thinned to what can be read."""
    times = probe["t"]
    step = max(1, -(-len(times) // most))
    head = "".join(f"<th scope=col>{_text(one['name'])}</th>" for one in probe["series"])
    body = "".join(
        f"<tr><td>{times[i]:.0f} s</td>"
        + "".join(f"<td>{one['v'][i]:g}</td>" for one in probe["series"])
        + "</tr>"
        for i in range(0, len(times), step)
    )
    return _framed(f"<th scope=col>time</th>{head}", body)


def parts(scores: Sequence[Score]) -> str:
    """Every repetition by itself."""
    shown = [c for c in COLUMNS if _worth(c, scores)]
    lines = [_head("Every repetition", shown)]
    for index, part in enumerate(scores):
        cells = "".join(_cell(part, c, f"parts.{index}.{c.key}", None) for c in shown)
        lines.append(f"<tr><th scope=row>{_text(part['policy'])}, {part['repetition']}</th>{cells}</tr>")
    return _table(lines)


def matrix(network: Mapping[str, Any]) -> str:
    """Latencies as a table: asked and measured in each cell."""
    nodes = network["nodes"]
    seen = network.get("measured_ms")
    head = "".join(f"<th scope=col>{_text(node)}</th>" for node in nodes)
    body = ""
    for row, node in enumerate(nodes):
        cells = ""
        for column in range(len(nodes)):
            asked = network["asked_ms"][row][column]
            got = None if seen is None else seen[row][column]
            cells += f"<td>{asked:g}{'' if got is None or row == column else f' / {got:.1f}'}</td>"
        body += f"<tr><th scope=row>{_text(node)}</th>{cells}</tr>"
    return _framed(f"<th></th>{head}", body, "ms, asked / measured")


def _head(caption: str, columns: Sequence[Column]) -> str:
    cells = "".join(f'<th scope=col title="{_text(c.meaning)}">{_text(c.heading)}</th>' for c in columns)
    return (
        f"<caption>{_text(caption)}</caption><thead><tr><th scope=col>policy</th>{cells}</tr></thead><tbody>"
    )


def _framed(head: str, body: str, caption: str = "") -> str:
    named = f"<caption>{caption}</caption>" if caption else ""
    return (
        f"<div class=scroll><table>{named}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _table(lines: Sequence[str]) -> str:
    return f"<div class=scroll><table>{''.join(lines)}</tbody></table></div>"


def _cell(score: Score, column: Column, key: str, best: float | None) -> str:
    value = score.get(column.key)
    won = best is not None and value is not None and score.get("finished_s") is not None
    mark = " class=best" if won and float(value or 0.0) == best else ""
    exact = "" if value is None else f' data-value="{_exact(value)}"'
    return f'<td{mark} data-key="{key}"{exact}>{_text(column.text(value))}</td>'


def _worth(column: Column, scores: Sequence[Score]) -> bool:
    """Whether a column says something; what is 0 everywhere and rarely anything else does not."""
    values = [score.get(column.key) for score in scores]
    return any(values) if column.rare else any(value is not None for value in values)


def _exact(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _best(column: Column, policies: Sequence[Score]) -> float | None:
    """The best value of a column among those who finished; None where neither way is better, or all same."""
    values = [
        float(p[column.key])
        for p in policies
        if p.get(column.key) is not None and p.get("finished_s") is not None
    ]
    if column.better == "none" or len(set(values)) < 2:
        return None
    return min(values) if column.better == "low" else max(values)


def _numbers(event: Mapping[str, Any]) -> str:
    numbers = event.get("numbers") or {}
    return ", ".join(
        f"{key} {float(value):.4g}" for key, value in numbers.items() if isinstance(value, int | float)
    )


def _text(value: object) -> str:
    return html.escape(str(value))
