"""Running fogctl's playbooks with ansible-runner: which, on what, and with whose progress."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fogctl import data
from fogctl.errors import FAILED, FogError
from fogctl.pi.outcome import Outcome, task_name
from fogctl.pi.scratch import scratch_folder

PLAYBOOKS = ("prepare", "netem", "k3s", "images", "monitor")
"""In the order in which they run."""
RESET = "reset"

Show = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Run:
    """One playbook on some hosts."""

    playbook: str
    inventory: Mapping[str, Any]
    variables: Mapping[str, Any]
    hosts: Sequence[str]
    check: bool = False
    """Change nothing; say what would be."""
    keep_going: bool = False
    """Whether the other hosts go on when one fails."""
    tags: Sequence[str] = ()

    def arguments(self) -> list[str]:
        """What ansible-playbook is told besides inventory and variables."""
        said = ["--limit", ",".join(self.hosts)]
        if self.check:
            said.append("--check")
        if self.tags:
            said += ["--tags", ",".join(sorted(self.tags))]
        return said

    def environment(self, collections: Path, scratch: Path) -> dict[str, str]:
        """Settings of Ansible: ours alone, whatever ansible.cfg or environment the user has."""
        return {
            "ANSIBLE_CONFIG": str(scratch / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(collections),
            "ANSIBLE_HOME": str(scratch / "home"),
            "ANSIBLE_LOCAL_TEMP": str(scratch / "local"),
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(scratch / "cp"),
            "ANSIBLE_ANY_ERRORS_FATAL": str(not self.keep_going),
            "ANSIBLE_PIPELINING": "True",
            "ANSIBLE_FORKS": "16",
            # ansible-runner switches it off, and of two settings OpenSSH believes the first.
            "ANSIBLE_HOST_KEY_CHECKING": "True",
            "ANSIBLE_RETRY_FILES_ENABLED": "False",
            "ANSIBLE_NOCOLOR": "True",
            "ANSIBLE_DEPRECATION_WARNINGS": "False",
            "ANSIBLE_DISPLAY_ARGS_TO_STDOUT": "False",
            "ANSIBLE_TIMEOUT": "30",
            "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}",
        }


def run(wanted: Run, show: Show) -> Outcome:
    """Run a playbook and say what it did; FogError only if Ansible itself did not start or broke off."""
    # Imported here: it takes a while and only this needs it.
    import ansible_runner  # type: ignore[import-untyped]

    collections = data.path("playbooks")
    playbook = collections / "ansible_collections" / "fogctl" / "pi" / "playbooks" / f"{wanted.playbook}.yml"
    outcome = Outcome()
    stats: dict[str, Any] = {}

    def take(event: dict[str, Any]) -> bool:
        kind = event.get("event")
        found = event.get("event_data") or {}
        if kind == "playbook_on_task_start":
            show(task_name(found))
        elif kind == "playbook_on_stats":
            stats.update(found)
        outcome.take(event)
        return False  # nothing of an event is kept on the disk

    with scratch_folder() as scratch:
        (scratch / "ansible.cfg").write_text("")  # named, so that no other is looked for
        given = scratch / "variables.json"  # in a file: what is on the command line, everybody here can see
        given.write_text(json.dumps(dict(wanted.variables), default=str))
        with _own_signals(), _own_environment():
            done = ansible_runner.run(
                private_data_dir=str(scratch),
                playbook=str(playbook),
                inventory=dict(wanted.inventory),
                envvars=wanted.environment(collections, scratch),
                cmdline=" ".join(["--extra-vars", f"@{given}", *wanted.arguments()]),
                event_handler=take,
                quiet=True,
                # Only so does an event say why a task was skipped.
                verbosity=1 if wanted.check else 0,
                suppress_env_files=True,
            )
        printed = "" if done.stdout is None else done.stdout.read()
    if done.status == "canceled":  # Ctrl-C ends the command, not just the playbook that ran
        raise KeyboardInterrupt
    if stats:  # without its final count Ansible did not come to the end, and what failed has failed
        outcome.rescued(stats)
    if done.rc != 0 and not outcome.failures:
        begun = "could not run" if not outcome.hosts else "did not come to the end of"
        raise FogError(
            f"Ansible {begun} the playbook {wanted.playbook}: {_last_words(printed)}", exit_code=FAILED
        )
    outcome.ended(yaml.safe_load(playbook.read_text(encoding="utf-8"))[-1]["name"], wanted.hosts)
    return outcome


@contextmanager
def _own_signals() -> Iterator[None]:
    """ansible-runner takes Ctrl-C and SIGTERM for itself and does not give them back."""
    ours = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in ours.items():
            if threading.current_thread() is threading.main_thread():
                signal.signal(number, handler)


@contextmanager
def _own_environment() -> Iterator[None]:
    """Ansible's own variables of the user's are not heard: one of them can switch host keys off."""
    theirs = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("ANSIBLE_")}
    try:
        yield
    finally:
        os.environ.update(theirs)


def _last_words(printed: str) -> str:
    errors = [line for line in printed.splitlines() if "ERROR" in line]
    lines = errors or [line for line in printed.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it said nothing"
