"""`fogctl down --reset`: real boards given back as they were, once their testbed is down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from fogctl.cli.output import stderr
from fogctl.cli.pi_run import outcome_data, outcome_view, run_all, stop_if_failed
from fogctl.errors import FAILED, REFUSED, FogError
from fogctl.pi import known_hosts
from fogctl.pi.inventory import require_hosts
from fogctl.pi.known_hosts import KnownHosts
from fogctl.pi.provision import RESET
from fogctl.testbed.model import Testbed
from fogctl.testbed.state import StateFolder

__all__ = ["agreed", "give_back", "stop_if_failed"]


def agreed(folder: StateFolder, given: str | None, *, yes: bool, dry_run: bool) -> Testbed:
    """The testbed whose boards are to be given back, once somebody agrees; asked before anything is done."""
    from fogctl.config import testbed

    file = Path(given or "testbed.yaml")
    if not file.is_file() and not folder.exists:
        raise FogError(
            f"testbed {folder.name} is not up, so its machines are not known by its name",
            hint="name its file: fogctl down --reset --testbed testbed.yaml",
            exit_code=FAILED,
        )
    bed = testbed.load(file) if file.is_file() else folder.load().testbed
    hosts = require_hosts(bed, file)
    if yes or dry_run:
        return bed
    if not stderr().is_terminal:
        raise FogError(
            f"--reset takes k3s and all else of fogctl off {len(hosts)} machines: nobody is here to agree",
            hint="add --yes; fogctl down --reset --dry-run shows what would be done",
            exit_code=REFUSED,
        )
    if not typer.confirm(f"take k3s and all fogctl has done off {len(hosts)} machines?", err=True):
        raise FogError("nothing was changed", exit_code=REFUSED)
    return bed


def give_back(bed: Testbed, folder: StateFolder, *, dry_run: bool) -> tuple[dict[str, Any], list[Any]]:
    """Run the playbook that undoes all others on every board; what came of it, for programs and people.

    What is remembered of the testbed goes too, if taking it down could not: its cluster is no more.
    """
    known = KnownHosts(known_hosts.default_file())
    nodes = [host.node for host in bed.hosts]
    done = run_all(bed, known, [RESET], nodes, {}, dry_run=dry_run, keep_going=True)
    if not dry_run and not done.failures and folder.exists:
        from fogctl.kube import background

        background.stop_all(folder.folder)
        folder.remove()
    return outcome_data(done, dry_run), outcome_view(done, dry_run)
