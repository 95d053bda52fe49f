"""`fogctl experiment`: traces replayed under several policies, scored, compared and told on one page."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fogctl.cli.output import Format, OutputOption, emit, stderr, table
from fogctl.errors import FogError
from fogctl.testbed.model import Kind

if TYPE_CHECKING:
    from fogctl.experiment.experiment import Experiment, Part
    from fogctl.experiment.folder import RunFolder
    from fogctl.experiment.plant import Plant
    from fogctl.report.page import Story
    from fogctl.testbed.model import Testbed

app = typer.Typer(
    help="Replay a trace under several policies; score, compare and show what happened.",
    no_args_is_help=True,
)

RunsOption = Annotated[
    Path, typer.Option("--runs", help="The folder that holds the runs.", envvar="FOGCTL_RUNS")
]
_RUNS = Path("runs")
_INTERRUPTED = 130
"""What shells answer for a program that Ctrl-C ended."""
_HEADLINE = (
    "accuracy_o",
    "accuracy_u",
    "excess_time",
    "reconfigurations",
    "node_minutes",
    "mean_lag",
    "lost",
)
_RESPONSES = ("response_mean_s", "response_p95_s", "cpu_share", "goal_met")


@app.command()
def run(
    what: Annotated[
        str | None,
        typer.Argument(
            help="An experiment.yaml, or one that ships: gesscale, mead, smoke.", show_default=False
        ),
    ] = None,
    kind: Annotated[
        Kind | None, typer.Option(help="Where to run it, instead of what the file says: sim needs nothing.")
    ] = None,
    policy: Annotated[
        list[str] | None, typer.Option("--policy", help="Only these policies, by label; repeatable.")
    ] = None,
    repetitions: Annotated[int | None, typer.Option(min=1, max=100, help="Instead of the file's.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Instead of the file's.")] = None,
    testbed: Annotated[
        str | None,
        typer.Option("--testbed", "-t", help="Run it on this testbed of kind k3s, which is up and stays up."),
    ] = None,
    resume: Annotated[
        str | None, typer.Option(help="Go on with this run at the first policy that is not done.")
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(help="Simulate the experiment of this run, with parameters learned from it."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done; touch nothing.")
    ] = False,
    runs: RunsOption = _RUNS,
    output: OutputOption = Format.table,
) -> None:
    """Run an experiment: bring up, verify the network, replay under each policy, audit, score, report.

    Exit 3 if the measured latencies are off, 1 if it was stopped; --resume goes on where it was.

    \b
    Examples:
      fogctl experiment run gesscale --kind sim
      sudo fogctl experiment run smoke
      fogctl experiment run smoke --testbed lab
      sudo fogctl experiment run mine.yaml --policy gesscale --repetitions 3
      sudo fogctl experiment run --resume gesscale-20260501-101500
      fogctl experiment run --like gesscale-20260501-101500
    """
    from fogctl.experiment import runner
    from fogctl.report import page

    if sum(given is not None for given in (what, resume, like)) != 1:
        raise FogError(
            "name an experiment, or a run to resume or to simulate", hint="fogctl experiment list shows both"
        )
    fixed = {"--kind": kind, "--repetitions": repetitions, "--seed": seed, "--testbed": testbed}
    ignored = [key for key, value in fixed.items() if value is not None] + ["--policy"] * bool(policy)
    if resume is not None or like is not None:
        _refuse("--like" if resume is None else "--resume", ignored)
    if like is not None:
        folder, experiment, plant = _like(like, policy or [], runs)
    else:
        folder, experiment = (
            _resumed(resume, runs)
            if resume
            else _fresh(str(what), kind, policy or [], repetitions, seed, runs, _bed(testbed))
        )
        plant = _plant(experiment, folder)
    if dry_run:
        lines = _steps(experiment, folder)
        emit(output, {"run": str(folder.path), "steps": lines}, *lines)
        return
    try:
        with folder.held(), _ended_gently(), Bar() as bar:
            runner.run(experiment, plant, folder, bar)
            bar.say("scoring and drawing")
            story = page.write(folder)
    except KeyboardInterrupt:
        raise FogError(
            f"run {folder.name} was interrupted; what it measured is kept and everything was taken down",
            hint=f"fogctl experiment run --resume {folder.path}",
            exit_code=_INTERRUPTED,
        ) from None
    _tell(folder, story, output)


@app.command("list")
def list_runs(runs: RunsOption = _RUNS, output: OutputOption = Format.table) -> None:
    """List the experiments that ship and the runs that were made.

    \b
    Example:
      fogctl experiment list
    """
    from fogctl.experiment import experiment, folder

    shipped = {name: _summary(path) for name, path in experiment.shipped().items()}
    made = []
    for found in folder.all_runs(runs):
        manifest = found.manifest()
        done = sum(part["state"] == "done" for part in manifest["parts"])
        state = "running" if found.in_use() else manifest["state"]
        if state == "running" and not found.in_use():
            state = "killed"
        made.append(
            {
                "run": found.name,
                "experiment": manifest["experiment"],
                "kind": manifest["kind"],
                "state": state,
                "parts": f"{done}/{len(manifest['parts'])}",
                "began": manifest["began"],
            }
        )
    emit(
        output,
        {"shipped": shipped, "runs": made},
        table("experiments that ship", ("name", "what it does"), shipped.items()),
        table(
            f"runs in {runs}",
            ("run", "experiment", "kind", "state", "done", "began"),
            [tuple(entry.values()) for entry in made],
        )
        if made
        else f"no runs in {runs} yet: fogctl experiment run smoke --kind sim",
    )


@app.command()
def report(
    which: Annotated[str, typer.Argument(help="A run: its folder, its name, or how its name begins.")],
    figures: Annotated[
        Path | None, typer.Option(help="Also write each figure as SVG and PNG to this folder.")
    ] = None,
    runs: RunsOption = _RUNS,
    output: OutputOption = Format.table,
) -> None:
    """Score a run again from its files and make its page anew.

    \b
    Examples:
      fogctl experiment report gesscale
      fogctl experiment report runs/smoke-20260501-101500 --figures figures
    """
    from fogctl.experiment.folder import find
    from fogctl.report import page

    folder = find(which, runs).whole()
    with folder.held():
        _learn_ideal(folder)
        story = page.write(folder)
    if figures is not None:
        made = [file for drawing in story.figures for file in drawing.save(figures)]
        stderr().print(f"wrote {len(made)} files to {figures}")
    _tell(folder, story, output)


@app.command()
def keep(
    which: Annotated[str, typer.Argument(help="A run: its folder, its name, or how its name begins.")],
    to: Annotated[Path, typer.Option(help="The folder that holds what is kept.")],
    runs: RunsOption = _RUNS,
) -> None:
    """Keep a small copy of a run for good: manifest, scores and events, without its metrics and its page.

    `compare --together` reads such copies as it reads runs.

    \b
    Example:
      fogctl experiment keep gesscale-day-20260501-101500 --to docs/results
    """
    from fogctl.experiment.folder import find

    record = find(which, runs).keep(to)
    size = sum(file.stat().st_size for file in record.path.iterdir())
    typer.echo(f"{record.path}: {size / 1024:.0f} KiB")


@app.command()
def compare(
    which: Annotated[list[str], typer.Argument(help="Two runs or more.")],
    together: Annotated[
        bool, typer.Option("--together", help="The runs are sittings of one experiment: medians over all.")
    ] = False,
    runs: RunsOption = _RUNS,
    output: OutputOption = Format.table,
) -> None:
    """Put the scores of several runs side by side, policy by policy; changes are against the first run.

    Where two runs replayed the same trace, it also says for which part of the time they had the same
    replicas: a simulated run is a valid stand-in for a live one from 90 %.

    With --together, the repetitions of all runs count as those of one: medians for each policy, and changes
    against the first policy over the seeds that both have.

    \b
    Examples:
      fogctl experiment compare gesscale-20260501-101500 gesscale-20260502-090000
      fogctl experiment compare gesscale-20260501-101500 gesscale-like-20260501-140000
      fogctl experiment compare --together docs/results/gesscale-day-*
    """
    from fogctl.experiment import compare as comparing
    from fogctl.experiment.folder import find
    from fogctl.report.columns import COLUMNS

    found = [find(name, runs) for name in which]
    if together:
        pooled = comparing.together([(f.name, f.manifest(), f.scores()) for f in found])
        _tell_together(pooled, output)
        return
    if len(which) < 2:
        raise FogError("name two runs or more", hint="fogctl experiment list shows them")
    rows = comparing.compare([(folder.name, folder.scores()) for folder in found])
    columns = [c for c in COLUMNS if c.key in _HEADLINE]
    cells = [
        (
            row["policy"],
            row["run"],
            *(f"{c.text(row['scores'][c.key])} {row['change'].get(c.key, '')}".strip() for c in columns),
        )
        for row in rows
    ]
    alike = {other.name: comparing.replicas(found[0], other) for other in found[1:]}
    shown = [
        (part["policy"], part["repetition"], f"{part['agreement']:.0%}", f"{part['within_one']:.0%}",
         f"{part['mean_difference']:+.2f}", "yes" if part["valid"] else "no")
        for parts in alike.values() for part in parts
    ]  # fmt: skip
    headings = ("policy", "repetition", "same replicas", "at most 1 apart", "replicas more", "90 % or more")
    emit(
        output,
        {"policies": rows, "replicas": alike},
        table(None, ("policy", "run", *(c.heading for c in columns)), cells),
        *([table(f"replicas over time, against {found[0].name}", headings, shown)] if shown else []),
    )


def _tell_together(rows: list[dict[str, Any]], output: Format) -> None:
    from fogctl.report.columns import COLUMNS

    columns = [c for c in COLUMNS if c.key in _HEADLINE or c.key == "weighted_node_minutes"]
    cells = [
        (
            row["policy"],
            ", ".join(map(str, row["seeds"])),
            *(f"{c.text(row['scores'][c.key])} {row['change'].get(c.key, '')}".strip() for c in columns),
        )
        for row in rows
    ]
    headings = ("policy", "seeds", *(c.heading for c in columns))
    emit(output, {"policies": rows}, table("medians over all repetitions", headings, cells))


class Bar:
    """Progress on the terminal: which part, how far, how long still. Satisfies `runner.Watcher`."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeRemainingColumn(),
            console=stderr(),
            transient=True,
        )
        self._task: Any = None
        self._done_s = 0.0
        self._part_s = 0.0

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def say(self, line: str) -> None:
        """Something begins."""
        self._progress.console.print(line, markup=False, highlight=False)

    def part(self, number: int, total: int, part: Part, whole_s: float) -> None:
        """A part begins; parts of one run take about equally long."""
        if self._task is None:
            self._task = self._progress.add_task("", total=total * whole_s)
        self._done_s = (number - 1) * whole_s
        self._part_s = whole_s
        self._progress.update(self._task, description=f"{number}/{total} {part}", completed=self._done_s)

    def at(self, seconds: float) -> None:
        """So far into the part; what takes longer than the trace waits at its end."""
        self._progress.update(self._task, completed=self._done_s + min(seconds, self._part_s))


