"""The testbed's figures in a QEMU guest with Debian's stock kernel, which has sch_netem.

    sudo python benchmarks/guest.py [--markdown FILE] [-o json] [-- ARGUMENTS OF testbed.py]

For hosts whose kernel lacks sch_netem: the guest runs both backends. Its processor is emulated instruction by
instruction, ten to twenty times slower than the real one, so its times say that it works, not how fast.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[0:1] = [str(ROOT)]

from benchmarks.report import from_data, publish  # noqa: E402
from tests.vm.guest import Guest, GuestError  # noqa: E402
from tests.vm.image import get_image  # noqa: E402
from tests.vm.project import CHECKOUT, PYTHON, copy_project  # noqa: E402

REMARK = (
    "a QEMU guest without hardware acceleration, ten to twenty times slower than the processor below it: "
    "read these figures as proof that it works, not of speed"
)
DEFAULTS = ("--nodes", "10")
"""A hundred nodes take the emulated processor too long to be of use."""
SLOWEST_S = 3600


def main(arguments: Sequence[str] | None = None) -> int:
    """Boot, measure inside, show here; the exit code is 1 only if a part failed: targets are for hardware."""
    parser = argparse.ArgumentParser(description="Figures of the emulated testbed in a QEMU guest.")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the table as Markdown")
    parser.add_argument(
        "inside", nargs="*", metavar="ARGUMENT", help="after --: for testbed.py  [default: --nodes 10]"
    )
    chosen = parser.parse_args(arguments)
    try:
        with Guest(get_image(say=_say)) as guest:
            _say(f"guest: up after {guest.boot_seconds:.0f} s")
            copy_project(guest)
            text = _measure(guest, chosen.inside or DEFAULTS)
    except GuestError as error:
        print(error, file=sys.stderr)
        return 1
    report = from_data(json.loads(text))
    report = replace(report, remarks=(*report.remarks, REMARK))
    publish(report, "guest", chosen.output, chosen.markdown)
    return 1 if any(part.failure for part in report.parts) else 0


def _measure(guest: Guest, arguments: Sequence[str]) -> str:
    """What testbed.py prints as JSON in the guest; its progress passes through."""
    inside = [PYTHON, f"{CHECKOUT}/benchmarks/testbed.py", "-o", "json", *arguments]
    done = subprocess.run(
        [*guest.ssh_argv, "--", shlex.join(inside)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=SLOWEST_S,
    )
    if not done.stdout.strip():
        raise GuestError(f"guest: `{shlex.join(inside)}` exited {done.returncode} without figures")
    return done.stdout


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
