"""`fogctl init`: write a testbed.yaml that fits this host, check it, and bring the testbed up."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn

from fogctl.cli import pi_init
from fogctl.cli.output import Format, OutputOption, emit, stderr
from fogctl.cli.pi_init import Wishes
from fogctl.config import boards as profiles
from fogctl.config import shipped, source, testbed
from fogctl.config.fields import testbed_name
from fogctl.config.shares import Capacity, percent
from fogctl.config.shipped import Draft, Example
from fogctl.errors import FAILED, FogError
from fogctl.testbed.model import Kind, Testbed


def init(
    name: Annotated[
        str | None, typer.Argument(help="The testbed's name; the example's if not given.", show_default=False)
    ] = None,
    kind: Annotated[
        Kind | None,
        typer.Option(
            help="virtual: nodes emulated on this host; k3s: real boards; sim: a model. "
            "If not given: k3s with --hosts or --kubeconfig, else virtual.",
            show_default=False,
        ),
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option(
            min=1, help="How many edge nodes; the example's number if not given.", show_default=False
        ),
    ] = None,
    example: Annotated[Example, typer.Option(help="The testbed to start from.")] = Example.gesscale,
    hosts: Annotated[
        Path | None, typer.Option(help="A file of real boards, a line each.", show_default=False)
    ] = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(help="The way into a cluster that is there already.", show_default=False),
    ] = None,
    context: Annotated[
        str | None, typer.Option(help="With --kubeconfig: another context than its current one.")
    ] = None,
    file: Annotated[Path, typer.Option("--testbed", "-t", help="Where to write it.")] = Path("testbed.yaml"),
    artefacts: Annotated[
        Path | None,
        typer.Option(
            help="For real boards: a folder with k3s's release files, if they have no internet.",
            show_default=False,
        ),
    ] = None,
    settings: Annotated[
        Path | None,
        typer.Option(
            "--vars", help="For real boards: a YAML file with variables of the roles.", show_default=False
        ),
    ] = None,
    fix: Annotated[bool, typer.Option("--fix", help="For real boards: mend what can safely be.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="For real boards: record new SSH host keys without asking.")
    ] = False,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="For real boards: go on with the others when one fails.")
    ] = False,
    no_up: Annotated[bool, typer.Option("--no-up", help="Only write the files.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Write and change nothing; print what would be.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")] = False,
    output: OutputOption = Format.table,
) -> None:
    """Write testbed.yaml (and its latency matrix) to fit this host, check it, and bring the testbed up.

    \b
    Examples:
      sudo fogctl init                          ten emulated Raspberry Pi 4, 0 to 300 ms apart
      sudo fogctl init mycity --example city    three sites with jitter, loss and a schedule
      fogctl init --kind sim --nodes 50         a model: no root, nothing to bring up
      fogctl init --no-up --nodes 4             only write the files
      fogctl init lab --hosts hosts.txt         real boards, a line each: pi1 pi@192.168.1.11
      fogctl init lab --kubeconfig ~/.kube/config    the nodes of a cluster that is there
    """
    if name is not None:
        name = _checked_name(name)
    if kind is None:
        kind = Kind.virtual if hosts is None and kubeconfig is None else Kind.k3s
    if nodes is not None and kind is Kind.k3s:
        raise FogError(
            "how many nodes there are is said by --hosts or --kubeconfig", key="--nodes", hint="leave it out"
        )
    if kubeconfig is not None and (kind is not Kind.k3s or hosts is not None):
        raise FogError("a cluster needs --kind k3s, and no --hosts", key="--kubeconfig")
    if kubeconfig is not None:
        _init_cluster(name or pi_init.DEFAULT_NAME, kubeconfig, context, file, no_up, dry_run, force, output)
        return
    if kind is Kind.k3s:
        wishes = Wishes(artefacts, settings, fix, yes, keep_going)
        _init_boards(name, hosts, file, None if no_up else wishes, dry_run, force, output)
        return
    if hosts is not None:
        raise FogError("real boards need --kind k3s", key="--hosts", hint="use --nodes N for emulated ones")
    draft = _draft(example, kind, name, nodes, file)
    planned = _check(draft, file)
    _refuse_overwriting(draft, file, planned.name, force)
    if not dry_run:
        _write(draft, file)
    told = _facts(planned, draft, file, dry_run)
    if dry_run:
        told["steps"] = _steps(planned) if planned.kind is Kind.virtual and not no_up else []
        emit(output, told, *(_dry_run_text(draft, file, told["steps"])))
        return
    stderr().print(_written_text(planned, draft, file), highlight=False, soft_wrap=True)
    told["up"], said = _go_on(planned, file, no_up)
    emit(output, told, said)


def _init_boards(
    name: str | None,
    hosts: Path | None,
    file: Path,
    wishes: Wishes | None,
    dry_run: bool,
    force: bool,
    output: Format,
) -> None:
    """Real boards: the nodes come from a list, the machines are elsewhere; no wishes: only write the file."""
    if hosts is None:
        raise FogError(
            "real boards must be listed in a file, a line each",
            key="--hosts",
            hint="write for example: pi1 pi@192.168.1.11; for a cluster that is there give --kubeconfig FILE",
        )
    text = pi_init.draft(name, hosts)
    planned = pi_init.checked(text, file)
    draft = Draft({file.name: text}, 1.0, 1.0)
    if not pi_init.written_already(text, file):  # the same command again goes on where it ended
        _refuse_overwriting(draft, file, planned.name, force)
    told = _facts(planned, draft, file, dry_run) | {"up": False}
    go_on = f"go on with: fogctl pi check --testbed {file}, then fogctl pi provision --testbed {file}"
    if dry_run:
        boards = (
            "what would be changed on the boards only they can say: --no-up writes the file only, then "
            f"fogctl pi provision --testbed {file} --dry-run shows it"
        )
        emit(output, told, *_dry_run_text(draft, file, []), boards)
        return
    _write(draft, file)
    stderr().print(f"wrote {file}: {len(planned.nodes)} nodes", highlight=False, soft_wrap=True)
    if wishes is None:
        emit(output, told, go_on)
        return
    pi_init.bring_up(planned, file, wishes, told, output)


def _init_cluster(
    name: str,
    kubeconfig: Path,
    context: str | None,
    file: Path,
    no_up: bool,
    dry_run: bool,
    force: bool,
    output: Format,
) -> None:
    """A cluster that is there: the nodes are its own, and `up` is all there is to do."""
    from fogctl.cli import cluster_init

    text = cluster_init.draft(name, kubeconfig, context)
    planned = pi_init.checked(text, file)
    draft = Draft({file.name: text}, 1.0, 1.0)
    if not pi_init.written_already(text, file):  # the same command again goes on where it ended
        _refuse_overwriting(draft, file, planned.name, force)
    told = _facts(planned, draft, file, dry_run) | {"up": False}
    if dry_run:
        emit(output, told, *_dry_run_text(draft, file, []))
        return
    _write(draft, file)
    stderr().print(f"wrote {file}: {len(planned.nodes)} nodes", highlight=False, soft_wrap=True)
    if no_up:
        emit(output, told, f"bring it up with: fogctl up --testbed {file}")
        return
    said = cluster_init.bring_up(planned, file)
    emit(output, told | {"up": True}, said)


def _checked_name(name: str) -> str:
    try:
        return testbed_name(name)
    except ValueError as error:
        raise FogError(str(error), key="NAME") from None


def _draft(example: Example, kind: Kind, name: str | None, nodes: int | None, file: Path) -> Draft:
    # A matrix named after its testbed file lets several of them live in one folder.
    matrix = "latencies.csv" if file.name == "testbed.yaml" else f"{file.stem}-latencies.csv"
    made = shipped.draft(
        example, Capacity.of_this_host(), profiles.load_all(), name, nodes, kind, matrix_name=matrix
    )
    files = {(file.name if part == "testbed.yaml" else part): text for part, text in made.files.items()}
    return Draft(files, made.scale_cpu, made.scale_memory)


def _check(draft: Draft, file: Path) -> Testbed:
    """The testbed as it will be loaded again: read back from a scratch folder before anything is written."""
    with tempfile.TemporaryDirectory(prefix="fogctl-init-") as scratch:
        for part, text in draft.files.items():
            (Path(scratch) / part).write_text(text, encoding="utf-8")
        return testbed.load(Path(scratch) / file.name)


def _refuse_overwriting(draft: Draft, file: Path, name: str, force: bool) -> None:
    taken = [file.parent / part for part in draft.files if os.path.lexists(file.parent / part)]
    if taken and not force:
        raise FogError(
            f"{' and '.join(map(str, taken))} {'exists' if len(taken) == 1 else 'exist'} already",
            hint="bring it up with: fogctl up; or overwrite it with --force",
        )
    if any(path.is_dir() for path in taken):
        raise FogError("is a folder", file=taken[0], hint="name another file with --testbed")
    if not file.parent.is_dir():
        raise FogError(
            "no such folder", file=file.parent, hint="make it first, or name another file with --testbed"
        )
    old = _name_in(file)
    if old is not None and old != name and _is_up(old):
        raise FogError(
            f'describes the testbed "{old}", which is up',
            file=file,
            hint=f"take it down first: sudo fogctl down --testbed {file}; or name another file",
        )


def _name_in(file: Path) -> str | None:
    try:
        found = source.read(file).data
    except FogError:
        return None
    name = found.get("name") if isinstance(found, dict) else None
    return name if isinstance(name, str) else None


def _is_up(name: str) -> bool:
    from fogctl.testbed import state

    try:
        return state.StateFolder.of(testbed_name(name), state.state_dir()).exists
    except ValueError:
        return False


def _write(draft: Draft, file: Path) -> None:
    """Write each file whole or not at all, the testbed last: it never names a matrix that is not there."""
    for part in sorted(draft.files, key=lambda part: part == file.name):
        target = file.parent / part
        scratch = target.with_name(f".{part}.new")
        try:
            scratch.write_text(draft.files[part], encoding="utf-8")
            scratch.replace(target)
        except OSError as error:
            scratch.unlink(missing_ok=True)
            raise FogError(f"cannot be written: {error.strerror}", file=target, exit_code=FAILED) from None


def _facts(planned: Testbed, draft: Draft, file: Path, dry_run: bool) -> dict[str, Any]:
    return {
        "name": planned.name,
        "kind": planned.kind.value,
        "nodes": [node.name for node in planned.nodes],
        "files": [str(file.parent / part) for part in draft.files],
        "scale": {"cpu": draft.scale_cpu, "memory": draft.scale_memory},
        "cpu_cores": round(planned.cpu_cores, 6),
        "dry_run": dry_run,
    }


def _steps(planned: Testbed) -> list[str]:
    """What bringing it up would change on this host."""
    from fogctl.testbed.virtual import Virtual

    return [step.describe() for step in Virtual(planned).changes().made] if os.geteuid() == 0 else []


def _dry_run_text(draft: Draft, file: Path, steps: list[str]) -> list[str]:
    lines = []
    for part, text in draft.files.items():
        lines += [f"would write {file.parent / part}:", text.replace("[", "\\[")]
    lines += [f"would make {step}".replace("[", "\\[") for step in steps]
    return [*lines, "dry run: nothing was written, nothing was changed"]


def _written_text(planned: Testbed, draft: Draft, file: Path) -> str:
    written = " and ".join(str(file.parent / part) for part in draft.files)
    share = f"; together they may use {planned.cpu_cores:.2g} host cores (scale {percent(draft.scale_cpu)})"
    return f"wrote {written}: {len(planned.nodes)} nodes" + (share if planned.kind is Kind.virtual else "")


def _go_on(planned: Testbed, file: Path, no_up: bool) -> tuple[bool, str]:
    """Bring it up where that is asked for and possible; says what was done or how to go on."""
    up = "fogctl up" if file == Path("testbed.yaml") else f"fogctl up --testbed {file}"
    if planned.kind is Kind.sim:
        return False, "a sim testbed has nothing to bring up: it is ready"
    if no_up:
        return False, f"bring it up with: sudo {up}"
    if os.geteuid() != 0:
        return False, f"virtual nodes need root; go on with: sudo {up}"
    try:
        changed = _bring_up(planned)
    except FogError as error:
        raise FogError(
            f"{error}\n{file} stays as it is: mend what is said above, then run: {up}"
            f" (to undo what was made: {up.replace(' up', ' down')})",
            exit_code=error.exit_code,
        ) from error
    following = "next: fogctl net verify, fogctl status, fogctl down"
    return True, f'the testbed "{planned.name}" is up: {changed}\n{following}'


def _bring_up(planned: Testbed) -> str:
    from fogctl.testbed.virtual import Virtual

    columns = (
        TextColumn("bringing up"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} {task.description}"),
    )
    with Progress(*columns, console=stderr(), transient=True) as progress:
        task = progress.add_task("", total=None)

        def show(done: int, total: int, doing: str) -> None:
            progress.update(task, completed=done, total=total, description=doing)

        changes = Virtual(planned).up(show)
    backend = f"; {changes.latency}" if changes.latency else ""
    return f"{len(planned.nodes)} nodes, {len(changes.made)} of {changes.whole} steps made{backend}"
