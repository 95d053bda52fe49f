"""Apps: `app.yaml` and the stages in it. A stage is one streaming query with its own pool of executors."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from fogctl.config import source
from fogctl.config.fields import Entry, PositiveDelayMs, SizeBytes
from fogctl.config.problems import Problem, refuse
from fogctl.config.validate import validate
from fogctl.errors import FogError


class Mode(StrEnum):
    """How a stage's query runs."""

    micro_batch = "micro-batch"
    real_time = "real-time"


@dataclass(frozen=True, slots=True)
class Stage:
    """One operator group of an app."""

    name: str
    function: str
    inputs: tuple[str, ...]
    output: str
    partitions: int
    freshness_ms: float
    """How long a batch may take: the runner keeps batches as small as that needs."""
    memory_bytes: int
    """Heap of one executor."""
    mode: Mode
    options: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class App:
    """A DAG of stages, linked by topics, and the file that holds their functions."""

    name: str
    code: Path
    stages: tuple[Stage, ...]
    file: Path

    def stage(self, name: str) -> Stage:
        """The stage of that name; FogError if there is none."""
        for stage in self.stages:
            if stage.name == name:
                return stage
        known = ", ".join(stage.name for stage in self.stages)
        raise FogError(f"app {self.name} has no stage {name}", hint=f"its stages: {known}")

    def topic(self, stream: str) -> str:
        """The topic that carries a stream of this app."""
        return f"{self.name}.{stream}"

    @property
    def topics(self) -> dict[str, int]:
        """Every topic with its partitions: a stage's partitions are those of its inputs."""
        found: dict[str, int] = {}
        for stage in self.stages:
            for stream in stage.inputs:
                found[self.topic(stream)] = max(stage.partitions, found.get(self.topic(stream), 0))
        for stage in self.stages:
            found.setdefault(self.topic(stage.output), stage.partitions)
        return found

    @property
    def sources(self) -> tuple[str, ...]:
        """Streams that no stage writes: what comes from outside."""
        made = {stage.output for stage in self.stages}
        return tuple(dict.fromkeys(s for stage in self.stages for s in stage.inputs if s not in made))

    @property
    def sinks(self) -> tuple[str, ...]:
        """Streams that no stage reads: the app's results."""
        read = {stream for stage in self.stages for stream in stage.inputs}
        return tuple(dict.fromkeys(stage.output for stage in self.stages if stage.output not in read))


def _plain(raw: object) -> str:
    if isinstance(raw, bool):
        return "true" if raw else "false"
    if isinstance(raw, str | int | float):
        return str(raw)
    raise ValueError("an option is text or a number")


_Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,30}$")]
_Option = Annotated[str, BeforeValidator(_plain)]


class StageEntry(Entry):
    """A stage in app.yaml."""

    name: _Name = Field(examples=["nearest"])
    function: str | None = None
    inputs: list[_Name] = Field(min_length=1, examples=["[rides]"])
    output: _Name = Field(examples=["places"])
    partitions: int = Field(default=8, ge=1, le=1000)
    freshness: PositiveDelayMs = 5000.0
    memory: SizeBytes = 300 << 20
    mode: Mode = Field(default=Mode.micro_batch, strict=False)
    options: dict[str, _Option] = Field(default_factory=dict)


class AppFile(Entry):
    """app.yaml."""

    name: _Name = Field(examples=["taxi"])
    code: str = "app.py"
    stages: list[StageEntry] = Field(min_length=1)


@dataclass(slots=True)
class _Checks:
    problems: list[Problem] = field(default_factory=list)

    def add(self, message: str, *key: str | int, hint: str | None = None) -> None:
        self.problems.append(Problem(message, key=key, hint=hint))


def load(where: Path | str) -> App:
    """The app in a folder, of an app.yaml, or of that name among the shipped ones."""
    path = find(where)
    document = source.read(path, "app")
    file = validate(document, AppFile)
    checks = _Checks()
    names: dict[str, int] = {}
    writers: dict[str, str] = {}
    for number, stage in enumerate(file.stages):
        if stage.name in names:
            checks.add(
                f'the stage "{stage.name}" is given twice', "stages", number, "name", hint="rename one"
            )
        names.setdefault(stage.name, number)
        if stage.output in writers:
            checks.add(
                f'"{stage.output}" is written by {writers[stage.output]} already', "stages", number, "output",
                hint="one stage writes a stream",
            )  # fmt: skip
        writers.setdefault(stage.output, stage.name)
        if stage.output in stage.inputs:
            checks.add("a stage cannot read what it writes", "stages", number, "inputs")
    if not checks.problems and _has_cycle(file):
        checks.add("the stages feed each other in a circle", "stages")
    code = path.parent / file.code
    if not code.is_file():
        checks.add(f"there is no file {code}", "code")
    located = [Problem(p.message, document.line(p.key or ()), p.key, p.hint) for p in checks.problems]
    refuse(document.file, located)
    return App(file.name, code.resolve(), tuple(_stage(entry) for entry in file.stages), path)


def find(where: Path | str) -> Path:
    """The app.yaml that is meant."""
    path = Path(where)
    if path.is_dir():
        return path / "app.yaml"
    if path.suffix in {".yaml", ".yml"}:
        return path
    shipped = shipped_apps()
    if str(where) in shipped:
        return shipped[str(where)]
    raise FogError(
        f"there is no app {where}", hint=f"shipped: {', '.join(shipped)}; or name a folder with an app.yaml"
    )


def shipped_apps() -> dict[str, Path]:
    """The apps that come with fogctl, by name."""
    spec = importlib.util.find_spec("fogapps")
    if spec is None or not spec.submodule_search_locations:
        return {}
    folder = Path(next(iter(spec.submodule_search_locations)))
    return {path.parent.name: path for path in sorted(folder.glob("*/app.yaml"))}


def _stage(entry: StageEntry) -> Stage:
    return Stage(
        name=entry.name,
        function=entry.function or entry.name,
        inputs=tuple(entry.inputs),
        output=entry.output,
        partitions=entry.partitions,
        freshness_ms=entry.freshness,
        memory_bytes=entry.memory,
        mode=entry.mode,
        options=tuple(sorted(entry.options.items())),
    )


def _has_cycle(file: AppFile) -> bool:
    readers: dict[str, list[StageEntry]] = {}
    for stage in file.stages:
        for stream in stage.inputs:
            readers.setdefault(stream, []).append(stage)
    state: dict[str, bool] = {}

    def leads_back(stage: StageEntry) -> bool:
        if stage.name in state:
            return state[stage.name]
        state[stage.name] = True
        state[stage.name] = any(leads_back(following) for following in readers.get(stage.output, []))
        return state[stage.name]

    return any(leads_back(stage) for stage in file.stages)


def as_json(stage: Stage) -> dict[str, Any]:
    """A stage as the stage runner receives it."""
    return {
        "name": stage.name,
        "function": stage.function,
        "inputs": list(stage.inputs),
        "output": stage.output,
        "partitions": stage.partitions,
        "freshness_ms": stage.freshness_ms,
        "memory_bytes": stage.memory_bytes,
        "mode": stage.mode.value,
        "options": dict(stage.options),
    }
