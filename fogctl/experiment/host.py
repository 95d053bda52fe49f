"""The machine that an experiment runs on: what it is, how busy it was, second by second."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from fogctl import __version__
from fogctl.config.shares import Capacity

_STAT = Path("/proc/stat")
_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
_FREQUENCY = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq")


def facts() -> dict[str, Any]:
    """What the manifest says of the host: cores, memory, kernel, clock, and a Pi's throttling state."""
    here = Capacity.of_this_host()
    found: dict[str, Any] = {
        "machine": platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "cores": here.cores,
        "memory_bytes": int(here.memory_bytes) if here.memory_bytes < float("inf") else None,
        "load_1min": round(os.getloadavg()[0], 2),
    }
    for name, file in (("governor", _GOVERNOR), ("frequency_khz", _FREQUENCY)):
        try:
            found[name] = file.read_text().strip()
        except OSError:
            continue
    if (tool := shutil.which("vcgencmd")) is not None:  # only a Pi has it: under-voltage, heat
        ran = subprocess.run([tool, "get_throttled"], capture_output=True, text=True, check=False)
        found["throttled"] = ran.stdout.strip()
    return found


def versions() -> dict[str, str]:
    """What took part in a run."""
    found = {"fogctl": __version__, "python": platform.python_version()}
    for name in ("numpy", "pyarrow", "pyspark", "kafka-python"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


class Busy:
    """How busy all cores together were since it was last asked, 0 to 1."""

    def __init__(self) -> None:
        self._before = _times()

    def since_last(self) -> float | None:
        """The share of time spent working; None where the system does not tell."""
        now, before = _times(), self._before
        self._before = now
        if now is None or before is None or now[1] <= before[1]:
            return None
        return min(1.0, max(0.0, (now[0] - before[0]) / (now[1] - before[1])))


def _times() -> tuple[int, int] | None:
    """Jiffies in which the cores worked, and all jiffies."""
    try:
        fields = [int(word) for word in _STAT.read_text().splitlines()[0].split()[1:9]]
    except (OSError, ValueError, IndexError):
        return None
    idle = fields[3] + fields[4]
    return sum(fields) - idle, sum(fields)
