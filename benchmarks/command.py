"""The command line that all campaigns share: measure what the file lacks, show what it has.

    sudo python benchmarks/NAME.py measure --to FILE.jsonl [--only PART[:VALUE] ...] [--minutes N] [--dry-run]
    python benchmarks/NAME.py show FILE.jsonl [--plot FILE.svg] [--markdown FILE.md] [-o json]

`show` needs the file alone, and says of what is missing that it is not measured yet.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import campaign
from benchmarks.campaign import Line, Part
from benchmarks.emulated import idle_remarks
from benchmarks.report import placed as between_markers
from fogctl.errors import FogError


def _nothing(_: argparse.ArgumentParser) -> None:
    return None


def _none(_: Sequence[Line]) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Campaign:
    """What one campaign measures, and how what was measured is told."""

    name: str
    """Of its script, and of its markers in the guide."""
    about: str
    names: tuple[str, ...]
    """Its parts."""
    parts: Callable[[argparse.Namespace], Sequence[Part]]
    asked: Callable[[argparse.Namespace], Mapping[str, Any]]
    """All that measurements depend on: a file of others is not gone on with."""
    report: Callable[[Sequence[Line]], str]
    """The tables, as Markdown."""
    data: Callable[[Sequence[Line]], Any]
    """The same for programs."""
    draw: Callable[[Sequence[Line], Path], None]
    missed: Callable[[Sequence[Line]], Sequence[str]] = _none
    """Targets that were not met, a sentence each: the exit code of `show` is 1 if there are any."""
    more: Callable[[argparse.ArgumentParser], object] = _nothing
    """Adds what the campaign has of its own to `measure`."""
    emulates: bool = True

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Measure what is missing, or show what there is."""
        chosen = self.parser().parse_args(arguments)
        if chosen.command == "measure":
            for remark in () if chosen.dry_run else idle_remarks():
                campaign.told(remark)
            return self.measure(chosen)
        text = self.written(chosen.file, chosen.plot, chosen.markdown)
        lines = campaign.read(chosen.file)
        print(json.dumps(self.data(lines), indent=2) if chosen.output == "json" else text)
        missed = self.missed(lines)
        for each in missed:
            print(f"missed: {each}", file=sys.stderr)
        return 1 if missed else 0

    def measure(self, chosen: argparse.Namespace) -> int:
        """What the command line asks for."""
        return campaign.measure(
            self.parts(chosen),
            chosen.to,
            self.asked(chosen),
            chosen,
            f"{self.name}.py",
            emulates=self.emulates,
        )

    def written(self, file: Path, plot: Path | None, guide: Path | None) -> str:
        """The tables of what a file has; the picture drawn and both put into the guide where they are asked
        for."""
        lines = campaign.read(file)
        text = "\n".join(part for part in (self.report(lines), campaign.where_measured(file)) if part)
        if plot is not None:
            self.draw(lines, plot)
        if guide is not None:
            shown = text
            if plot is not None and lines:
                shown += f"\n\n![{self.about}]({os.path.relpath(plot, guide.parent)})"
            before = guide.read_text(encoding="utf-8") if guide.is_file() else ""
            guide.write_text(between_markers(shown.rstrip() + "\n", self.name, before), encoding="utf-8")
        return text

    def parser(self) -> argparse.ArgumentParser:
        """Of `measure` and `show`."""
        made = argparse.ArgumentParser(description=self.about)
        commands = made.add_subparsers(dest="command", required=True)
        run = commands.add_parser("measure", help="measure what the file lacks")
        run.add_argument("--to", type=Path, required=True, metavar="FILE", help="where measurements are kept")
        run.add_argument(
            "--only",
            action="append",
            metavar="PART[:VALUE]",
            help=f"with what they need before; parts: {', '.join(self.names)}; VALUE: some of a part",
        )
        run.add_argument("--minutes", type=float, default=600.0, help="stop after about so many")
        run.add_argument("--dry-run", action="store_true", help="say what it will take; measure nothing")
        self.more(run)
        look = commands.add_parser("show", help="tables and plot of what was measured")
        look.add_argument("file", type=Path)
        look.add_argument("-o", "--output", choices=("table", "json"), default="table")
        look.add_argument("--plot", type=Path, metavar="FILE", help="draw it: .svg, .png")
        look.add_argument(
            "--markdown", type=Path, metavar="FILE", help="write the tables between its markers"
        )
        return made


def exit_code(main: Callable[[], int]) -> int:
    """Of a campaign that is called by its name: what is wrong is told in one sentence."""
    try:
        return main()
    except FogError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        campaign.told("stopped; what is measured is kept")
        return 130
