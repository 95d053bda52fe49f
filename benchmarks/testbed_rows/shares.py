"""CPU shares: how fast a change reaches the kernel, what a node then gets, and whether anything stalls."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.row import Row
from benchmarks.testbed_rows.bed import Settings, bed
from benchmarks.testbed_rows.flows import answer, on_node
from fogctl.testbed import cgroups, names
from fogctl.testbed.running import Running
from fogctl.testbed.status import observe
from fogctl.testbed.virtual import Virtual

CORES = 0.5
SHARES = (1.0, 0.4, 0.2)
TARGET_MS = 50.0


def rows(settings: Settings) -> Iterator[Row]:
    """A node of half a host core whose share goes up and down."""
    changes = 10 if settings.quick else 50
    seconds = 0.6 if settings.quick else 3.0
    with bed(None, 1, cpu_cores=CORES) as virtual:
        taken = [_change_ms(virtual, SHARES[number % len(SHARES)]) for number in range(changes)]
        note = f"median of {changes}, longest {max(taken):.1f} ms"
        yield Row("share, from call to cgroup file", statistics.median(taken), "ms", TARGET_MS, note=note)
        yield from _used(virtual, seconds)
        yield from _pauses(virtual, seconds)


def _change_ms(virtual: Virtual, share: float) -> float:
    """Change the share and read the kernel's file until it says so."""
    running = virtual.running
    wanted = cgroups.quota_us(share * CORES)
    began = time.monotonic()
    virtual.set_share("n0", share)
    while _quota_us(running) != wanted:
        if time.monotonic() - began > 5:
            raise RuntimeError(f"the quota is {_quota_us(running)} µs, not {wanted} µs, 5 s after the change")
    return 1000 * (time.monotonic() - began)


def _quota_us(running: Running) -> int | None:
    where = running.hierarchies.cpu
    assert where is not None
    file = "cpu.max" if where.version == 2 else "cpu.cfs_quota_us"
    text = Path(where.group(names.folder(running.testbed.name), "n0"), file).read_text()
    return cgroups.read_quota(where.version, text)


def _used(virtual: Virtual, seconds: float) -> Iterator[Row]:
    """What a process that wants all it can get gets."""
    running = virtual.running
    with on_node(running, "n0", "spin", 60 + 10 * seconds):
        virtual.set_share("n0", None)
        time.sleep(0.3)  # started, and no longer in the middle of a period
        for share in SHARES:
            virtual.set_share("n0", share)
            time.sleep(0.2)
            (seen,) = observe(running.testbed, running.latencies, running.hierarchies, seconds)
            asked = 100 * share * CORES
            used = 100 * (seen.cpu_used_cores or 0.0)
            throttled = seen.cpu_throttled or 0.0
            yield Row(
                f"CPU used at {asked:g} % of a core",
                used,
                "% of a core",
                note=f"{used / asked - 1:+.1%} off; throttled in {throttled:.0%} of the periods",
            )


def _pauses(virtual: Virtual, seconds: float) -> Iterator[Row]:
    """The longest pause of a process that wakes each millisecond, with and without changes."""
    longest = {}
    virtual.set_share("n0", 1.0)
    for changing in (False, True):
        with on_node(virtual.running, "n0", "tick", seconds) as ticking:
            for number in range(20 if changing else 0):
                time.sleep(seconds / 25)
                # Shares that leave the light process what it needs: only the change itself could stall it.
                virtual.set_share("n0", (1.0, 0.6)[number % 2])
            longest[changing] = 1000 * answer(ticking)["longest_s"]
    yield Row(
        "longest pause of a light process during 20 share changes",
        longest[True],
        "ms",
        peer=longest[False],
        peer_name="without changes",
    )
