"""What this machine offers for testbeds, what it lacks, what was left behind, and how to mend each."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from fogctl.errors import FogError
from fogctl.java import HINT, OLDEST, find_java
from fogctl.testbed import names, state
from fogctl.testbed.host import NAMESPACES, LinuxHost
from fogctl.testbed.ledger import Ledger
from fogctl.testbed.lock import holder
from fogctl.testbed.model import Kind

NEEDED_BY_VIRTUAL = ("system", "root", "namespaces", "cgroup cpu", "cgroup memory", "latency")


class Verdict(StrEnum):
    """How a finding is meant."""

    ok = "ok"
    lacking = "lacking"
    """Something does not work here, but other things do."""
    problem = "problem"
    """Something is wrong and should be mended."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    about: str
    verdict: Verdict
    says: str
    fix: str = ""


def examine(state_dir: Path | None = None) -> list[Finding]:
    """Everything worth knowing before `fogctl up`. Changes nothing; works anywhere, root or not."""
    findings = [*_machine()]
    if sys.platform == "linux":
        findings += _kernel()
    findings.append(_java())
    if sys.platform == "linux":
        findings += leftovers(state_dir or state.state_dir())
    findings.append(_what_works(findings))
    return findings


def _machine() -> list[Finding]:
    linux = sys.platform == "linux"
    system = f"{platform.system()} {platform.release()} on {platform.machine()}"
    no_linux = "use kind: sim here, or a Linux machine for kind: virtual"
    found = [Finding("system", Verdict.ok if linux else Verdict.lacking, system, "" if linux else no_linux)]
    if linux:
        root = os.geteuid() == 0
        says = "running as root" if root else "not root: kind virtual cannot be brought up"
        found.append(Finding("root", _ok(root), says, "" if root else "run with sudo, or use kind: sim"))
    cores = os.cpu_count() or 1
    found.append(
        Finding("cores", _ok(cores > 1), f"{cores} cores", "" if cores > 1 else "use a small scale.cpu")
    )
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    enough = memory >= 2
    fix = "" if enough else "use a small scale.memory"
    found.append(Finding("memory", _ok(enough), f"{memory:.1f} GiB", fix))
    folder = next(path for path in (state.state_dir(), *state.state_dir().parents) if path.exists())
    free = shutil.disk_usage(folder).free / 2**30
    fix = "" if free >= 1 else f"free some space in {folder}"
    found.append(Finding("disk", _ok(free >= 1), f"{free:.1f} GiB free in {folder}", fix))
    return found


def _kernel() -> list[Finding]:
    found = []
    spaces = all(Path("/proc/self/ns", name).exists() for name in ("net", "mnt", "uts"))
    says = "network, mount and host name namespaces" if spaces else "the kernel lacks namespaces"
    fix = "" if spaces else "use a kernel with CONFIG_NET_NS, CONFIG_UTS_NS"
    found.append(Finding("namespaces", _ok(spaces), says, fix))
    hierarchies = LinuxHost().cgroup_hierarchies()
    for name, where, fix in (
        ("cpu", hierarchies.cpu, "mount one: mount -t cgroup2 none /sys/fs/cgroup"),
        ("memory", hierarchies.memory, "boot with cgroup_enable=memory cgroup_memory=1"),
    ):
        if where is None:
            found.append(Finding(f"cgroup {name}", Verdict.lacking, "no mounted hierarchy has it", fix))
        else:
            found.append(Finding(f"cgroup {name}", Verdict.ok, f"version {where.version} at {where.root}"))
    found.append(_latency())
    tool = shutil.which("iptables")
    fix = "" if tool else "apt-get install iptables (only the user-space latency backend needs it)"
    found.append(Finding("iptables", _ok(bool(tool)), tool or "missing", fix))
    found.append(_realtime())
    return found


def _latency() -> Finding:
    """Latency backends are tried, not guessed; that needs root."""
    if os.geteuid() != 0:
        return Finding("latency", Verdict.lacking, "not tried: needs root", "sudo fogctl doctor")
    from fognetem.choose import kernel_trouble, userspace_trouble

    kernel = kernel_trouble()
    if kernel is None:
        return Finding("latency", Verdict.ok, "kernel netem")
    userspace = userspace_trouble()
    if userspace is None:
        return Finding("latency", Verdict.ok, f"user space through NFQUEUE (kernel netem: {kernel})")
    return Finding(
        "latency",
        Verdict.lacking,
        f"neither works: kernel netem: {kernel}; NFQUEUE: {userspace}",
        "modprobe sch_netem, or apt-get install iptables; without either only unimpaired testbeds come up",
    )


