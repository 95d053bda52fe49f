"""Parts of the roles that need no board: run by the real Ansible on this machine, or as scripts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fogctl import data
from fogctl.pi.provision import Run, run

COLLECTION = data.path("playbooks") / "ansible_collections/fogctl/pi"
LOCAL = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
EXPECTED = "0" * 64


THERE = {
    "absent": {"exists": False},
    "other": {"exists": True, "checksum": "abc", "mode": "0755"},
    "locked": {"exists": True, "checksum": EXPECTED, "mode": "0700"},
    "same": {"exists": True, "checksum": EXPECTED, "mode": "0755"},
}
PLAYBOOK = f"""
- name: Ours
  hosts: all
  gather_facts: false
  vars:
    k3s_arch: amd64
    k3s_sha256: {{amd64: {{binary: "{EXPECTED}"}}}}
    k3s_unit: k3s-of-a-test
    k3s_command: server
    k3s_settings: {{}}
  tasks:
    - name: Install
      ansible.builtin.include_role: {{name: fogctl.pi.k3s, tasks_from: install}}
"""


def with_roles(monkeypatch: pytest.MonkeyPatch, folder: Path, playbook: str) -> None:
    """The collection with a playbook of our own in place of its playbooks."""
    below = folder / "ansible_collections/fogctl/pi"
    (below / "playbooks").mkdir(parents=True)
    (below / "playbooks/mine.yml").write_text(playbook)
    for part in ("roles", "plugins", "meta", "galaxy.yml"):
        (below / part).symlink_to(COLLECTION / part)
    monkeypatch.setattr("fogctl.data.path", lambda _: folder)


def test_a_dry_run_says_that_k3s_would_be_installed_and_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On machines with no k3s but, at most, its binary."""
    with_roles(monkeypatch, tmp_path, PLAYBOOK)
    inventory = {
        "control": {"hosts": {name: LOCAL | {"k3s_there": {"stat": it}} for name, it in THERE.items()}}
    }
    seen = run(Run("mine", inventory, {}, list(THERE), check=True), lambda _: None)
    assert seen.failures == {}
    told = {name: host.changes for name, host in seen.hosts.items()}
    assert {name for name, changes in told.items() if "Install the binary" in changes} == {
        "absent",
        "other",
        "locked",
    }
    assert all("Start k3s, again if something about it has changed" in changes for changes in told.values())


@pytest.mark.parametrize(
    ("menu", "old"),
    [
        ("  linux /vmlinuz root=/dev/sda1 cgroup_memory=1 cgroup_enable=memory\n", False),
        ("\tlinux\t/vmlinuz cgroup_enable=memory ro cgroup_memory=1 quiet\n", False),
        ("  linux /vmlinuz root=/dev/sda1 cgroup_memory=1\n", True),
        ("  linux /vmlinuz cgroup_memory=1 cgroup_enable=memory cgroup_disable=memory\n", True),
        ("# cgroup_memory=1 cgroup_enable=memory\n  linux /vmlinuz\n", True),
        (None, True),
    ],
)
def test_grubs_menu_is_written_again_only_if_it_lacks_the_words(
    menu: str | None, old: bool, tmp_path: Path
) -> None:
    file = tmp_path / "grub.cfg"
    if menu is not None:
        file.write_text(menu)
    script = COLLECTION / "roles/prepare/files/memory-cgroup.sh"
    said = subprocess.run(
        ["sh", str(script), "cgroup_memory=1", "cgroup_enable=memory"],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", "GRUB_MENU": str(file)},
    ).stdout
    assert ("menu old" in said.splitlines()) is old


SEES = r"""
- name: Ours
  hosts: all
  gather_facts: false
  tasks:
    - name: Say what address the board has
      ansible.builtin.set_fact: {default_ipv4: {address: "{{ says }}"}, cacheable: true}
      when: says is defined
    - name: Read the defaults
      ansible.builtin.include_vars: {file: "{{ roles }}/monitor/defaults/main.yml"}
    - name: Write what would be collected
      ansible.builtin.template: {src: "{{ roles }}/monitor/templates/prometheus.yml.j2", dest: "{{ to }}"}
      when: inventory_hostname == 'both'
    - name: Read kernel settings as the role does
      ansible.builtin.assert:
        that: >-
          ["1\t2  3", "4"] | map('split') | list
          == {'a': '1 2 3', 'b': 4}.values() | map('string') | map('split') | list
"""


def test_prometheus_asks_each_board_at_an_address_that_it_knows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with_roles(monkeypatch, tmp_path, SEES)
    boards = {
        "both": {"ansible_host": "a.local", "fog_data_address": "10.1.0.1", "says": "10.0.0.1"},
        "named": {"ansible_host": "b.local", "says": "10.0.0.2"},
        "silent": {"ansible_host": "fd00::3"},
    }
    inventory = {"control": {"hosts": {name: LOCAL | it for name, it in boards.items()}}}
    given = {"roles": str(COLLECTION / "roles"), "to": str(tmp_path / "prometheus.yml")}
    seen = run(Run("mine", inventory, given, list(boards)), lambda _: None)
    assert seen.failures == {}
    nodes = yaml.safe_load((tmp_path / "prometheus.yml").read_text())["scrape_configs"][0]["static_configs"]
    assert {each["labels"]["node"]: each["targets"] for each in nodes} == {
        "both": ["10.1.0.1:9100"],
        "named": ["10.0.0.2:9100"],
        "silent": ["[fd00::3]:9100"],
    }