@contextmanager
def _ended_gently() -> Iterator[None]:
    """In the body SIGTERM does what Ctrl-C does: the testbed is taken down before the process ends."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _refuse(how: str, ignored: list[str]) -> None:
    """A run that is resumed or simulated again says itself what it is; FogError rather than be silent."""
    refused = [key for key in ignored if how == "--resume" or key != "--policy"]
    if refused:
        raise FogError(
            f"{how} takes the run as it was begun, so {' and '.join(refused)} cannot be given with it",
            key=refused[0],
            hint="leave it out, or name the experiment to begin a run of its own",
        )


def _fresh(
    what: str,
    kind: Kind | None,
    policy: list[str],
    repetitions: int | None,
    seed: int | None,
    runs: Path,
    bed: Testbed | None,
) -> tuple[RunFolder, Experiment]:
    from fogctl.experiment import experiment
    from fogctl.experiment.folder import RunFolder, new_path

    loaded = experiment.load(what, kind=kind, policies=policy, repetitions=repetitions, seed=seed, bed=bed)
    return RunFolder(new_path(runs, loaded.name, datetime.now())), loaded


def _bed(name: str | None) -> Testbed | None:
    """The testbed of that name, which is up; a virtual one is refused: the run would take it down."""
    if name is None:
        return None
    from fogctl.cli.testbed import which

    found = which(name).load().testbed
    if found.kind is not Kind.k3s:
        raise FogError(
            f"testbed {found.name} is of kind {found.kind.value}: an experiment brings up such a one itself",
            key="--testbed",
            hint="name it in experiment.yaml: testbed: {use: testbed.yaml}",
        )
    return found


def _resumed(name: str, runs: Path) -> tuple[RunFolder, Experiment]:
    from fogctl.experiment import experiment
    from fogctl.experiment.folder import find

    folder = find(name, runs)
    manifest = folder.manifest()
    if all(part["state"] == "done" for part in manifest["parts"]):
        raise FogError(f"run {folder.name} is done", hint=f"fogctl experiment report {folder.path}")
    return folder, experiment.of_manifest(manifest)


def _like(name: str, policy: list[str], runs: Path) -> tuple[RunFolder, Experiment, Plant]:
    """The experiment of a run, to be simulated as that run showed it."""
    from fogctl.experiment import experiment
    from fogctl.experiment.folder import RunFolder, find, new_path
    from fogctl.experiment.like import parameters_like
    from fogctl.experiment.sim_plant import SimPlant

    shown = find(name, runs).whole()
    loaded = experiment.of_manifest(shown.manifest(), kind=Kind.sim, policies=policy or None)
    folder = RunFolder(new_path(runs, f"{loaded.name}-like", datetime.now()))
    return folder, loaded, SimPlant(loaded, parameters_like(shown), shown.name)


def _learn_ideal(folder: RunFolder) -> None:
    """A run that was stopped has no ideal curve yet, though its finished parts may show one."""
    from fogctl.experiment import experiment, like

    manifest = folder.manifest()
    if "mst" in manifest or "network" not in manifest:
        return
    try:
        like.with_ideal(experiment.of_manifest(manifest), folder)
    except FogError as error:
        stderr().print(f"no ideal curve: {error}", markup=False, highlight=False)


def _plant(experiment: Experiment, folder: RunFolder) -> Plant:
    if experiment.testbed.kind is Kind.sim:
        from fogctl.experiment.sim_plant import SimPlant
        from fogctl.sim import parameters

        begun = folder.manifest() if folder.manifest_file.is_file() else {}
        known = {name: parameters.from_json(told) for name, told in begun.get("parameters", {}).items()}
        return SimPlant(experiment, known, begun.get("like"))
    if experiment.testbed.kind is Kind.k3s:
        from fogctl.experiment.cluster_plant import ClusterPlant

        return ClusterPlant(experiment, folder)
    from fogctl.experiment.live_plant import LivePlant

    return LivePlant(experiment, folder)


def _steps(experiment: Experiment, folder: RunFolder) -> list[str]:
    load = experiment.load(experiment.parts[0].seed)
    boards = experiment.testbed.kind is Kind.k3s
    steps = [
        f"make the run folder {folder.path}",
        f"{'use' if boards else 'bring up'} testbed {experiment.testbed.name} "
        f"({experiment.testbed.kind.value}, {len(experiment.testbed.nodes)} nodes), "
        f"measure its latencies (± {experiment.tolerance_ms:g} ms)",
    ]
    for part in experiment.parts:
        placed = "; ".join(f"{stage} on {', '.join(nodes)}" for stage, nodes in experiment.start)
        steps.append(
            f"{part}: deploy {experiment.app.name} ({placed}), replay {load.records:,} records in "
            f"{load.duration_s:.0f} s, drain, audit, remove"
        )
    return [*steps, "score, write the report" + ("" if boards else ", take the testbed down")]


def _tell(folder: RunFolder, story: Story, output: Format) -> None:
    from fogctl.report import words
    from fogctl.report.columns import COLUMNS, RESPONSE_COLUMNS

    policies = story.scores["policies"]
    keys = (*_HEADLINE, *_RESPONSES)
    shown = [
        column
        for column in (*COLUMNS, *RESPONSE_COLUMNS)
        if column.key in keys and any(policy.get(column.key) is not None for policy in policies)
    ]
    cells = [(p["policy"], *(column.text(p.get(column.key)) for column in shown)) for p in policies]
    emit(
        output,
        {**story.scores, "run": str(folder.path), "report": str(folder.report_file)},
        table(folder.name, ("policy", *(column.heading for column in shown)), cells),
        *(f"warning: {line}" for line in story.scores["warnings"]),
        *words.conclusion(story.scores),
        f"report: {folder.report_file}",
    )


def _summary(path: Path) -> str:
    """The first sentence of the comment at the top of an experiment."""
    lines = [line.lstrip("# ").strip() for line in path.read_text().splitlines() if line.startswith("#")]
    text = " ".join(line for line in lines if line and not line.startswith("yaml-language"))
    return text.partition(". ")[0].rstrip(".")