def _realtime() -> Finding:
    """Whether a process may have real-time priority; tried in a child, so that this one stays as it is."""
    child = os.fork()
    if child == 0:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        except OSError:
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        return Finding("real time", Verdict.ok, "SCHED_FIFO is allowed")
    return Finding(
        "real time",
        Verdict.lacking,
        "SCHED_FIFO is refused: user-space latencies are inexact while the host is busy",
        "run as root in a cgroup with real-time bandwidth (cpu.rt_runtime_us), or allow RLIMIT_RTPRIO",
    )


def _java() -> Finding:
    found = find_java()
    if found is not None:
        return Finding("java", Verdict.ok, f"Java {found.version} at {found.executable} ({found.origin})")
    fix = f"{HINT} (only Spark and Kafka need it)"
    return Finding("java", Verdict.lacking, f"no Java {OLDEST} or later", fix)


def leftovers(state_dir: Path) -> list[Finding]:
    """Objects called fog-… that no ledger knows, and testbeds that are remembered but cannot be used."""
    found: list[Finding] = []
    known: set[str] = set()
    for folder in state.remembered(state_dir):
        if folder.kind is Kind.k3s:  # nothing of it is on this machine but its folder
            continue
        try:
            steps = Ledger(folder.ledger, _step_types(), LinuxHost().boot_id()).steps
        except FogError as error:
            found.append(Finding("ledger", Verdict.problem, str(error), "see the file"))
            continue
        except PermissionError:
            found.append(Finding("ledger", Verdict.lacking, f"{folder.ledger} cannot be read", "use sudo"))
            continue
        known.update(
            value for step in steps for field in ("name", "path") if (value := getattr(step, field, None))
        )
        if not steps and holder(folder.folder) is None:
            says = f"{folder.folder} remembers a testbed of which nothing is left (a fogctl was killed there)"
            found.append(Finding("stale state", Verdict.problem, says, f"sudo fogctl down {folder.name}"))
    for about, path, fix in _named_ours():
        if path.name not in known and str(path) not in known:
            says = f"{path} is in no ledger of {state_dir}: fogctl did not make it, or lost its ledger"
            found.append(Finding(about, Verdict.problem, says, f"if it is not in use: {fix}"))
    found += _stray_delay_lines()
    return found or [Finding("leftovers", Verdict.ok, "none")]


def _named_ours() -> list[tuple[str, Path, str]]:
    """Every namespace, control group and netns folder called fog-…, with the command that removes it."""
    pattern = f"{names.PREFIX}-*"
    found = [
        ("orphan namespace", path, f"ip netns del {path.name}")
        for path in sorted(Path(NAMESPACES).glob(pattern))
    ]
    for hierarchy in LinuxHost().cgroup_hierarchies().used:
        for path in sorted(Path(hierarchy.root).glob(pattern)):
            found.append(("orphan control group", path, f"find {path} -depth -type d -exec rmdir {{}} +"))
    for path in sorted(Path("/etc/netns").glob(pattern)):
        found.append(("orphan folder", path, f"rm -r {path}"))
    return found


def _stray_delay_lines() -> list[Finding]:
    """Delay lines whose control socket is gone: nobody can reach them any more."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            arguments = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            sockets = [argument for argument in arguments if argument.endswith("/delayline.sock")]
            if "fognetem.delayline" in arguments and sockets and not Path(sockets[0]).parent.exists():
                says = f"process {entry.name} injects latencies for {sockets[0]}, which is gone"
                found.append(Finding("orphan process", Verdict.problem, says, f"kill {entry.name}"))
    return found


def _step_types() -> tuple[type, ...]:
    from fogctl.testbed.latency import ALL_STEP_TYPES

    return ALL_STEP_TYPES


def _what_works(findings: list[Finding]) -> Finding:
    lacking = {finding.about for finding in findings if finding.verdict is not Verdict.ok}
    why = [need for need in NEEDED_BY_VIRTUAL if need in lacking]
    if not why:
        return Finding("kinds", Verdict.ok, "virtual and sim testbeds work here")
    return Finding("kinds", Verdict.ok, f"sim testbeds work here; virtual ones lack: {', '.join(why)}")


def _ok(condition: bool) -> Verdict:
    return Verdict.ok if condition else Verdict.lacking
