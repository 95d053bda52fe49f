"""The playbooks of `fogctl pi`: which run, with what, on which hosts, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fogctl.cli.output import Format, emit, stderr, table
from fogctl.cli.pi_view import escaped, task_progress
from fogctl.config.problems import choice_hint
from fogctl.errors import FAILED, FogError
from fogctl.pi import variables as role_variables
from fogctl.pi.inventory import inventory
from fogctl.pi.known_hosts import KnownHosts, settings_folder
from fogctl.pi.outcome import HostOutcome
from fogctl.pi.provision import PLAYBOOKS, Run, run
from fogctl.testbed.model import Role, SshHost, Testbed


@dataclass(slots=True)
class Done:
    """What all playbooks did: by playbook and host."""

    playbooks: dict[str, dict[str, HostOutcome]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    stopped: bool = False
    """Whether the other hosts were stopped because one had failed."""


def chosen_playbooks(asked: Sequence[str] | None) -> list[str]:
    """The playbooks to run, in their own order; images and monitor only when asked for."""
    for name in asked or ():
        if name not in PLAYBOOKS:
            raise FogError(
                f'there is no playbook "{name}"', key="--playbook", hint=choice_hint(name, PLAYBOOKS)
            )
    return [name for name in PLAYBOOKS if name in (asked or ("prepare", "netem", "k3s"))]


def variables(bed: Testbed, file: Path | None, artefacts: Path | None, images: bool) -> dict[str, Any]:
    """The roles' variables: from a file, the options, and where the way into the cluster is kept."""
    given = {} if file is None else role_variables.read(file)
    if artefacts is not None:
        if not artefacts.is_dir():
            raise FogError("no such folder", file=artefacts, key="--artefacts")
        given["k3s_artefacts"] = str(artefacts.absolute())
    if images and "images_archives" not in given:
        raise FogError(
            "the playbook images needs images_archives",
            key="--vars",
            hint="write images_archives: {arm64: stage.tar}, made with fogctl image save",
        )
    if images:
        from fogctl.image.recipe import image_name

        given.setdefault("images_name", image_name())
    given.setdefault("k3s_kubeconfig", str(kubeconfig(bed.name)))
    return given


def kubeconfig(testbed: str) -> Path:
    """Where the way into a testbed's cluster is kept, for its owner only."""
    return settings_folder() / "kube" / f"{testbed}.yaml"


def run_all(
    bed: Testbed,
    known: KnownHosts,
    playbooks: Sequence[str],
    hosts: Sequence[str],
    given: Mapping[str, Any],
    *,
    dry_run: bool,
    keep_going: bool,
    tags: Sequence[str] = (),
) -> Done:
    """Run playbooks in turn; a host that failed is left out of the later ones, or ends the run."""
    done = Done()
    left = list(hosts)
    control = next(node.name for node in bed.nodes if node.role is Role.control)
    if "k3s" in playbooks and not dry_run:
        kubeconfig(bed.name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in playbooks:
        with task_progress(f"{name} on {len(left)} hosts:") as show:
            wanted = Run(
                name, inventory(bed, known.file), given, left, check=dry_run, keep_going=keep_going, tags=tags
            )
            outcome = run(wanted, show)
            # Where hosts are changed one by one, Ansible ends with the first that fails.
            while keep_going and control not in outcome.failures and (rest := outcome.cut_off):
                known_failures = len(outcome.failures)
                outcome.go_on(run(replace(wanted, hosts=rest), show))
                if len(outcome.failures) == known_failures:
                    break
        done.playbooks[name] = outcome.hosts
        done.failures.update(outcome.failures)
        left = [host for host in left if host not in outcome.failures]
        done.stopped = bool(done.failures) and not keep_going
        if done.failures and (not keep_going or not left or control in done.failures):
            break
    return done


def run_and_tell(
    bed: Testbed,
    known: KnownHosts,
    playbooks: Sequence[str],
    hosts: Sequence[SshHost],
    given: Mapping[str, Any],
    output: Format,
    *,
    dry_run: bool,
    keep_going: bool,
) -> None:
    """Run playbooks in turn, say what came of it, and end with a sentence for each host that failed."""
    nodes = [host.node for host in hosts]
    done = run_all(bed, known, playbooks, nodes, given, dry_run=dry_run, keep_going=keep_going)
    emit(output, outcome_data(done, dry_run), *outcome_view(done, dry_run))
    stop_if_failed(done.failures)


def stop_if_failed(failures: dict[str, str]) -> None:
    """End with a sentence for each host that failed."""
    if failures:
        lines = [f"{host}: {why}" for host, why in failures.items()]
        raise FogError(
            "\n".join([*lines, "what is done stays done: mend this, then run the same command again"]),
            exit_code=FAILED,
        )


def mend(
    bed: Testbed,
    known: KnownHosts,
    tags: Mapping[str, set[str]],
    given: Mapping[str, Any],
    *,
    dry_run: bool,
    keep_going: bool,
) -> Done:
    """Apply the safe fixes, or say what they would be: hosts that need the same ones together."""
    by_tags: dict[frozenset[str], list[str]] = {}
    for host, wanted in tags.items():
        by_tags.setdefault(frozenset(wanted), []).append(host)
    done = Done({"prepare": {}})
    for wanted_tags, hosts in by_tags.items():
        part = run_all(
            *(bed, known, ["prepare"], hosts, given),
            dry_run=dry_run,
            keep_going=keep_going,
            tags=sorted(wanted_tags),
        )
        done.playbooks["prepare"].update(part.playbooks["prepare"])
        done.failures.update(part.failures)
        if done.failures and not keep_going:
            break
    said = "\n".join(f"{host}: {why}" for host, why in done.failures.items())
    if done.failures and not keep_going:
        raise FogError(said, exit_code=FAILED)
    if done.failures:
        stderr().print(said, markup=False, highlight=False, soft_wrap=True)
    return done


def outcome_data(done: Done, dry_run: bool) -> dict[str, Any]:
    """What was done, for programs."""
    return {
        "dry_run": dry_run,
        "playbooks": {
            name: {
                host: {
                    "ok": each.ok,
                    "changed": each.changed,
                    "changes": each.changes,
                    "failed": each.failed,
                    "unreachable": each.unreachable,
                }
                for host, each in hosts.items()
            }
            for name, hosts in done.playbooks.items()
        },
        "changed": sum(each.changed for hosts in done.playbooks.values() for each in hosts.values()),
        "failures": done.failures,
    }


def outcome_view(done: Done, dry_run: bool) -> list[Any]:
    """What was done, for people: a line a host and playbook; in a dry run also each change."""
    last = next(reversed(done.playbooks), None)
    rows = [
        (name, host, each.changed, _word(each, done.stopped and name == last))
        for name, hosts in done.playbooks.items()
        for host, each in hosts.items()
    ]
    lines: list[Any] = [table(None, ("playbook", "host", "would change" if dry_run else "changed", ""), rows)]
    if dry_run:
        for name, hosts in done.playbooks.items():
            for host, each in hosts.items():
                lines += [escaped(f"{host}: {name}: {change}") for change in each.changes]
        lines.append("dry run: nothing was changed")
    return lines


def _word(host: HostOutcome, stopped: bool) -> str:
    if host.failed is not None:
        return "failed"
    return "stopped" if stopped or host.cut_off else "done"
