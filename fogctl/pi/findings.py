"""What is wrong with hosts before they become a testbed, and how to mend it: facts in, findings out. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from fogctl.pi import throttling
from fogctl.pi.facts import Facts

GIB = 2**30
LEAST_FREE_BYTES = 2 * GIB
"""k3s with its images, and one Spark image."""
COMFORTABLE_FREE_BYTES = 6 * GIB
LEAST_WRITE_BYTES_S = 10e6
"""The speed class of the slowest SD cards that are still sold for video."""
LEAST_MEMORY_BYTES = 900 * 2**20
CLOCK_WARN_S = 1.0
CLOCK_BLOCK_S = 30.0
"""Beyond this, certificates that were just made are not valid yet."""
NETEM_MODULES = ("sch_netem", "sch_htb", "cls_u32", "ifb")
K3S_MODULES = ("overlay", "br_netfilter")

FIXED_BY = {"memory cgroup": "cmdline", "clock": "time", "swap": "swap"}
"""What `--fix` can mend, and the tag of the tasks in the role prepare that do it."""


class Severity(StrEnum):
    """How much a finding matters."""

    block = "block"
    """The host cannot become a node like this."""
    warn = "warn"
    """It can, but measurements or the host itself will suffer."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with one host."""

    host: str
    about: str
    severity: Severity
    what: str
    fix: str
    safe: bool = False
    """Whether `--fix` mends it without asking."""


def unreachable(node: str, why: str) -> Finding:
    """A host that did not answer."""
    return Finding(node, "contact", Severity.block, why, "mend that, then check again")


def findings(hosts: Sequence[Facts], boards: Mapping[str, str] | None = None) -> list[Finding]:
    """Everything that is wrong, in the order of the hosts; `boards` is the title of each node's board."""
    found = [finding for facts in hosts for finding in _of_host(facts, (boards or {}).get(facts.node))]
    return found + list(_among(hosts))


def blocked(found: Sequence[Finding]) -> list[str]:
    """The hosts that cannot become nodes."""
    return list(dict.fromkeys(each.host for each in found if each.severity is Severity.block))


def fixable(found: Sequence[Finding]) -> dict[str, set[str]]:
    """By host the tags of the tasks that mend what can safely be mended."""
    tags: dict[str, set[str]] = {}
    for each in found:
        if each.safe:
            tags.setdefault(each.host, set()).add(FIXED_BY[each.about])
    return tags


def _of_host(facts: Facts, board: str | None) -> Iterator[Finding]:
    yield from _system(facts, board)
    yield from _kernel(facts)
    yield from _clock(facts)
    yield from _storage(facts)
    yield from _power(facts)


def _block(facts: Facts, about: str, what: str, fix: str, safe: bool = False) -> Finding:
    return Finding(facts.node, about, Severity.block, what, fix, safe)


def _warn(facts: Facts, about: str, what: str, fix: str, safe: bool = False) -> Finding:
    return Finding(facts.node, about, Severity.warn, what, fix, safe)


def _system(facts: Facts, board: str | None) -> Iterator[Finding]:
    flash = "flash 64-bit Raspberry Pi OS Lite or Debian"
    if not facts.is_64_bit_kernel:
        yield _block(facts, "architecture", f"{facts.machine} is not a 64-bit kernel", flash)
    elif facts.userland_bits != 64:
        what = f"the kernel is 64-bit ({facts.machine}) but its programs are {facts.userland_bits}-bit"
        yield _block(facts, "architecture", what, flash)
    if "debian" not in facts.os_family.split():
        yield _block(facts, "system", f"{facts.os or 'an unknown system'} is not Debian", flash)
    if facts.init != "systemd":
        yield _block(facts, "system", f"its first process is {facts.init}, not systemd", flash)
    if not facts.root:
        fix = "let the user use sudo without a password (raspi-config, or a file in /etc/sudoers.d)"
        yield _block(facts, "root", "sudo asks for a password", fix)
    if not facts.python:
        yield _block(facts, "python", "there is no python3", "sudo apt-get install python3")
    if facts.k3s and not facts.prepared:
        fix = "remove it with k3s-uninstall.sh, or leave this host out"
        yield _block(facts, "k3s", f"{facts.k3s} is there and fogctl did not install it", fix)
    if facts.memory_bytes < LEAST_MEMORY_BYTES:
        what = f"{facts.memory_bytes / 2**20:.0f} MiB of memory are too little for k3s and an executor"
        yield _warn(facts, "memory", what, "use a board with 2 GiB or more")
    if facts.model and board and not facts.model.startswith(board):
        what = f'the file says "{board}", the board says "{facts.model}"'
        yield _warn(facts, "board", what, "correct board: in testbed.yaml (fogctl board list)")


