"""A file of measurements, a line each, written at once: what is measured stays, whatever happens next."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fogctl.errors import FAILED, REFUSED, FogError

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Journal:
    """Lines of JSON; the first says what was asked for, so that nobody goes on with something else."""

    file: Path

    def open_for(self, asked: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Begin, or go on: the measurements so far. Refused if the file is of another question."""
        head = {"format": FORMAT, "asked": json.loads(json.dumps(asked))}
        if not self.file.exists():
            try:
                self.file.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise FogError(
                    f"cannot be made: {error.strerror}", file=self.file.parent, exit_code=FAILED
                ) from None
            self._append(head)
            return []
        first, *rest = self._lines() or [head]
        if first != head:
            changed = _changed(first.get("asked", {}), head["asked"])
            raise FogError(
                f"holds measurements of something else: {changed} changed",
                file=self.file,
                hint="name another folder, or remove this one",
                exit_code=REFUSED,
            )
        return rest

    def read(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """What was asked for, and the measurements."""
        if not self.file.exists():
            raise FogError("no such file", file=self.file, hint="check the name")
        lines = self._lines()
        if not lines or "asked" not in lines[0]:
            raise FogError("holds no measurements", file=self.file, hint="check the name")
        return lines[0]["asked"], lines[1:]

    def add(self, measured: Mapping[str, Any]) -> None:
        """One measurement, on the disk when this returns."""
        self._append(measured)

    def _append(self, data: Mapping[str, Any]) -> None:
        try:
            with self.file.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(data, allow_nan=False) + "\n")
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise FogError(f"cannot be written: {error.strerror}", file=self.file, exit_code=FAILED) from None

    def _lines(self) -> list[dict[str, Any]]:
        return list(self._parsed())

    def _parsed(self) -> Iterator[dict[str, Any]]:
        try:
            lines = self.file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            raise FogError("cannot be read", file=self.file, hint="check the name") from None
        for number, line in enumerate(lines, start=1):
            try:
                data = json.loads(line)
            except json.JSONDecodeError:
                if number == len(lines):  # the machine stopped in the middle of a line
                    self._cut(lines[:-1])
                    return
                raise FogError("is not a measurement", file=self.file, line=number) from None
            if not isinstance(data, dict):
                raise FogError("is not a measurement", file=self.file, line=number)
            yield data

    def _cut(self, lines: list[str]) -> None:
        """Leave out a last line that was never finished, or the next one would be glued to it."""
        fresh = self.file.with_suffix(".tmp")
        fresh.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        fresh.replace(self.file)


def _changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    names = [name for name in dict.fromkeys((*before, *now)) if before.get(name) != now.get(name)]
    return ", ".join(names) or "its format"
