"""How long `fogctl up` and `fogctl down` take: the commands themselves, from start to exit."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.row import Row
from benchmarks.testbed_rows.bed import Settings, name

REPEATS = {10: 5, 50: 3, 100: 3}
BUDGET_S = 100.0
"""No further repetition is started after this long; each size is built at least once."""
TARGET_S = {10: 5.0, 100: 40.0}
SLOWEST_S = 900.0
LIMITS = "cpu: 1%, memory: 16MiB"
"""The least share the kernel grants, so that a hundred nodes fit a small host."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one command took."""

    wall_s: float
    cpu_s: float
    said: str


def rows(settings: Settings) -> Iterator[Row]:
    """Nodes with CPU and memory limits and 20 ms between every two of them."""
    began = time.monotonic()
    for size in settings.sizes:
        repeats = 1 if settings.quick else REPEATS.get(size, 1)
        ups: list[Cost] = []
        downs: list[Cost] = []
        while len(ups) < repeats and (not ups or time.monotonic() - began < BUDGET_S):
            up, down = _up_and_down(size)
            ups.append(up)
            downs.append(down)
        backend = json.loads(ups[0].said).get("latency", "")
        for what, costs in (("up", ups), ("down", downs)):
            cpu_s = statistics.median(cost.cpu_s for cost in costs)
            note = f"median of {len(costs)}, {cpu_s:.1f} CPU s"
            if what == "up" and "user space" in backend:
                note += ", user-space backend"
            elif what == "up" and "kernel" in backend:
                note += ", kernel backend"
            yield Row(
                f"{size} nodes {what}",
                statistics.median(cost.wall_s for cost in costs),
                "s",
                target=TARGET_S.get(size),
                note=note,
            )


def _up_and_down(size: int) -> tuple[Cost, Cost]:
    with tempfile.TemporaryDirectory(prefix="fogctl-bench-") as folder:
        file = Path(folder, "testbed.yaml")
        file.write_text(
            f"name: {name()}\nkind: virtual\nnodes:\n"
            "  - {name: cloud, role: control, site: dc, board: host}\n"
            f'  - {{name: "pi[1-{size - 1}]", role: edge, site: edge, board: rpi4-4g, {LIMITS}}}\n'
            "latency:\n  default: {rtt: 20ms}\n"
        )
        try:
            up = _fogctl("up", "--testbed", str(file), "-o", "json")
        finally:
            down = _fogctl("down", name(), "-o", "json")
    return up, down


def _fogctl(*arguments: str) -> Cost:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "fogctl", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=SLOWEST_S,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    wall_s, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"fogctl {' '.join(arguments)}: {done.stderr.strip() or done.returncode}")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(wall_s, cpu_s, done.stdout)