def _kernel(facts: Facts) -> Iterator[Finding]:
    if not facts.memory_cgroup:
        there = facts.boot_file is not None
        where = facts.boot_file or "the kernel command line"
        fix = f"put cgroup_memory=1 cgroup_enable=memory into {where} and reboot"
        yield _block(facts, "memory cgroup", "the kernel runs without memory cgroups", fix, safe=there)
    fix = "install the distribution's own kernel with all its modules"
    if lacking := [name for name in NETEM_MODULES if name not in facts.modules]:
        what = f"the kernel {facts.kernel} has no {', '.join(lacking)}: latencies cannot be added"
        yield _block(facts, "kernel modules", what, fix)
    if lacking := [name for name in K3S_MODULES if name not in facts.modules]:
        what = f"the kernel {facts.kernel} has no {', '.join(lacking)}, which k3s needs"
        yield _block(facts, "kernel modules", what, fix)


def _clock(facts: Facts) -> Iterator[Finding]:
    # Only what the round trip to the host cannot explain.
    surely_off_s = max(0.0, abs(facts.clock_offset_s) - facts.clock_error_s)
    fix = "let systemd-timesyncd or chrony keep the time"
    if surely_off_s > CLOCK_WARN_S:
        side = "ahead of" if facts.clock_offset_s > 0 else "behind"
        what = f"its clock is {_duration(abs(facts.clock_offset_s))} {side} ours"
        kind = Severity.block if surely_off_s > CLOCK_BLOCK_S else Severity.warn
        yield Finding(facts.node, "clock", kind, what, fix, safe=True)
    elif facts.clock_synchronised is False:
        yield _warn(facts, "clock", "its clock is right but nothing keeps it so", fix, safe=True)


def _duration(seconds: float) -> str:
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s"


def _storage(facts: Facts) -> Iterator[Finding]:
    free = f"{facts.disk_free_bytes / GIB:.1f} GiB of {facts.disk_bytes / GIB:.1f} GiB are free"
    fix = "remove what is not needed (sudo apt-get clean; du -xh / | sort -h), or use a larger card"
    if facts.root_read_only:
        what = "its file system is mounted read-only"
        yield _block(facts, "disk", what, "the card is probably worn out: flash a new one")
    elif facts.disk_free_bytes < LEAST_FREE_BYTES:
        yield _block(facts, "disk", f"{free}; k3s and images need {LEAST_FREE_BYTES / GIB:.0f} GiB", fix)
    elif facts.disk_free_bytes < COMFORTABLE_FREE_BYTES:
        yield _warn(facts, "disk", free, fix)
    if facts.write_bytes_s is not None and facts.write_bytes_s < LEAST_WRITE_BYTES_S:
        what = f"its card writes {facts.write_bytes_s / 1e6:.1f} MB/s"
        yield _warn(facts, "write speed", what, "use an A2 card or a USB SSD")
    if on_disk := [area for area in facts.swaps if "zram" not in area]:
        what = f"it swaps to {', '.join(on_disk)}"
        yield _warn(facts, "swap", what, "swap to compressed memory instead", safe=True)


def _power(facts: Facts) -> Iterator[Finding]:
    if facts.throttled is None:
        return
    weak = "use the board's own power supply and a short cable"
    fix = weak if throttling.undervoltage(facts.throttled) else "give it a heat sink or a fan"
    if current := throttling.now(facts.throttled):
        yield _block(facts, "power", f"at this moment {' and '.join(current)}", fix)
    if past := throttling.before(facts.throttled):
        yield _warn(facts, "power", f"since it was started {' and '.join(past)}", fix)


def _among(hosts: Sequence[Facts]) -> Iterator[Finding]:
    """What is wrong only because of the others."""
    for facts, others in _sharing(hosts, "machine_id"):
        what = f"its machine id is that of {others}: their cards are copies of one another"
        fix = "sudo rm /etc/machine-id /var/lib/dbus/machine-id; sudo systemd-machine-id-setup; sudo reboot"
        yield _block(facts, "machine id", what, fix)
    for facts, others in _sharing(hosts, "hostname"):
        what = f'its host name "{facts.hostname}" is that of {others}'
        yield _warn(facts, "host name", what, f"sudo hostnamectl set-hostname {facts.node}")


def _sharing(hosts: Sequence[Facts], attribute: str) -> Iterator[tuple[Facts, str]]:
    """Each host whose value another one has too, with the names of those."""
    for facts in hosts:
        value = getattr(facts, attribute)
        others = [each.node for each in hosts if each is not facts and getattr(each, attribute) == value]
        if value and others:
            yield facts, ", ".join(others[:5]) + (" …" if len(others) > 5 else "")
