"""What a playbook did on each host, told from Ansible's events: one sentence for each that failed. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_LONGEST = 600
_SSH_SAID = re.compile(r"(?:over|via) ssh: (.+)$")
_SAYS_NOTHING = ("non-zero return code", "MODULE FAILURE", "Module result deserialization failed")
"""So begin messages that do not say what went wrong; the last line of the program's own words does."""
_NO_ROOM = re.compile(r".*No usable temporary directory found in (\[.+?\])")
"""How Python says that not a single byte can be written."""
_NOT_IN_A_DRY_RUN = ("would have run if not in check mode", "Check mode is not supported for this task")
"""What Ansible says of a command or script that it leaves out only because of check mode."""
_SPEAKS_FOR_ITSELF = ("ansible.builtin.assert", "ansible.builtin.fail", "assert", "fail")


@dataclass(slots=True)
class HostOutcome:
    """One host's part in a run."""

    ok: int = 0
    changed: int = 0
    failed: str | None = None
    """Why it stopped, in one sentence; None: it did not."""
    unreachable: bool = False
    plays: set[str] = field(default_factory=set)
    """The plays of the playbook that it took part in."""
    cut_off: bool = False
    """Whether the playbook ended, because of others, before its last play came to this host."""
    changes: list[str] = field(default_factory=list)
    """The tasks that changed something, or would have."""


@dataclass(slots=True)
class Outcome:
    """All hosts of a run, filled event by event."""

    hosts: dict[str, HostOutcome] = field(default_factory=dict)

    @property
    def changed(self) -> int:
        """How many changes were made in all."""
        return sum(host.changed for host in self.hosts.values())

    @property
    def failures(self) -> dict[str, str]:
        """By host why it stopped."""
        return {name: host.failed for name, host in self.hosts.items() if host.failed is not None}

    @property
    def cut_off(self) -> list[str]:
        """The hosts that could have gone on."""
        return [name for name, host in self.hosts.items() if host.cut_off]

    def take(self, event: Mapping[str, Any]) -> None:
        """Note what one of Ansible's events says."""
        kind = event.get("event", "")
        data = event.get("event_data") or {}
        name = data.get("host")
        if not name or not kind.startswith(("runner_on_", "runner_item_on_skipped")):
            return
        host = self.hosts.setdefault(name, HostOutcome())
        host.plays.add(str(data.get("play")))
        result = data.get("res") or {}
        if kind == "runner_on_ok":
            host.ok += 1
            if result.get("changed"):
                host.changed += 1
                # The module that restores a host says one by one what it did.
                host.changes += map(str, result.get("restored") or [task_name(data)])
        elif kind == "runner_on_failed" and not data.get("ignore_errors"):
            # A rescued failure is followed by the sentence of whoever rescued it.
            host.failed = sentence(data)
        elif kind == "runner_on_unreachable":
            host.failed, host.unreachable = out_of_reach(result), True
        elif kind.endswith("_skipped") and _for_the_dry_run(event):
            task = task_name(data)
            # The items of a loop are one change.
            if kind == "runner_on_skipped" or host.changes[-1:] != [task]:
                host.changed += 1
                host.changes.append(task)

    def ended(self, last_play: str, hosts: Iterable[str]) -> None:
        """Note which hosts the playbook did not come to the end with, though nothing was wrong with them."""
        for name in hosts:
            host = self.hosts.setdefault(name, HostOutcome())
            host.cut_off = host.failed is None and last_play not in host.plays

    def go_on(self, later: Outcome) -> None:
        """Add what running the playbook again on some of the hosts came to."""
        for name, again in later.hosts.items():
            host = self.hosts.setdefault(name, HostOutcome())
            host.ok += again.ok
            host.changed += again.changed
            host.changes += again.changes
            host.plays |= again.plays
            host.failed, host.unreachable, host.cut_off = again.failed, again.unreachable, again.cut_off

    def rescued(self, stats: Mapping[str, Any]) -> None:
        """Correct the outcome by Ansible's own final count: a rescued failure is none."""
        failed = {**(stats.get("failures") or {}), **(stats.get("dark") or {})}
        for name, host in self.hosts.items():
            if name not in failed:
                host.failed = None


def _for_the_dry_run(event: Mapping[str, Any]) -> bool:
    """Whether a task was skipped that would have been run otherwise; only the words of an event tell."""
    return any(words in str(event.get("stdout")) for words in _NOT_IN_A_DRY_RUN)


def task_name(data: Mapping[str, Any]) -> str:
    """What the task is called, without its role."""
    return str(data.get("task") or "a task").split(" : ")[-1]


def sentence(data: Mapping[str, Any]) -> str:
    """Why a task failed: its own words where they are meant for people, else the task's name before them."""
    result = data.get("res") or {}
    if result.get("censored") or data.get("task_args") == "the output has been hidden":
        return f"{task_name(data)}: failed; its output is hidden because it holds a secret"
    words = _words(result)
    action = str(data.get("resolved_action") or data.get("task_action") or "")
    if action in _SPEAKS_FOR_ITSELF:
        return words
    return f"{task_name(data)}: {words}"


def out_of_reach(result: Mapping[str, Any]) -> str:
    """Why a host could not be reached: what ssh said, without Ansible's words around it."""
    text = _words(result)
    said = _SSH_SAID.search(text)
    return f"cannot be reached: {said[1] if said else text}"


def _words(result: Mapping[str, Any]) -> str:
    message = str(result.get("msg") or "").strip().removeprefix("Task failed: ")
    stderr = str(result.get("stderr") or result.get("module_stderr") or "").strip()
    if (not message or message.startswith(_SAYS_NOTHING)) and stderr:
        message = stderr.splitlines()[-1]
    # Of a loop the failed item tells more, of collecting facts the module that could not.
    parts = [*(result.get("results") or ()), *(result.get("failed_modules") or {}).values()]
    for part in parts:
        if isinstance(part, Mapping) and (part.get("failed") or part.get("unreachable")):
            message = _words(part)
            break
    message = _NO_ROOM.sub(
        r"No space left on the disk, or it is read-only: nothing can be written in \1", message
    )
    text = " ".join(message.split()) or "failed without a word"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
