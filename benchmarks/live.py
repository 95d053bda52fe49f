"""All campaigns from one folder: what is still to measure, and every table and picture of the guides.

    sudo python benchmarks/live.py measure [--only NAME[:PART[:VALUE]] ...] [--minutes N] [--dry-run]
    python benchmarks/live.py show

For example `--only placement:taxi3 --minutes 45`, or `--only capacity:validate:nexmark-q1`. Stop it whenever
you like: every measurement is kept as it is made, and the next call goes on. `show` writes what there is so
far into the guides.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import multiprocessing
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[0:1] = [str(ROOT)]

from benchmarks import campaign, capacity, placement, scalability, windows  # noqa: E402
from benchmarks.command import Campaign, exit_code  # noqa: E402
from benchmarks.emulated import idle_remarks  # noqa: E402
from fogctl.errors import FogError  # noqa: E402

STOPPED = (130, 143)
"""By Ctrl-C, or by a kill."""
KEPT = ROOT / "docs" / "results" / "live"


@dataclass(frozen=True, slots=True)
class Told:
    """A campaign, and where readers find it."""

    campaign: Campaign
    guide: str
    plot: str


ALL = {
    told.campaign.name: told
    for told in (
        Told(windows.CAMPAIGN, "windows.md", "windows.svg"),
        Told(capacity.CAMPAIGN, "planning.md", "capacity-live.svg"),
        Told(placement.CAMPAIGN, "placement.md", "placement-live.svg"),
        Told(scalability.CAMPAIGN, "bench.md", "scalability-live.svg"),
    )
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is missing, or write down what there is."""
    chosen = _parser().parse_args(arguments)
    return measure(chosen) if chosen.command == "measure" else show(chosen.to, chosen.docs)


def measure(chosen: argparse.Namespace) -> int:
    """One campaign after the other, until the time is up."""
    wanted = chosen_parts(chosen.only)
    until = time.monotonic() + 60 * chosen.minutes
    for remark in () if chosen.dry_run else idle_remarks():
        campaign.told(remark)
    worst = 0
    for name, only in wanted.items():
        left = (until - time.monotonic()) / 60
        if left <= 0:
            break
        print(f"== {name}", flush=True)
        more = [word for part in only for word in ("--only", part)]
        more += ["--dry-run"] if chosen.dry_run else []
        given = ["measure", "--to", str(chosen.to / f"{name}.jsonl"), "--minutes", f"{left:.2f}", *more]
        each = ALL[name].campaign
        asked = each.parser().parse_args(given)
        code = each.measure(asked) if chosen.dry_run else _apart(functools.partial(each.measure, asked))
        if code in STOPPED:
            return code
        worst = max(worst, code)
    return worst


def _apart(run: Callable[[], int]) -> int:
    """In a process of its own: what one leaves in it, as a JVM and its settings, would be the next one's."""
    process = multiprocessing.get_context("fork").Process(target=lambda: sys.exit(exit_code(run)))
    process.start()
    before = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    try:
        while process.is_alive():
            with contextlib.suppress(KeyboardInterrupt):  # it hears of Ctrl-C too, and cleans up
                process.join()
    finally:
        signal.signal(signal.SIGTERM, before)
    return 1 if process.exitcode is None or process.exitcode < 0 else process.exitcode


def chosen_parts(only: Sequence[str] | None) -> dict[str, list[str]]:
    """The campaigns in the order they are named, each with its parts; no parts are all of them."""
    if not only:
        return {name: [] for name in ALL}
    found: dict[str, list[str]] = {}
    for each in only:
        name, _, part = each.partition(":")
        if name not in ALL:
            raise FogError(f"there is no campaign {name}", key="--only", hint=f"there are {', '.join(ALL)}")
        found.setdefault(name, []).append(part)
    # A campaign named without a part is all of it, whatever else is said of it.
    return {name: [] if "" in parts else parts for name, parts in found.items()}


def show(folder: Path, docs: Path) -> int:
    """The guides with the tables and pictures of what was measured; 1 if a target is missed."""
    missed = []
    for name, told in ALL.items():
        file = folder / f"{name}.jsonl"
        if not file.exists():
            print(f"{name}: {campaign.MISSING}")
            continue
        told.campaign.written(file, docs / "img" / told.plot, docs / told.guide)
        lines = campaign.read(file)
        print(f"{name}: {len(lines)} lines of {file.name} are told in {told.guide}")
        missed += [f"{name}: {each}" for each in told.campaign.missed(lines)]
    for each in missed:
        print(f"missed: {each}", file=sys.stderr)
    return 1 if missed else 0


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description="Every campaign of live measurements.")
    commands = made.add_subparsers(dest="command", required=True)
    run = commands.add_parser("measure", help="measure what is missing")
    look = commands.add_parser("show", help="write what was measured into the guides")
    for each in (run, look):
        each.add_argument("--to", type=Path, default=KEPT, metavar="FOLDER", help="of the measurements")
    run.add_argument(
        "--only",
        action="append",
        metavar="NAME[:PART[:VALUE]]",
        help="; ".join(f"{name}: {', '.join(told.campaign.names)}" for name, told in ALL.items()),
    )
    run.add_argument("--minutes", type=float, default=600.0, help="stop after about so many")
    run.add_argument("--dry-run", action="store_true", help="say what it will take; measure nothing")
    look.add_argument("--docs", type=Path, default=ROOT / "docs", metavar="FOLDER", help="of the guides")
    return made


if __name__ == "__main__":
    sys.exit(exit_code(main))
