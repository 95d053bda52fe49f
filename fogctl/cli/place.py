"""`fogctl place`: which worker runs which tasks, by contention and latency."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml

from fogctl.cli.output import Format, OutputOption, emit, stderr
from fogctl.errors import FAILED, REFUSED, FogError

# The model needs scipy and pictures matplotlib: imported when the command runs, not before.
if TYPE_CHECKING:
    from fogmodels.placement import Limits, Placement, Problem

_KEY = re.compile(r"^(operator \S+|limit \w+|[a-z_]+(?:[.\[][^:\s]*)?): (.+)$", re.DOTALL)


def place(
    file: Annotated[Path, typer.Argument(help="The problem, in YAML or JSON.", show_default=False)],
    limits: Annotated[
        str | None,
        typer.Option(metavar="cpu=…,net=…", help="Most cost per dimension, 0 to 1; tuned if not given."),
    ] = None,
    pareto: Annotated[bool, typer.Option("--pareto", help="List all costs that none beats.")] = False,
    count: Annotated[bool, typer.Option("--count", help="Count the distinct plans.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Say what decided, and draw the plan.")] = False,
    current: Annotated[
        Path | None,
        typer.Option(help="The placement now (worker: {operator: tasks}, or an earlier -o json)."),
    ] = None,
    max_moves: Annotated[
        int | None, typer.Option(help="Move at most so many tasks from the current placement.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the plan into this SVG or PNG file.")] = None,
    output: OutputOption = Format.table,
) -> None:
    """Place the tasks of a dataflow so that no worker is a bottleneck.

    Costs are those of CAPSys (cpu, state access, network: 0 is perfectly balanced, 1 the worst case), and
    latency where the file has rtt_ms. The best plan uses the least of its limits; limits are tuned if not
    given. Workers may be unequal, operators pinned or forbidden. Exit code 3: no plan fits the limits.

    \b
    Examples:
      fogctl place docs/examples/placement.yaml --explain
      fogctl place job.yaml --limits cpu=0.2,net=0.6 --plot plan.svg
      fogctl place job.yaml --current now.json --max-moves 3 -o json
      fogctl place job.yaml --count --limits cpu=0.1
    """
    from fogctl.cli import place_view as view

    if pareto and count:
        raise FogError("--pareto and --count answer different questions", hint="give one of them")
    if pareto and (limits or plot or explain):
        raise FogError("--pareto lists every best trade-off", hint="leave out --limits, --plot and --explain")
    problem = _problem(file, current, max_moves)
    wanted = _limits(limits)
    if count:
        number = _asked(lambda: _count(problem, wanted))
        emit(output, {"plans": number, "limits": _plain(wanted)}, f"{number} distinct plans")
    elif pareto:
        front = _asked(lambda: _pareto(problem))
        emit(output, [_described(problem, plan, None) for plan in front], view.front_table(problem, front))
    else:
        used, plan = _asked(lambda: _solve(problem, wanted))
        if plot is not None:
            _drawn(lambda: view.draw(problem, plan, used, plot), plot)
        shown: list[Any] = [view.plan_table(problem, plan), view.cost_table(problem, plan, used)]
        shown.append(view.verdict(plan, used, tuned=wanted is None))
        if explain:
            shown += [view.reason(plan, used), view.picture(problem, plan)]
        emit(output, _described(problem, plan, used), *shown)


def _count(problem: Problem, limits: Limits | None) -> int:
    from fogmodels.placement import count_plans

    return count_plans(problem, limits)


def _pareto(problem: Problem) -> list[Placement]:
    from fogmodels.placement import pareto

    return pareto(problem)


def _solve(problem: Problem, limits: Limits | None) -> tuple[Limits, Placement]:
    from fogmodels import placement as model

    if limits is None:
        try:
            return model.tune_and_place(problem)
        except model.NoPlan as error:
            raise FogError(str(error), exit_code=REFUSED) from None
    plan = model.place(problem, limits)
    if plan is None:
        raise FogError(
            f"no plan fits the limits {', '.join(f'{k}={v:g}' for k, v in _plain(limits).items())}",
            hint="raise a limit, or leave --limits out to have the least ones tuned",
            exit_code=REFUSED,
        )
    return limits, plan


def _asked(question: Any) -> Any:
    """The model's answer; what it cannot do within reason becomes a sentence."""
    from fogmodels.placement import TooLarge, Undecided

    try:
        with stderr().status("placing …"):
            return question()
    except (TooLarge, Undecided) as error:
        raise FogError(str(error), exit_code=FAILED) from None
    except ValueError as error:
        raise FogError(str(error)) from None


def _drawn(draw: Any, path: Path) -> None:
    try:
        draw()
    except (OSError, ValueError) as error:
        raise FogError(f"cannot write the picture: {error}", file=path) from None


def _problem(file: Path, current: Path | None, max_moves: int | None) -> Problem:
    from fogmodels.placement import Problem

    data = _loaded(file)
    if current is not None:
        now = _loaded(current)
        data["current"] = now.get("assignment", now)
    if max_moves is not None:
        if data.get("current") is None:
            raise FogError("--max-moves needs the placement now", hint="give it with --current FILE")
        data["max_moves"] = max_moves
    try:
        return Problem.from_dict(data)
    except ValueError as error:
        found = _KEY.match(str(error))
        key, message = (found[1], found[2]) if found else (None, str(error))
        from_current = current is not None and key is not None and key.startswith("current")
        raise FogError(message, file=current if from_current else file, key=key) from None


def _loaded(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FogError(
            f"cannot read the file: {getattr(error, 'strerror', None) or error}", file=file
        ) from None
    try:
        data = json.loads(text) if file.suffix == ".json" else yaml.safe_load(text)
    except json.JSONDecodeError as error:
        raise FogError(f"not JSON: {error.msg}", file=file, line=error.lineno) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = None if mark is None else mark.line + 1
        raise FogError(
            f"not YAML: {getattr(error, 'problem', None) or error}", file=file, line=line
        ) from None
    if not isinstance(data, dict):
        raise FogError("must be a mapping with keys such as operators and workers", file=file)
    return data


def _limits(text: str | None) -> Limits | None:
    """Limits from `cpu=0.2,net=0.6`."""
    from fogmodels.placement import Limits

    if text is None:
        return None
    given: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        try:
            given[name.strip()] = float(value)
        except ValueError:
            raise FogError(f"--limits {part.strip()!r}: write it as cpu=0.2,net=0.6") from None
    try:
        return Limits.of(given)
    except ValueError as error:
        raise FogError(f"--limits: {error}") from None


def _plain(limits: Limits | None) -> dict[str, float]:
    """The finite limits by dimension."""
    return {} if limits is None else {k: limits[k] for k in limits.limited}


def _described(problem: Problem, plan: Placement, limits: Limits | None) -> dict[str, Any]:
    """A plan as plain data."""
    from fogmodels.placement import bounds

    made: dict[str, Any] = {
        "assignment": {worker: dict(tasks) for worker, tasks in plan.assignment.items()},
        "cost": plan.cost,
        "load": plan.load,
        "moves": plan.moves if problem.current is not None else None,
    }
    if limits is not None:
        made["limits"] = _plain(limits)
        made["minimum"] = limits.minimum or None
        made["relaxed_steps"] = limits.steps if limits.minimum else None
        made["share_of_limit"], made["lower_bound"], made["gap"] = plan.objective, plan.lower_bound, plan.gap
        made["bounds"] = {d: {"least": low, "worst": high} for d, (low, high) in bounds(problem).items()}
    return made
