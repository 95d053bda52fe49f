"""How boards and what is wrong with them look to people, and the bars while they are asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from fogctl.cli.output import stderr, table
from fogctl.cli.testbed_view import escaped as escaped

if TYPE_CHECKING:
    from fogctl.pi.preflight import Preflight


@contextmanager
def progress(title: str) -> Iterator[Callable[[int, int, str], None]]:
    """A bar on standard error for hosts that are asked side by side."""
    columns = (TextColumn(title), BarColumn(), TextColumn("{task.completed}/{task.total} {task.description}"))
    console = stderr()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total, doing: bar.update(
            task, completed=done, total=total, description=escaped(doing)
        )


@contextmanager
def task_progress(title: str) -> Iterator[Callable[[str], None]]:
    """A spinner with the playbook's present task: how many there will be is not known before."""
    columns = (SpinnerColumn(), TextColumn(title), TextColumn("{task.description}"), TimeElapsedColumn())
    console = stderr()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda doing: bar.update(task, description=escaped(doing))


def findings_view(found: Preflight, fixable: Mapping[str, Any], fixed: bool) -> list[Any]:
    """A table of the findings, and what they come to."""
    hosts = len(found.facts) + sum(1 for each in found.findings if each.about == "contact")
    if not found.findings:
        return [f"{hosts} hosts were asked; nothing is wrong with them"]
    rows = [
        (each.host, each.severity.value, each.about, each.what, each.fix + (" [--fix]" if each.safe else ""))
        for each in found.findings
    ]
    made = table(
        None, ("host", "", "about", "found", "how to mend it"), [tuple(map(escaped, row)) for row in rows]
    )
    for column in made.columns:
        column.overflow = "fold"  # a command to type must not be cut short
    lines: list[Any] = [made]
    stopping = {each.host for each in found.findings if each.severity.value == "block"}
    lines.append(
        f"{len(stopping)} of {hosts} hosts cannot become nodes like this"
        if stopping
        else f"{hosts} hosts were asked; nothing blocks"
    )
    if fixable and not fixed:
        lines.append("fogctl pi check --fix mends those that are marked so")
    return lines
