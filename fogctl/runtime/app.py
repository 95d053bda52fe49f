"""Apps: `app.yaml` and the stages in it. A stage is one streaming query with its own pool of executors."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fogctl.config import source
from fogctl.config.problems import Problem, choice_hint, refuse
from fogctl.config.units import quoted
from fogctl.config.validate import validate
from fogctl.errors import FogError
from fogctl.runtime import app_checks
from fogctl.runtime.app_file import AppFile, Mode, OutputMode, StageEntry

__all__ = ["App", "Mode", "OutputMode", "Stage", "as_json", "find", "load", "shipped_apps"]


@dataclass(frozen=True, slots=True)
class Stage:
    """One operator group of an app."""

    name: str
    function: str
    inputs: tuple[str, ...]
    output: str
    partitions: int
    freshness_ms: float
    """How long a batch may take: the runner keeps batches as small as that needs. In real-time mode the time
    between checkpoints."""
    memory_bytes: int
    """Heap of one executor."""
    mode: Mode
    options: tuple[tuple[str, str], ...]
    output_mode: OutputMode = OutputMode.append
    keeps_keys: bool = True
    """Whether each input record comes out exactly once under its own key."""
    slots: int = 1
    """Tasks that one replica runs at a time."""
    tasks: int | None = None
    """Tasks that a batch is divided into at most; None: as many as its slots on all edge nodes."""
    consumer: tuple[tuple[str, str], ...] = ()
    producer: tuple[tuple[str, str], ...] = ()
    """Settings of its Kafka clients that replace fogctl's own."""


@dataclass(frozen=True, slots=True)
class App:
    """A DAG of stages, linked by topics, and the file that holds their functions."""

    name: str
    code: Path
    stages: tuple[Stage, ...]
    file: Path
    given: tuple[tuple[str, str, str], ...] = ()
    """Options that its stages have instead of those in the file: stage, option, value."""

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

    def warm_up_topic(self, stage: Stage) -> str:
        """The topic on which new executors of a stage try their hand; no stream has a dot in its name."""
        return f"{self.name}.{stage.name}.warm-up"

    @property
    def all_topics(self) -> dict[str, int]:
        """The topics of its streams and those of warm-ups, with their partitions."""
        return {**self.topics, **{self.warm_up_topic(stage): stage.partitions for stage in self.stages}}

    @property
    def topics(self) -> dict[str, int]:
        """The topic of every stream with its partitions: a stage's partitions are those of its inputs."""
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

    @property
    def numbered(self) -> tuple[str, ...]:
        """Streams whose keys are still the numbers of the records that came from outside."""
        found = list(self.sources)
        for _ in self.stages:  # the stages may stand in any order
            for stage in self.stages:
                if stage.keeps_keys and set(stage.inputs) <= set(found) and stage.output not in found:
                    found.append(stage.output)
        return tuple(found)


def load(where: Path | str) -> App:
    """The app in a folder, of an app.yaml, or of that name among the shipped ones."""
    path = find(where)
    document = source.read(path, "app")
    refuse(document.file, app_checks.moved_keys(document))
    file = validate(document, AppFile)
    code = path.parent / file.code
    found = app_checks.problems(file, code)
    refuse(document.file, (Problem(p.message, document.line(p.key), p.key, p.hint) for p in found))
    return App(file.name, code.resolve(), tuple(_stage(entry) for entry in file.stages), path)


def find(where: Path | str) -> Path:
    """The app.yaml that is meant."""
    path = Path(where)
    if path.is_dir():
        if not (path / "app.yaml").is_file():
            raise FogError(f"the folder {path} has no app.yaml", hint="make an app: fogctl app new NAME")
        return path / "app.yaml"
    if path.suffix in {".yaml", ".yml"}:
        return path
    shipped = shipped_apps()
    if str(where) in shipped:
        return shipped[str(where)]
    otherwise = f"shipped: {', '.join(shipped)}; or name a folder with an app.yaml"
    raise FogError(
        f"there is no app {quoted(str(where))}", hint=choice_hint(str(where), [*shipped], otherwise)
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
        output_mode=entry.effective_output_mode,
        keeps_keys=entry.keeps_keys,
        slots=entry.slots,
        tasks=entry.tasks,
        consumer=tuple(sorted(entry.kafka.consumer.items())),
        producer=tuple(sorted(entry.kafka.producer.items())),
    )


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
        "output_mode": stage.output_mode.value,
        "keeps_keys": stage.keeps_keys,
        "slots": stage.slots,
        "tasks": stage.tasks,
        "consumer": dict(stage.consumer),
        "producer": dict(stage.producer),
    }
