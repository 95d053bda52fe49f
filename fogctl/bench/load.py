"""Loading the two files: read, validate, find the benchmark an execution names; or say what to mend."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fogctl.bench.bench_file import BenchmarkFile, ExecutionFile, Metric
from fogctl.config import source
from fogctl.config.problems import choice_hint
from fogctl.config.units import quoted
from fogctl.config.validate import validate
from fogctl.errors import FogError
from fogctl.planner.journal import Journal

_SHIPPED = Path(__file__).resolve().parent / "shipped"


@dataclass(frozen=True, slots=True)
class Case:
    """A benchmark and how it is executed."""

    benchmark: BenchmarkFile
    execution: ExecutionFile
    asked: dict[str, Any]
    """Both files as they were written: all that experiments depend on."""
    folder: Path
    """Where the benchmark's file is: paths in it start there."""


def load(where: str) -> Case:
    """The case of an execution.yaml, or of one that ships."""
    file = find(where)
    document = source.read(file, "execution file")
    execution = validate(document, ExecutionFile)
    wanted = file.parent / execution.benchmark
    if not wanted.is_file():
        raise FogError(
            f"there is no file {wanted}", file=file, line=document.line(("benchmark",)), key="benchmark"
        )
    what = source.read(wanted, "benchmark file")
    benchmark = validate(what, BenchmarkFile)
    return Case(benchmark, execution, {"benchmark": what.data, "execution": document.data}, wanted.parent)


def asking(case: Case, metric: Metric) -> Case:
    """The same case with the other question."""
    execution = {**case.asked["execution"], "metric": metric.value}
    return Case(
        case.benchmark,
        case.execution.model_copy(update={"metric": metric}),
        {**case.asked, "execution": execution},
        case.folder,
    )


def kept(journal: Journal) -> Case:
    """The case that a journal is of."""
    asked, _ = journal.read()
    try:
        benchmark = BenchmarkFile.model_validate(asked["benchmark"])
        execution = ExecutionFile.model_validate(asked["execution"])
    except (KeyError, ValueError):
        raise FogError("is not of a benchmark", file=journal.file, hint="check the name") from None
    return Case(benchmark, execution, asked, journal.file.parent)


def find(where: str) -> Path:
    """The execution.yaml that is meant."""
    path = Path(where)
    if path.suffix in {".yaml", ".yml"}:
        return path
    if (path / "execution.yaml").is_file():
        return path / "execution.yaml"
    names = shipped()
    if where in names:
        return _SHIPPED / where / "execution.yaml"
    raise FogError(
        f"there is no benchmark {quoted(where)}",
        hint=choice_hint(where, names, f"shipped: {', '.join(names)}; or name an execution.yaml"),
    )


def shipped() -> list[str]:
    """The benchmarks that come along."""
    return sorted(path.parent.name for path in _SHIPPED.glob("*/execution.yaml"))
