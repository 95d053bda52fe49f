"""`fogctl init --kind k3s --hosts FILE`: from a list of boards to nodes of a cluster."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from fogctl.cli.output import Format, emit, stderr
from fogctl.cli.pi_view import escaped, findings_view
from fogctl.config import boards, testbed
from fogctl.errors import BAD_INPUT, REFUSED, FogError
from fogctl.pi import hosts_file, known_hosts
from fogctl.pi.known_hosts import KnownHosts
from fogctl.testbed.model import Testbed

DEFAULT_NAME = "lab"


@dataclass(frozen=True, slots=True)
class Wishes:
    """How boards are to be brought up, as far as the user has a say."""

    artefacts: Path | None = None
    settings: Path | None = None
    fix: bool = False
    yes: bool = False
    keep_going: bool = False


def draft(name: str | None, hosts: Path) -> str:
    """The testbed.yaml of the boards that a file lists."""
    try:
        text = hosts.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        example = "write a line a board: pi1 pi@192.168.1.11"
        raise FogError(f"cannot be read: {why}", file=hosts, hint=example, exit_code=BAD_INPUT) from None
    known = [*boards.load_all(), boards.UNLIMITED]
    return hosts_file.yaml_text(hosts_file.read(text, str(hosts), known), name or DEFAULT_NAME)


def written_already(text: str, file: Path) -> bool:
    """Whether the file holds exactly this."""
    return file.is_file() and file.read_text(encoding="utf-8", errors="replace") == text


def checked(text: str, file: Path) -> Testbed:
    """The testbed as it will be loaded again, before anything is written."""
    with tempfile.TemporaryDirectory(prefix="fogctl-init-") as scratch:
        copy = Path(scratch) / file.name
        copy.write_text(text, encoding="utf-8")
        return testbed.load(copy)


def bring_up(bed: Testbed, file: Path, wishes: Wishes, told: dict[str, Any], output: Format) -> None:
    """Trust, check and provision the boards; exit 3 before anything is changed if one is not fit."""
    from fogctl.cli.pi import examine, make_known
    from fogctl.cli.pi_run import (
        chosen_playbooks,
        mend,
        outcome_data,
        outcome_view,
        run_all,
        stop_if_failed,
        variables,
    )
    from fogctl.pi.findings import blocked, fixable

    given = variables(bed, wishes.settings, wishes.artefacts, images=False)
    known = KnownHosts(known_hosts.default_file())
    hosts = list(bed.hosts)
    make_known(hosts, known, wishes.yes)
    found = examine(bed, hosts, known)
    if wishes.fix and (tags := fixable(found.findings)):
        mend(bed, known, tags, given, dry_run=False, keep_going=wishes.keep_going)
        found = examine(bed, hosts, known)
    unfit = blocked(found.findings)
    told["blocked"] = unfit
    if found.findings:
        stderr().print(*findings_view(found, fixable(found.findings), wishes.fix), sep="\n")
    fit = [host.node for host in hosts if host.node not in unfit]
    control = next(node.name for node in bed.nodes if node.role.value == "control")
    if unfit and (not wishes.keep_going or control in unfit or not fit):
        emit(
            output,
            told,
            escaped(f"{file} is written. Mend what is said above, then run the same command again"),
        )
        raise typer.Exit(REFUSED)
    done = run_all(
        bed, known, chosen_playbooks(None), fit, given, dry_run=False, keep_going=wishes.keep_going
    )
    told["provisioned"] = outcome_data(done, dry_run=False)
    told["up"] = False
    view = outcome_view(done, dry_run=False)
    if done.failures or unfit:
        emit(output, told, *view)
        stop_if_failed(done.failures)
        raise typer.Exit(REFUSED)
    from fogctl.cli import cluster_init

    try:
        said = cluster_init.bring_up(bed, file)
    except FogError:
        emit(output, told, *view)  # what was done to the boards is told, whatever the cluster says
        raise
    told["up"] = True
    emit(output, told, *view, escaped(said))
