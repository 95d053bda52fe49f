"""Boards over SSH, first contact and preflight: seeded faults are found, and mended where that is safe.

The tests of `test_boards_*.py` run in the order of their names and build on each other, as an afternoon does.
"""

from __future__ import annotations

import subprocess

from tests.vm.release import FIRST, Release
from tests.vm.shelf import OFF, Shelf, at_length, snapshot


def test_a_list_of_boards_becomes_a_testbed(shelf: Shelf) -> None:
    told = shelf.asked(0, "init", "shelf", "--kind", "k3s", "--hosts", "hosts.txt", "--no-up")
    assert told["nodes"] == ["north", "south"]


def test_keys_are_shown_and_recorded_only_when_somebody_agrees(shelf: Shelf) -> None:
    refused = shelf.fogctl("pi", "trust")
    shown = (shelf.north.image.folder / "host_key.pub").read_text().split()[1]
    printed = subprocess.run(
        ["ssh-keygen", "-lf", "-"], input=f"ssh-ed25519 {shown}\n", capture_output=True, text=True, check=True
    ).stdout.split()[1]
    assert refused.returncode == 3
    assert refused.stderr.count(printed) == 2
    assert not (shelf.folder / "known_hosts").exists()
    shelf.asked(0, "pi", "trust", "--yes")
    assert (shelf.folder / "known_hosts").stat().st_mode & 0o777 == 0o600


def test_a_changed_key_is_refused_in_one_sentence(shelf: Shelf) -> None:
    file = shelf.folder / "known_hosts"
    recorded = file.read_text()
    first, blob = recorded.splitlines()[0].rsplit(" ", 1)
    file.write_text(f"{first} {blob[:-8]}AAAAAAAA\n" + "\n".join(recorded.splitlines()[1:]) + "\n")
    try:
        said = shelf.refused(3, "pi", "check")
    finally:
        file.write_text(recorded)
    assert "fogctl pi trust --replace north" in said[-1]


def test_seeded_faults_are_found_and_nothing_else_blocks(shelf: Shelf) -> None:
    shelf.north.run("fallocate -l $(($(df --output=avail -B1 / | tail -1) - 300000000)) /root/filler")
    shelf.north.run("date --utc --set='2 days ago'")
    shelf.south.run("date --utc --set='20 seconds ago'")
    # What the board's own tool prints while its supply is too weak, as Raspberry Pi documents it.
    shelf.south.run(
        "cd /usr/local/bin; printf '#!/bin/sh\\necho throttled=0x50005\\n' > vcgencmd; chmod +x vcgencmd"
    )
    shelf.south.monitor("block_set_io_throttle virtio0 0 0 2000000 0 0 0")
    told = shelf.asked(3, "pi", "check")
    shelf.south.monitor("block_set_io_throttle virtio0 0 0 0 0 0 0")
    shelf.south.run("rm /usr/local/bin/vcgencmd")
    found = {(each["host"], each["severity"], each["about"]) for each in told["findings"]}
    assert {(host, about) for host, severity, about in found if severity == "block"} == {
        ("north", "memory cgroup"),
        ("north", "disk"),
        ("north", "clock"),
        ("south", "memory cgroup"),
        ("south", "power"),
    }
    assert {
        ("north", "warn", "swap"),
        ("south", "warn", "swap"),
        ("south", "warn", "clock"),
        ("south", "warn", "write speed"),
    } <= found
    for host in ("north", "south"):
        mendable = {each["about"] for each in told["findings"] if each["safe"] and each["host"] == host}
        assert mendable == {"memory cgroup", "clock", "swap"}


def test_copied_cards_and_32_bit_systems_are_found(shelf: Shelf) -> None:
    """South gets north's identity, and its SSH server a 32-bit personality, for the time of one check."""
    copied = "cp /etc/machine-id /root/kept; hostname north; echo {} > /etc/machine-id".format(
        shelf.north.run("cat /etc/machine-id").stdout.strip()
    )
    back = "cat /root/kept > /etc/machine-id; rm /root/kept; hostname south"
    small = (
        "mkdir -p /run/systemd/system/ssh.service.d; "
        "printf '[Service]\\nPersonality=x86\\n' > /run/systemd/system/ssh.service.d/small.conf; "
        "systemctl daemon-reload; systemctl restart ssh"
    )
    large = "rm -r /run/systemd/system/ssh.service.d; systemctl daemon-reload; systemctl restart ssh"
    with shelf.seeded(shelf.south, copied, back), shelf.seeded(shelf.south, small, large):
        told = shelf.asked(3, "pi", "check")
        stopped = shelf.refused(1, "pi", "provision", "-p", "prepare", "--dry-run", "--only", "south")
    found = {(each["host"], each["severity"], each["about"]) for each in told["findings"]}
    assert {("north", "block", "machine id"), ("south", "block", "machine id")} <= found
    assert {("north", "warn", "host name"), ("south", "block", "architecture")} <= found
    assert len([line for line in stopped if "kernel for i386" in line]) == 1


@at_length
def test_a_dry_run_changes_nothing(shelf: Shelf) -> None:
    release = Release(shelf.folder, FIRST)
    wanted = ("prepare", "netem", "k3s", "monitor")
    told = shelf.asked(
        0,
        *("pi", "provision", "--dry-run", *(word for name in wanted for word in ("-p", name))),
        *("--artefacts", str(release.folder), *release.pinned()),
    )
    for playbook in wanted:
        assert all(host["changed"] > 0 for host in told["playbooks"][playbook].values())
    for board in shelf.boards:
        assert differences(shelf, board.name) == set()


def test_fixing_mends_what_is_safe_over_a_reboot_and_leaves_the_rest(shelf: Shelf) -> None:
    """North has a cmdline.txt as a Pi, south has Debian's GRUB as a PC."""
    told = shelf.asked(3, "pi", "check", "--fix")
    assert [(each["host"], each["about"]) for each in told["findings"] if each["severity"] == "block"] == [
        ("north", "disk")
    ]
    for board in shelf.boards:
        board.reconnect()
        assert board.boots == 2
        assert OFF not in board.run("cat /proc/cmdline").stdout
        assert "swapfile" not in board.run("cat /proc/swaps").stdout
        assert "zram" in board.run("cat /proc/swaps").stdout
    shelf.north.run("rm /root/filler")
    assert shelf.asked(0, "pi", "check")["blocked"] == []


def differences(shelf: Shelf, name: str) -> set[str]:
    """The lines in which a board differs from what it was."""
    board = {each.name: each for each in shelf.boards}[name]
    return set(snapshot(board).splitlines()) ^ set(shelf.before[name].splitlines())
