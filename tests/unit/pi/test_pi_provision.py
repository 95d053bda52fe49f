"""A run of ansible-runner, as fogctl tells it: what it reports, and what it must not take for success."""

from __future__ import annotations

import io
import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ansible_runner  # type: ignore[import-untyped]
import pytest

from fogctl.errors import FAILED, FogError
from fogctl.pi.outcome import Outcome
from fogctl.pi.provision import Run, run


@dataclass
class Played:
    """In ansible-runner's place: plays events, ends as it is told, and remembers what it was given."""

    events: Sequence[Mapping[str, Any]] = ()
    rc: int = 0
    printed: str = ""
    given: dict[str, Any] = field(default_factory=dict)

    def __call__(self, event_handler: Callable[[Mapping[str, Any]], bool], **given: Any) -> Any:
        self.given = given
        for event in self.events:
            event_handler(event)
        return type("Done", (), {"rc": self.rc, "status": "", "stdout": io.StringIO(self.printed)})


def told(kind: str, host: str, **res: Any) -> dict[str, Any]:
    return {"event": kind, "event_data": {"host": host, "task": "Do it", "res": res}}


def stats(**counts: Any) -> dict[str, Any]:
    return {"event": "playbook_on_stats", "event_data": counts}


def playing(monkeypatch: pytest.MonkeyPatch, played: Played) -> Played:
    monkeypatch.setattr(ansible_runner, "run", played)
    return played


def quiet(_: str) -> None:
    pass


def test_a_run_that_breaks_off_after_some_tasks_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    playing(
        monkeypatch, Played([told("runner_on_ok", "pi1")], rc=250, printed="ERROR! Unexpected Exception\n")
    )
    with pytest.raises(
        FogError, match="did not come to the end of the playbook netem: ERROR! Unex"
    ) as caught:
        run(Run("netem", {}, {}, ["pi1"]), quiet)
    assert caught.value.exit_code == FAILED


def test_what_failed_before_a_run_broke_off_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    playing(monkeypatch, Played([told("runner_on_failed", "pi1", msg="no room")], rc=250))
    assert run(Run("netem", {}, {}, ["pi1"]), quiet).failures == {"pi1": "Do it: no room"}


def test_what_was_rescued_has_not_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    playing(monkeypatch, Played([told("runner_on_failed", "pi1", msg="not yet"), stats(ok={"pi1": 2})]))
    assert run(Run("netem", {}, {}, ["pi1"]), quiet).failures == {}


def test_variables_are_nobody_elses_to_see(monkeypatch: pytest.MonkeyPatch) -> None:
    played = playing(monkeypatch, Played())
    seen: list[tuple[dict[str, Any], int]] = []

    def looked(event_handler: Callable[[Mapping[str, Any]], bool], **given: Any) -> Any:
        words = shlex.split(given["cmdline"])
        file = Path(words[words.index("--extra-vars") + 1].removeprefix("@"))
        seen.append((json.loads(file.read_text()), file.parent.stat().st_mode & 0o777))
        return played(event_handler, **given)

    monkeypatch.setattr(ansible_runner, "run", looked)
    run(Run("k3s", {}, {"k3s_server_settings": {"datastore-endpoint": "secret"}}, ["pi1"]), quiet)
    assert seen == [({"k3s_server_settings": {"datastore-endpoint": "secret"}}, 0o700)]
    assert "secret" not in str(played.given)


LOCAL = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}


def on_this_machine(
    monkeypatch: pytest.MonkeyPatch, folder: Path, playbook: str, *hosts: str, **how: Any
) -> Outcome:
    """A playbook of our own, run by the real Ansible with these hosts, all of which are this machine."""
    below = folder / "ansible_collections/fogctl/pi/playbooks"
    below.mkdir(parents=True, exist_ok=True)
    (below / "mine.yml").write_text(playbook)
    monkeypatch.setattr("fogctl.data.path", lambda _: folder)
    inventory = {"all": {"hosts": dict.fromkeys(hosts, LOCAL)}}
    return run(Run("mine", inventory, {"folder": str(folder)}, hosts, **how), quiet)


def test_a_dry_run_names_the_commands_that_would_be_run_and_runs_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    playbook = """
- name: Ours
  hosts: all
  gather_facts: false
  tasks:
    - name: Run a command
      ansible.builtin.command: touch {{ folder }}/made
    - name: Run it for each
      ansible.builtin.command: touch {{ folder }}/{{ item }}
      loop: [one, two]
    - name: Run it for none
      ansible.builtin.command: touch {{ folder }}/{{ item }}
      loop: []
    - name: Run a script
      ansible.builtin.script: "{{ folder }}/script.sh"
    - name: Leave out
      ansible.builtin.command: touch {{ folder }}/left-out
      when: false
"""
    (tmp_path / "script.sh").write_text("#!/bin/sh\ntrue\n")
    would = on_this_machine(monkeypatch, tmp_path, playbook, "pi1", check=True)
    assert would.hosts["pi1"].changes == ["Run a command", "Run it for each", "Run a script"]
    assert would.changed == 3
    assert {file.name for file in tmp_path.iterdir()} == {"ansible_collections", "script.sh"}


HOST_BY_HOST = """
- name: One by one
  hosts: all
  gather_facts: false
  serial: 1
  tasks:
    - name: Refuse
      ansible.builtin.assert: {that: inventory_hostname != "pi2", fail_msg: it is broken, quiet: true}
- name: At the end
  hosts: all
  gather_facts: false
  tasks:
    - name: Tidy up
      ansible.builtin.debug: {msg: done}
"""


def test_hosts_that_a_playbook_did_not_come_to_are_known(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen = on_this_machine(monkeypatch, tmp_path, HOST_BY_HOST, "pi1", "pi2", "pi3", keep_going=True)
    assert seen.failures == {"pi2": "it is broken"}
    # Of three that go one by one, Ansible leaves the third out when the second has failed.
    assert {name: host.cut_off for name, host in seen.hosts.items()} == {
        "pi1": True,
        "pi2": False,
        "pi3": True,
    }
    whole = on_this_machine(monkeypatch, tmp_path, HOST_BY_HOST, "pi1", "pi3", keep_going=True)
    assert not any(host.cut_off for host in whole.hosts.values())
