"""An exploration on the disk: written after each budget, read again to plan from; or a CSV."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from fogctl.errors import FAILED, FogError
from fogctl.planner.explorer import Exploration, Measured, Profile
from fogctl.planner.observations import read_observations

EXPLORATION = "exploration.json"
OBSERVATIONS = "observations.csv"


@dataclass(frozen=True, slots=True)
class Kept:
    """What was measured of an app so far."""

    app: str
    slot: str
    """What a slot was, in words."""
    stages: tuple[str, ...]
    """None if only throughputs are known."""
    measured: tuple[Measured, ...]
    profiles: tuple[Profile, ...]
    finished: bool

    @classmethod
    def of(cls, app: str, slot: str, stages: tuple[str, ...], found: Exploration, finished: bool) -> Kept:
        """An exploration with what it is of."""
        return cls(app, slot, stages, found.measured, found.profiles, finished)

    @property
    def memory_sizes_mb(self) -> tuple[float, ...]:
        """The sizes of memory that were measured, small ones first."""
        return tuple(sorted({each.memory_mb for each in self.measured}))

    def profile(self, memory_mb: float) -> Profile | None:
        """The single-task run with so much memory; None if there was none."""
        return next((each for each in self.profiles if each.memory_mb == memory_mb), None)


def write(folder: Path, kept: Kept) -> None:
    """Both files: all of it for `fogctl plan boards`, the throughputs for `fogctl plan slots`."""
    rows = [f"{each.task_slots},{each.memory_mb:g},{each.mst:.6g}\n" for each in kept.measured]
    files = {
        EXPLORATION: json.dumps(asdict(kept), indent=1, allow_nan=False) + "\n",
        OBSERVATIONS: "".join(["task_slots,memory_mb,mst\n", *rows]),
    }
    for name, text in files.items():
        fresh = folder / f"{name}.tmp"
        try:
            fresh.write_text(text, encoding="utf-8")
            fresh.replace(folder / name)
        except OSError as error:
            raise FogError(
                f"cannot be written: {error.strerror}", file=folder / name, exit_code=FAILED
            ) from None


def read(where: Path) -> Kept:
    """From the folder of an exploration, or from a CSV of observations, which knows nothing of stages."""
    if not where.is_dir():
        rows = read_observations(where)
        measured = tuple(Measured(row.task_slots, row.memory_mb, row.mst, None, {}) for row in rows)
        return Kept(where.stem, "what the file calls a task slot", (), measured, (), True)
    file = where / EXPLORATION
    try:
        return TypeAdapter(Kept).validate_json(file.read_bytes())
    except FileNotFoundError:
        raise FogError(
            f"has no {EXPLORATION}", file=where, hint="name a folder that fogctl plan explore has written to"
        ) from None
    except ValidationError:
        raise FogError(
            "is not an exploration", file=file, hint="call fogctl plan explore again: it writes it anew"
        ) from None
    except OSError as error:
        raise FogError(f"cannot be read: {error.strerror}", file=file) from None
