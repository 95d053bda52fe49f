"""What reset looks for on a board: all of k3s, boot files as they were, nothing of anybody else."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from fogctl import data

ROLE = data.path("playbooks") / "ansible_collections/fogctl/pi/roles/reset"
LEFT_BY_K3S = {
    "ps": "  7 /var/lib/rancher/k3s/data/0/bin/containerd-shim-runc-v2 -id x\n  8 /usr/bin/containerd-shim\n",
    "ip": "cni-1 (id: 0)\nmine (id: 1)\n",
    "iptables-save": "*filter\n:KUBE-X - [0:0]\n:MINE - [0:0]\n-A INPUT -j KUBE-X\nCOMMIT\n",
    "ip6tables-save": "*filter\n:FLANNEL-FWD - [0:0]\nCOMMIT\n",
}
THEIRS = {
    "ps": "  8 /usr/bin/containerd-shim -id y\n",
    "ip": "mine (id: 1)\n",
    "iptables-save": "*filter\n:MINE - [0:0]\n-A INPUT -m comment --comment KUBE-X -j DROP\n",
    "ip6tables-save": "",
}


def left(folder: Path, programs: dict[str, str], *arguments: str) -> list[str]:
    """What the script says on a host where programs print this."""
    folder.mkdir()
    for name, printed in {"tc": "", "systemctl": "", **programs}.items():
        file = folder / name
        # `ip link show NAME` succeeds where there is such a link.
        links = '[ "$1" != link ] || [ "$3" = cni0 ]' if programs is LEFT_BY_K3S else '[ "$1" != link ]'
        file.write_text(f"#!/bin/sh\nprintf %s {shlex.quote(printed)}\n{links if name == 'ip' else ''}\n")
        file.chmod(0o755)
    done = subprocess.run(
        ["sh", str(ROLE / "files/leftovers.sh"), *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
    )
    return done.stdout.splitlines()


def test_all_that_k3s_leaves_is_named_where_it_was_ours(tmp_path: Path) -> None:
    besides = left(tmp_path / "not-asked", LEFT_BY_K3S)
    found = left(tmp_path / "asked", LEFT_BY_K3S, "k3s")
    assert [line for line in found if line not in besides] == [
        "left container process 7",
        "left link cni0",
        "left network namespace cni-1",
        "left 2 rules of k3s in iptables",
        "left 1 rules of k3s in ip6tables",
    ]


def test_what_is_somebody_elses_is_not_named(tmp_path: Path) -> None:
    assert left(tmp_path / "asked", THEIRS, "k3s") == left(tmp_path / "not-asked", THEIRS)


@pytest.mark.parametrize("restored", [True, False])
def test_a_kernel_command_line_that_is_not_what_it_was_is_named(restored: bool, tmp_path: Path) -> None:
    """Its words alone tell nothing: they may have been the user's own before."""
    before = "root=/dev/sda2 cgroup_enable=memory cgroup_disable=memory\n"
    file = tmp_path / "cmdline.txt"
    file.write_text(before if restored else "root=/dev/sda2 cgroup_enable=memory cgroup_memory=1\n")
    given = f"{hashlib.sha256(before.encode()).hexdigest()}={file}"
    found = [line for line in left(tmp_path / "asked", THEIRS, given) if str(tmp_path) in line]
    assert found == ([] if restored else [f"left our words in {file}"])


def test_the_ledger_says_what_the_kernel_command_line_was(tmp_path: Path) -> None:
    tasks = {task["name"]: task for task in yaml.safe_load((ROLE / "tasks/main.yml").read_text())}
    argv = tasks["Read the ledger"]["ansible.builtin.command"]["argv"]
    (tmp_path / "originals").mkdir()
    (tmp_path / "originals/0001").write_text("root=/dev/sda2\n")
    entries = [
        {"kind": "file", "name": "/etc/fstab", "was": "file", "copy": "0000", "mtime_ns": 1},
        {"kind": "file", "name": "/boot/cmdline.txt", "was": "file", "copy": "0001", "mtime_ns": 1},
    ]
    text = "".join(json.dumps(entry) + "\n" for entry in entries)
    (tmp_path / "ledger.jsonl").write_text(text)
    said = subprocess.run(
        [word.replace("/var/lib/fogctl-pi", str(tmp_path)) for word in argv],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    was = hashlib.sha256(b"root=/dev/sda2\n").hexdigest()
    assert said == f"{text}was {was}=/boot/cmdline.txt\n"
