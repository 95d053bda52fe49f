"""`fogctl pi`: real boards — trust them, check them, provision them, and give them back."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from fogctl.cli.output import Format, OutputOption, emit, stderr, table
from fogctl.cli.pi_view import escaped, findings_view, progress
from fogctl.errors import FAILED, REFUSED, FogError
from fogctl.pi import known_hosts
from fogctl.pi.inventory import inventory as inventory_of
from fogctl.pi.inventory import require_hosts
from fogctl.pi.known_hosts import KnownHosts
from fogctl.testbed.model import SshHost, Testbed

app = typer.Typer(
    help="Real boards: trust them, check them, provision them, and give them back.", no_args_is_help=True
)

FileOption = Annotated[Path, typer.Option("--testbed", "-t", help="The testbed's file.")]
OnlyOption = Annotated[
    list[str] | None, typer.Option("--only", help="Only these nodes; may be repeated.", show_default=False)
]
YesOption = Annotated[
    bool, typer.Option("--yes", "-y", help="Record SSH host keys of new hosts without asking.")
]
KeepGoingOption = Annotated[
    bool, typer.Option("--keep-going", help="Go on with the other hosts when one fails.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Change nothing; say what would be changed.")]
DEFAULT_FILE = Path("testbed.yaml")


@app.command()
def trust(
    testbed: FileOption = DEFAULT_FILE,
    only: OnlyOption = None,
    replace: Annotated[
        list[str] | None,
        typer.Option(help="Forget the recorded key of this node first; may be repeated.", show_default=False),
    ] = None,
    yes: YesOption = False,
    output: OutputOption = Format.table,
) -> None:
    """Show the SSH host keys of hosts that are new and record them; recorded ones are compared.

    \b
    Examples:
      fogctl pi trust
      fogctl pi trust --yes
      fogctl pi trust --replace pi3      it was flashed again
    """
    bed, hosts = load(testbed, only)
    unknown = [name for name in replace or () if name not in {host.node for host in bed.hosts}]
    if unknown:
        raise FogError(f"there is no host {unknown[0]}", file=testbed, key="--replace")
    known = KnownHosts(known_hosts.default_file())
    silent = make_known(hosts, known, yes, replace or (), every=True)
    rows = [(host.node, known_hosts.name_of(host), _fingerprints(known, host)) for host in hosts]
    told = [{"node": node, "host": where, "fingerprint": shown} for node, where, shown in rows]
    emit(
        output,
        {"file": str(known.file), "hosts": told},
        table(None, ("node", "host", "recorded key"), rows),
    )
    _stop_if_silent(silent)


@app.command()
def check(
    testbed: FileOption = DEFAULT_FILE,
    only: OnlyOption = None,
    fix: Annotated[
        bool, typer.Option("--fix", help="Mend what can safely be mended, then check again.")
    ] = False,
    yes: YesOption = False,
    keep_going: KeepGoingOption = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --fix: change nothing; say what would be changed.")
    ] = False,
    output: OutputOption = Format.table,
) -> None:
    """Ask every host what it is like; say what is wrong and how to mend it. Exit 3 if something blocks.

    \b
    Examples:
      fogctl pi check
      fogctl pi check --fix --dry-run
      fogctl pi check --fix
      fogctl pi check --only pi3 -o json
    """
    from fogctl.cli.pi_run import mend, outcome_data, outcome_view
    from fogctl.pi.findings import blocked, fixable

    bed, hosts = load(testbed, only)
    known = KnownHosts(known_hosts.default_file())
    make_known(hosts, known, yes)
    found = examine(bed, hosts, known)
    mended = None
    if fix and (tags := fixable(found.findings)):
        mended = mend(bed, known, tags, {}, dry_run=dry_run, keep_going=keep_going)
        if not dry_run:
            found = examine(bed, hosts, known)
    told: dict[str, Any] = {
        "hosts": [_plain(facts) for facts in found.facts],
        "findings": [dataclasses.asdict(each) for each in found.findings],
        "blocked": blocked(found.findings),
    }
    view = findings_view(found, fixable(found.findings), fix)
    if mended is not None:
        told["fix"] = outcome_data(mended, dry_run)
        view += outcome_view(mended, dry_run) if dry_run else []
    emit(output, told, *view)
    if blocked(found.findings):
        raise typer.Exit(REFUSED)


@app.command()
def provision(
    testbed: FileOption = DEFAULT_FILE,
    only: OnlyOption = None,
    playbook: Annotated[
        list[str] | None,
        typer.Option(
            "--playbook",
            "-p",
            help="Only these of prepare, netem, k3s, images, monitor; may be repeated.",
            show_default=False,
        ),
    ] = None,
    artefacts: Annotated[
        Path | None,
        typer.Option(
            help="A folder with k3s's release files, for hosts without internet.", show_default=False
        ),
    ] = None,
    settings: Annotated[
        Path | None,
        typer.Option("--vars", help="A YAML file with variables of the roles.", show_default=False),
    ] = None,
    yes: YesOption = False,
    keep_going: KeepGoingOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = Format.table,
) -> None:
    """Make nodes of the hosts: prepare them, install k3s, ready them for latencies. Safe to run again.

    \b
    Examples:
      fogctl pi provision --dry-run
      fogctl pi provision
      fogctl pi provision -p prepare -p netem --keep-going
      fogctl pi provision --artefacts ./k3s-v1.36.4     without internet
    """
    from fogctl.cli.pi_run import chosen_playbooks, run_and_tell, variables

    bed, hosts = load(testbed, only)
    playbooks = chosen_playbooks(playbook)
    given = variables(bed, settings, artefacts, "images" in (playbook or ()))
    known = KnownHosts(known_hosts.default_file())
    make_known(hosts, known, yes)
    run_and_tell(bed, known, playbooks, hosts, given, output, dry_run=dry_run, keep_going=keep_going)


@app.command()
def reset(
    testbed: FileOption = DEFAULT_FILE,
    only: OnlyOption = None,
    yes: YesOption = False,
    keep_going: KeepGoingOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = Format.table,
) -> None:
    """Give the hosts back as they were before fogctl, and make sure that nothing is left.

    \b
    Examples:
      fogctl pi reset --dry-run
      fogctl pi reset
      fogctl pi reset --only pi3
    """
    from fogctl.cli.pi_run import run_and_tell
    from fogctl.pi.provision import RESET

    bed, hosts = load(testbed, only)
    known = KnownHosts(known_hosts.default_file())
    make_known(hosts, known, yes)
    run_and_tell(bed, known, [RESET], hosts, {}, output, dry_run=dry_run, keep_going=keep_going)


@app.command()
def inventory(testbed: FileOption = DEFAULT_FILE, output: OutputOption = Format.json) -> None:
    """Print the hosts as an Ansible inventory (JSON), for playbooks of your own.

    \b
    Example:
      fogctl pi inventory > inventory.json && ansible -i inventory.json all -m ansible.builtin.ping
    """
    bed, _ = load(testbed, None)
    made = inventory_of(bed, known_hosts.default_file())
    rows = [
        (group, node, each["ansible_user"], each["ansible_host"], each["ansible_port"])
        for group, members in made["all"]["children"].items()
        for node, each in members["hosts"].items()
    ]
    emit(output, made, table(None, ("group", "node", "user", "host", "port"), rows))


@app.command()
def dashboard(output: OutputOption = Format.json) -> None:
    """Print the Grafana dashboard (JSON) for the metrics that `fogctl pi provision -p monitor` collects.

    \b
    Example:
      fogctl pi dashboard > fogctl-dashboard.json
    """
    from fogctl import data

    file = data.path("playbooks") / "ansible_collections/fogctl/pi/roles/monitor/files/dashboard.json"
    shown = json.loads(file.read_text(encoding="utf-8"))
    rows = [(panel["title"], each["expr"]) for panel in shown["panels"] for each in panel["targets"]]
    made = table(None, ("panel", "query"), [tuple(map(escaped, row)) for row in rows])
    emit(output, shown, made)


def load(file: Path, only: list[str] | None) -> tuple[Testbed, list[SshHost]]:
    """A testbed, and those of its machines that are meant."""
    from fogctl.config import testbed

    bed = testbed.load(file)
    hosts = require_hosts(bed, file)
    names = [host.node for host in hosts]
    for name in only or ():
        if name not in names:
            raise FogError(
                f"there is no host {name}", file=file, key="--only", hint=f"hosts: {', '.join(names)}"
            )
    return bed, [host for host in hosts if not only or host.node in only]


def make_known(
    hosts: list[SshHost],
    known: KnownHosts,
    yes: bool,
    replace: list[str] | tuple[str, ...] = (),
    every: bool = False,
) -> list[tuple[SshHost, str]]:
    """Show the keys of hosts never seen before, record them once somebody agrees; says who is silent."""
    from fogctl.pi.preflight import first_contact

    with progress("first contact") as show:
        met = first_contact(hosts, known, show, replace, every)
    if met.new:
        console = stderr()
        # Lines, not a table: a fingerprint must never be cut short.
        lines = ["SSH host keys seen for the first time:"]
        for host, key in met.new:
            lines.append(f"  {host.node}  {known_hosts.name_of(host)}  {key.kind}  {key.fingerprint}")
        lines.append("a host tells its own with: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub")
        console.print(*map(escaped, lines), sep="\n", highlight=False, soft_wrap=True)
        if not yes:
            if not console.is_terminal:
                raise FogError(
                    f"{len(met.new)} SSH host keys are new and nobody is here to agree",
                    hint="look at them, then add --yes",
                    exit_code=REFUSED,
                )
            if not typer.confirm("record these keys?", err=True):
                raise FogError("nothing was recorded, nothing was changed", exit_code=REFUSED)
        known.record(met.new)
    return list(met.silent)


def examine(bed: Testbed, hosts: list[SshHost], known: KnownHosts) -> Any:
    """Probe the hosts with a bar on standard error."""
    from fogctl.config import boards
    from fogctl.pi.preflight import check as probe_all

    titles = {name: board.title for name, board in boards.load_all().items()}
    expected = {node.name: titles[node.board] for node in bed.nodes if node.board in titles}
    with progress("asking the hosts") as show:
        return probe_all(hosts, known, expected, show)


def _stop_if_silent(silent: list[tuple[SshHost, str]]) -> None:
    if silent:
        raise FogError("\n".join(f"{host.node}: {why}" for host, why in silent), exit_code=FAILED)


def _fingerprints(known: KnownHosts, host: SshHost) -> str:
    return " ".join(key.fingerprint for key in known.keys(host)) or "none"


def _plain(facts: Any) -> dict[str, Any]:
    return {**dataclasses.asdict(facts), "modules": sorted(facts.modules)}
