"""A run's folder: manifest, events, metrics, scores and report; locked while somebody writes to it."""

from __future__ import annotations

import fcntl
import gzip
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from fogctl.agent import events as event_log
from fogctl.config.units import quoted
from fogctl.errors import FAILED, REFUSED, FogError
from fogctl.experiment import metrics
from fogctl.experiment.experiment import Part

FORMAT = 1
RUNS = "runs"
"""Where runs go unless told otherwise, below the working directory."""

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder of one run and the files in it."""

    path: Path

    @property
    def name(self) -> str:
        """What commands call the run."""
        return self.path.name

    @property
    def manifest_file(self) -> Path:
        """Seed, versions, host, configuration, measured latencies, and the state of each part."""
        return self.path / "manifest.json"

    @property
    def events_file(self) -> Path:
        """Every decision with its reason, every fault, every step of the run."""
        return self.path / "events.jsonl"

    @property
    def metrics_file(self) -> Path:
        """Every second of every stage and node."""
        return self.path / "metrics.parquet"

    @property
    def scores_file(self) -> Path:
        """What `score` makes of the others."""
        return self.path / "scores.json"

    @property
    def report_file(self) -> Path:
        """The page."""
        return self.path / "report.html"

    def part_lines(self, part: Part) -> Path:
        """Where a running part's metrics go."""
        return self.path / "parts" / f"{part.key}.jsonl"

    def manifest(self) -> Manifest:
        """The manifest; FogError if this is no run's folder."""
        try:
            read: Manifest = json.loads(self.manifest_file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise FogError("is not a run's folder: it has no manifest.json", file=self.path) from None
        except (OSError, ValueError) as error:
            raise FogError(f"cannot be read: {error}", file=self.manifest_file, exit_code=FAILED) from None
        if not isinstance(read, dict) or read.get("format") != FORMAT:
            raise FogError("is not a manifest of this version of fogctl", file=self.manifest_file)
        return read

    def save_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Write the manifest in one piece."""
        write_text(self.manifest_file, json.dumps(manifest, indent=1, default=str) + "\n")

    @property
    def packed_events_file(self) -> Path:
        """The events of a run that is kept for good."""
        return self.path / "events.jsonl.gz"

    def events(self) -> list[dict[str, Any]]:
        """All events, oldest first."""
        if self.packed_events_file.is_file():
            with gzip.open(self.packed_events_file, "rt", encoding="utf-8") as lines:
                return [json.loads(line) for line in lines]
        return list(event_log.read(self.events_file))

    def keep(self, parent: Path) -> RunFolder:
        """A small copy for good below another folder: manifest, scores and events, no metrics and no page."""
        manifest, scores = self.manifest(), self.scores()
        record = RunFolder(parent / self.name)
        if record.path.exists():
            raise FogError("is there already", file=record.path, hint="remove it to keep the run anew")
        record.path.mkdir(parents=True)
        # Where it lay on the machine of the run is of no use elsewhere.
        record.save_manifest({**manifest, "source": Path(str(manifest.get("source", ""))).name})
        record.save_scores(scores)
        text = "".join(json.dumps(event) + "\n" for event in self.events())
        record.packed_events_file.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
        return record

    def whole(self) -> RunFolder:
        """This folder, if it holds what the run measured; FogError for a small copy of one (`keep`)."""
        if self.packed_events_file.is_file():
            raise FogError(
                "is a small copy of a run, without the metrics that this needs",
                file=self.path,
                hint="name the run that it was copied from",
            )
        return self

    def log(self) -> event_log.FileLog:
        """Where events are appended."""
        return event_log.FileLog(self.events_file)

    def metrics(self) -> pa.Table:
        """The metrics of all finished parts."""
        return metrics.load(self.metrics_file)

    def keep_part(self, part: Part) -> None:
        """Add a finished part's metrics to metrics.parquet; what an earlier attempt left is replaced."""
        have = self.metrics()
        keep = [
            not (policy == part.policy.label and repetition == part.repetition)
            for policy, repetition in zip(
                have["policy"].to_pylist(), have["repetition"].to_pylist(), strict=True
            )
        ]
        fresh = metrics.read_lines(self.part_lines(part))
        metrics.save(pa.concat_tables([have.filter(pa.array(keep, pa.bool_())), fresh]), self.metrics_file)
        self.part_lines(part).unlink(missing_ok=True)

    def scores(self) -> dict[str, Any]:
        """The scores; FogError if there are none yet."""
        try:
            found: dict[str, Any] = json.loads(self.scores_file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise FogError(
                "has no scores yet", file=self.path, hint=f"fogctl experiment report {self.path} makes them"
            ) from None
        except ValueError as error:
            raise FogError(f"cannot be read: {error}", file=self.scores_file, exit_code=FAILED) from None
        return found

    def save_scores(self, scores: Mapping[str, Any]) -> None:
        """Write the scores in one piece."""
        write_text(self.scores_file, json.dumps(scores, indent=1, allow_nan=False) + "\n")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the run's lock during the body, or refuse. The kernel frees it, whatever ends the holder."""
        self.path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                who = os.read(descriptor, 100).decode(errors="replace").strip() or "another fogctl"
                raise FogError(
                    f"run {self.name} is being written by {who}",
                    hint="wait until it is done; fogctl watch shows how far it is",
                    exit_code=REFUSED,
                ) from None
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()}".encode(), 0)
            yield
        finally:
            os.close(descriptor)

    def in_use(self) -> bool:
        """Whether somebody writes to it at this moment."""
        try:
            descriptor = os.open(self.path / ".lock", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False


def write_text(file: Path, text: str) -> None:
    """Write a file in one piece; FogError in one sentence if the disk does not take it."""
    fresh = file.with_name(file.name + ".new")
    try:
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(file)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise FogError(f"cannot be written: {error.strerror}", file=file, exit_code=FAILED) from None


def new_path(parent: Path, name: str, now: datetime) -> Path:
    """A folder name that is free: the experiment's name and the time."""
    base = f"{name}-{now:%Y%m%d-%H%M%S}"
    for suffix in ["", *(f"-{number}" for number in range(2, 1000))]:
        if not (parent / (base + suffix)).exists():
            return parent / (base + suffix)
    raise FogError(f"there are too many runs called {base}", file=parent)


def find(what: str | Path, parent: Path) -> RunFolder:
    """A run by its folder, by its name below `parent`, or the newest one whose name begins so."""
    for path in (Path(what), parent / str(what)):
        if (path / "manifest.json").is_file():
            return RunFolder(path)
    starting = [run for run in all_runs(parent) if run.name.startswith(str(what))]
    if starting:
        return starting[-1]
    known = ", ".join(run.name for run in all_runs(parent)[-5:]) or "none"
    raise FogError(f"there is no run {quoted(str(what))} in {parent}", hint=f"newest runs there: {known}")


def all_runs(parent: Path) -> list[RunFolder]:
    """Every run below a folder, oldest first."""
    found = [RunFolder(file.parent) for file in parent.glob("*/manifest.json")]
    return sorted(found, key=lambda run: (run.manifest_file.stat().st_mtime, run.name))
