"""Facts from what the probe prints, and findings from facts."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import time
from pathlib import Path

import pytest

from fogctl.pi import throttling
from fogctl.pi.facts import PROBE, Facts, parse
from fogctl.pi.findings import Severity, blocked, findings, fixable, unreachable

PI = """\
started=1000.5
hostname=pi1
machine_id=0123456789abcdef0123456789abcdef
model=Raspberry Pi 4 Model B Rev 1.4
machine=aarch64
kernel=6.12.34+rpt-rpi-v8
userland_bits=64
init=systemd
os=Debian GNU/Linux 12 (bookworm)
os_family=debian
controllers=cpuset cpu io memory pids
memory_cgroup_v1=1 0
cmdline=console=serial0,115200 root=PARTUUID=1 cgroup_enable=memory
boot_file=/boot/firmware/cmdline.txt
boot_file=/etc/default/grub
module=sch_netem
module=ifb
module=sch_htb
module=cls_u32
module=br_netfilter
module=overlay
module=zram
clock_synchronised=yes
disk_kib=30000000
disk_free_kib=20000000
root_options=rw,noatime
memory_kib=3884960
swap=/dev/zram0 524284
python=/usr/bin/python3
k3s=
root=yes
prepared=no
throttled=throttled=0x0
written=16777216 500000000
ended=1001.5
"""


def healthy(**changes: object) -> Facts:
    return dataclasses.replace(parse("pi1", PI, 1000.4, 1001.6), **changes)  # type: ignore[arg-type]


def about(facts: Facts) -> list[tuple[str, str]]:
    return [(each.about, each.severity.value) for each in findings([facts])]


def test_a_healthy_pi_has_no_findings() -> None:
    facts = healthy()
    assert findings([facts], {"pi1": "Raspberry Pi 4 Model B"}) == []
    assert facts.boot_file == "/boot/firmware/cmdline.txt"
    assert facts.write_bytes_s == pytest.approx(33.55e6, rel=1e-3)
    assert facts.swaps == ("/dev/zram0",)


def test_the_clock_offset_lies_between_what_asking_and_answering_allow() -> None:
    # The probe's own duration, here a second, adds nothing to the uncertainty.
    facts = parse("pi1", PI, 990.4, 991.6)
    assert facts.clock_offset_s == pytest.approx(10.0)
    assert facts.clock_error_s == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"machine": "armv7l"}, [("architecture", "block")]),
        ({"userland_bits": 32}, [("architecture", "block")]),
        ({"os_family": "fedora"}, [("system", "block")]),
        ({"init": "busybox"}, [("system", "block")]),
        ({"root": False}, [("root", "block")]),
        ({"python": ""}, [("python", "block")]),
        ({"k3s": "k3s version v1.30"}, [("k3s", "block")]),
        ({"k3s": "k3s version v1.30", "prepared": True}, []),
        ({"memory_bytes": 2**29}, [("memory", "warn")]),
        ({"memory_cgroup": False}, [("memory cgroup", "block")]),
        ({"modules": frozenset({"sch_netem"})}, [("kernel modules", "block")] * 2),
        ({"clock_offset_s": -7200.0}, [("clock", "block")]),
        ({"clock_offset_s": 5.0}, [("clock", "warn")]),
        ({"clock_offset_s": 5.0, "clock_error_s": 6.0}, []),
        ({"clock_synchronised": False}, [("clock", "warn")]),
        ({"clock_synchronised": None}, []),
        ({"disk_free_bytes": 2**30}, [("disk", "block")]),
        ({"disk_free_bytes": 4 * 2**30}, [("disk", "warn")]),
        ({"root_read_only": True}, [("disk", "block")]),
        ({"write_bytes_s": 4e6}, [("write speed", "warn")]),
        ({"write_bytes_s": None}, []),
        ({"swaps": ("/var/swap",)}, [("swap", "warn")]),
        ({"throttled": 0x50005}, [("power", "block")]),
        ({"throttled": 0x50000}, [("power", "warn")]),
        ({"throttled": None}, []),
    ],
)
def test_each_thing_that_is_wrong_is_found(
    changes: dict[str, object], expected: list[tuple[str, str]]
) -> None:
    assert about(healthy(**changes)) == expected


def test_a_board_that_is_another_than_the_file_says_is_told() -> None:
    (found,) = findings([healthy()], {"pi1": "Raspberry Pi 5"})
    assert (found.about, found.severity) == ("board", Severity.warn)


def test_copied_cards_are_found_on_every_host_that_has_one() -> None:
    twin = healthy(node="pi2")
    other = healthy(node="pi3", machine_id="f" * 32, hostname="pi3")
    found = findings([healthy(), twin, other])
    assert [(each.host, each.about) for each in found] == [
        ("pi1", "machine id"),
        ("pi2", "machine id"),
        ("pi1", "host name"),
        ("pi2", "host name"),
    ]
    assert blocked(found) == ["pi1", "pi2"]


def test_only_safe_fixes_are_offered_and_cgroups_only_where_the_command_line_is_known() -> None:
    off = healthy(memory_cgroup=False, clock_offset_s=90.0, disk_free_bytes=0)
    assert fixable(findings([off])) == {"pi1": {"cmdline", "time"}}
    nowhere = healthy(memory_cgroup=False, boot_file=None)
    assert fixable(findings([nowhere])) == {}


def test_a_silent_host_blocks_and_cannot_be_fixed() -> None:
    found = [unreachable("pi9", "it does not answer")]
    assert blocked(found) == ["pi9"]
    assert fixable(found) == {}


@pytest.mark.parametrize(
    ("bits", "now", "before"),
    [
        (0x0, 0, 0),
        (0x1, 1, 0),
        (0x50005, 2, 0),
        (0x50000, 0, 2),
        (0xF0002, 1, 3),
        (0xF000F, 4, 0),
    ],
)
def test_throttling_bits_are_told_as_now_or_since_boot(bits: int, now: int, before: int) -> None:
    assert (len(throttling.now(bits)), len(throttling.before(bits))) == (now, before)


def test_what_is_cut_short_is_no_answer() -> None:
    with pytest.raises(ValueError, match="cut short"):
        parse("pi1", PI.replace("ended=1001.5\n", ""), 0, 1)


def test_memory_cgroups_are_seen_in_both_versions() -> None:
    v1 = PI.replace("controllers=cpuset cpu io memory pids", "controllers=")
    assert not parse("pi1", v1, 0, 1).memory_cgroup  # enabled, but in no hierarchy
    assert parse("pi1", v1.replace("v1=1 0", "v1=1 7"), 0, 1).memory_cgroup
    assert not parse("pi1", v1.replace("v1=1 0", "v1=0 7"), 0, 1).memory_cgroup


def test_the_probe_goes_to_its_end_on_a_card_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "mktemp").write_text("#!/bin/sh\necho 'Read-only file system' >&2\nexit 1\n")
    (tmp_path / "mktemp").chmod(0o755)
    searched = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    said = subprocess.run(
        ["sh", "-c", PROBE.read_text()], capture_output=True, text=True, check=True, timeout=120, env=searched
    ).stdout
    facts = parse("here", said, time.time(), time.time())
    assert facts.write_bytes_s is None


def test_the_probe_runs_in_a_plain_shell_and_leaves_nothing_behind() -> None:
    asked = time.time()
    said = subprocess.run(
        ["sh", "-c", PROBE.read_text()], capture_output=True, text=True, check=True, timeout=120
    ).stdout
    facts = parse("here", said, asked, time.time())
    assert facts.kernel
    assert facts.disk_bytes > facts.disk_free_bytes > 0
    assert abs(facts.clock_offset_s) <= facts.clock_error_s + 0.01
    left = subprocess.run(
        ["sh", "-c", "ls /var/tmp/fogctl-probe.* 2>/dev/null"], capture_output=True, check=False
    )
    assert left.stdout == b""
