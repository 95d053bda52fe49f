"""The ledger: every change to the host, written down durably before it is made, so that it can be undone."""

from __future__ import annotations

import dataclasses
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic

from typing_extensions import TypeVar

from fogctl.errors import FAILED, FogError
from fogctl.testbed.steps import LASTING, Step

S = TypeVar("S", default=Step)
"""What is written down: a frozen dataclass of plain fields."""


def encode(step: Any) -> dict[str, Any]:
    """A step as plain JSON: its class's name and its fields."""
    fields = {field.name: getattr(step, field.name) for field in dataclasses.fields(step)}
    return {"step": type(step).__name__, **fields}


def decode(record: dict[str, Any], types: Mapping[str, type[S]]) -> S:
    """The step that `encode` made into this record; ValueError if its class is none of these, by name."""
    fields = dict(record)
    name = fields.pop("step", None)
    if name not in types:
        raise ValueError(f"unknown step {name!r}")
    try:
        return types[name](**{key: _frozen(value) for key, value in fields.items()})
    except TypeError as error:
        raise ValueError(f"fields do not fit {name}: {error}") from None


def by_name(types: Iterable[type[S]]) -> dict[str, type[S]]:
    """Step classes by the name the ledger writes."""
    return {known.__name__: known for known in types}


def _frozen(value: Any) -> Any:
    """JSON knows lists only; steps hold tuples."""
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


class Ledger(Generic[S]):
    """The steps recorded and not yet undone, oldest first, backed by an append-only file of JSON lines.

    A line counts from its newline on: a step is made only after its whole line is on the disk, so a torn last
    line speaks of something that never happened. After a reboot of the host, what the kernel held is gone and
    only lasting steps (files) remain ours.
    """

    def __init__(self, file: Path, types: Sequence[type[S]], boot_id: str) -> None:
        self.file = file
        self._types = by_name(types)
        self._boot_id = boot_id
        self._steps: dict[S, None] = {}
        self._places: Counter[str] = Counter()
        self._written_boot = ""
        self._descriptor: int | None = None
        self._whole_bytes = 0
        try:
            raw = file.read_bytes()
        except FileNotFoundError:
            return
        self._whole_bytes = raw.rfind(b"\n") + 1
        for number, line in enumerate(raw[: self._whole_bytes].splitlines(), start=1):
            self._replay(line, number)
        if self._written_boot != boot_id:
            self._drop_volatile()

    def _replay(self, line: bytes, number: int) -> None:
        try:
            record = json.loads(line)
            if "boot" in record:
                if self._written_boot:
                    self._drop_volatile()
                self._written_boot = record["boot"]
            elif "undone" in record:
                self._drop(decode(record["undone"], self._types))
            else:
                self._add(decode(record, self._types))
        except (ValueError, TypeError) as error:
            raise FogError(
                f"not a ledger entry of this version of fogctl: {error}",
                file=self.file,
                line=number,
                hint="use the version that made it, or repair the line by hand; it says what to undo",
                exit_code=FAILED,
            ) from None

    def _drop_volatile(self) -> None:
        for step in self.steps:
            if not isinstance(step, LASTING):
                self._drop(step)

    def _add(self, step: S) -> None:
        if step not in self._steps:
            self._steps[step] = None
            self._places.update(_places(step))

    def _drop(self, step: S) -> None:
        if step in self._steps:
            del self._steps[step]
            self._places.subtract(_places(step))

    @property
    def steps(self) -> tuple[S, ...]:
        """What was recorded and not undone, oldest first."""
        return tuple(self._steps)

    def __contains__(self, step: object) -> bool:
        return step in self._steps

    def owns(self, place: str) -> bool:
        """Whether a recorded step made something of that name."""
        return self._places[place] > 0

    def record(self, step: S) -> None:
        """Put a step on the disk; only then may it be made."""
        if step in self._steps:
            return
        self._append(encode(step))
        self._add(step)

    def forget(self, step: S) -> None:
        """Note that a step is undone. Not forced to the disk: undoing it once more does no harm."""
        if step in self._steps:
            self._append({"undone": encode(step)}, durable=False)
            self._drop(step)

    def _append(self, record: dict[str, Any], durable: bool = True) -> None:
        lines = [record]
        if self._written_boot != self._boot_id:
            lines.insert(0, {"boot": self._boot_id})
            self._written_boot = self._boot_id
        descriptor = self._open()
        os.write(descriptor, b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        if durable:
            os.fsync(descriptor)

    def _open(self) -> int:
        if self._descriptor is None:
            fresh = not self.file.exists()
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._descriptor = os.open(self.file, flags, 0o644)
            os.ftruncate(self._descriptor, self._whole_bytes)
            if fresh:
                sync_folder(self.file.parent)
                sync_folder(self.file.parent.parent)
        return self._descriptor

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _places(step: object) -> list[str]:
    place = getattr(
        step, "place", None
    )  # an Exclusive step; asking the Protocol takes longer than all the rest
    return [] if place is None else [place]


def sync_folder(folder: Path) -> None:
    """Make a new name in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
