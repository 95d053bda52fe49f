"""What ssh is really told when a playbook runs: Ansible and ansible-runner have options of their own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fogctl.config import testbed
from fogctl.pi.hosts_file import read, yaml_text
from fogctl.pi.inventory import inventory
from fogctl.pi.provision import Run, run


def test_the_first_word_on_host_keys_that_ssh_hears_is_to_check_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of an option that is given twice OpenSSH believes the first.
    heard = tmp_path / "heard"
    programs = tmp_path / "bin"
    programs.mkdir()
    ssh = programs / "ssh"
    ssh.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >>{heard}\nexit 255\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("ANSIBLE_SSH_ARGS", "-o StrictHostKeyChecking=no")
    file = tmp_path / "testbed.yaml"
    file.write_text(yaml_text(read("pi1 root@127.0.0.1:9 role=control\n", "hosts.txt"), "shelf"))
    bed = testbed.load(file)

    done = run(Run("reset", inventory(bed, tmp_path / "known_hosts"), {}, ["pi1"]), lambda _: None)

    assert "pi1" in done.failures
    words = [word for word in heard.read_text().splitlines() if word.startswith("StrictHostKeyChecking")]
    assert words[0] == "StrictHostKeyChecking=yes"
    assert os.environ["ANSIBLE_SSH_ARGS"]  # it is theirs again
