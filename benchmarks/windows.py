"""Rows per CPU second of both window methods, over overlaps and rows per slice and key, beside the targets.

    python benchmarks/windows.py measure --to windows.jsonl [--only PART] [--minutes N] [--dry-run]
    python benchmarks/windows.py show windows.jsonl [--plot w.svg] [--markdown docs/windows.md] [-o json]

Parts: `rows` (every case), `fixed` (what a batch costs without rows).

Real streaming queries in one JVM with the settings of a stage: files as the source, a batch each, no sink.
Every query gets a batch to warm up, then its CPU time is taken from the kernel for the next. Each case is
measured in several rounds that turn the order of the methods around: whoever comes second finds a better
compiled Spark. The exit code of `show` is 1 if a target is missed.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[0:1] = [str(ROOT)]

from fogapps import windows  # noqa: E402

from benchmarks import campaign  # noqa: E402
from benchmarks.campaign import MISSING, Key, Notes, Part  # noqa: E402
from benchmarks.command import Campaign, exit_code  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OVERLAPS = (1, 2, 3, 5, 20, 30, 60)
"""Between 1 and 5 the methods are closest: there `auto` can err."""
ROWS_PER_SLICE = (2, 17, 60, 200, 500)
SLICES = 60
"""Slices in a batch."""
ROWS = 45_000
"""Rows in a batch, about, in every case, so that lines can be compared with each other."""
ROUNDS = 3
MEASURED = 1
"""Batches of a query that are measured, after the first."""
FIXED_TURNS = 8
EACH_S = {"rows": 6.5, "fixed": 12.0}
"""About what a query takes, on 2 cores that have nothing else to do."""
CASES = tuple(product(OVERLAPS, ROWS_PER_SLICE))
METHODS = ("native", "sliced")
TARGETS = {(60, 17): 2.0, (60, 200): 4.0}
"""How many times faster sliced must be than native."""
MOST_LOST = 0.05
"""How much slower than the better method `auto` may be."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One query of one method: CPU seconds a row."""

    overlaps: int
    rows_per_slice: int
    method: str
    round: int
    cpu_us_per_row: float


def parts() -> tuple[Part, ...]:
    """Everything there is to measure."""
    cases = tuple(
        {"overlaps": overlaps, "rows_per_slice": rows, "method": method, "round": round_}
        for overlaps, rows, method, round_ in _order()
    )
    turns = (METHODS, METHODS[::-1])
    fixed = tuple(
        {"method": method, "turn": turn} for turn in range(FIXED_TURNS // 2) for method in turns[turn % 2]
    )
    return (
        Part("rows", cases, EACH_S["rows"], 40.0, measure_rows),
        Part("fixed", fixed, EACH_S["fixed"], 20.0, measure_fixed),
    )


def measure_rows(keys: Sequence[Key], notes: Notes) -> None:
    """CPU time of a row, query by query in one JVM."""
    spark = _session()
    try:
        with tempfile.TemporaryDirectory(prefix="fog-windows-") as folder:
            data = Data(Path(folder), ROWS)
            for method in (*METHODS, *METHODS[::-1]):  # compiles Spark itself, which all share
                cpu_us_per_row(spark, data.files(17), method, 20, Path(folder))
            for key in keys:
                files = data.files(key["rows_per_slice"])
                cost = cpu_us_per_row(spark, files, key["method"], key["overlaps"], Path(folder))
                notes.add("rows", key, {"cpu_us_per_row": cost}, EACH_S["rows"])
    finally:
        spark.stop()


def measure_fixed(keys: Sequence[Key], notes: Notes) -> None:
    """CPU time of batches with hardly a row: what each stateful operator costs whatever it does."""
    spark = _session()
    try:
        with tempfile.TemporaryDirectory(prefix="fog-windows-") as folder:
            data = Data(Path(folder), rows=SLICES, batches=9)
            for method in METHODS:
                cpu_us_per_row(spark, data.files(1), method, 20, Path(folder))
            for key in keys:
                each = cpu_us_per_row(spark, data.files(1), key["method"], 20, Path(folder))
                notes.add("fixed", key, {"cpu_ms_per_batch": each * SLICES / 1000}, EACH_S["fixed"])
    finally:
        spark.stop()


def _session() -> SparkSession:
    from fogctl.runtime import local

    # State of 200,000 windows needs more heap than a stage's small one; nothing else differs.
    os.environ["_JAVA_OPTIONS"] = "-Xmx1400m"
    spark = local.session()
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    return spark


def _order() -> Iterator[tuple[int, int, str, int]]:
    """Every case in every round, the methods in turn first, the cases in another order each time."""
    for round_ in range(ROUNDS):
        cases = CASES if round_ % 2 else CASES[::-1]
        shift = (round_ // 2) * len(cases) // ROUNDS
        for place, (overlaps, rows) in enumerate((*cases[shift:], *cases[:shift])):
            for method in METHODS if (place + round_) % 2 == 0 else METHODS[::-1]:
                yield overlaps, rows, method, round_


class Data:
    """Files of rows, made once for each number of rows per slice."""

    def __init__(self, folder: Path, rows: int, batches: int = 1 + MEASURED) -> None:
        self._folder, self._rows, self._batches = folder, rows, batches

    def files(self, rows_per_slice: int) -> list[Path]:
        """A file a batch; each covers the next SLICES seconds."""
        folder = self._folder / f"{self._rows}by{rows_per_slice}"
        files = [folder / f"{number}.parquet" for number in range(self._batches)]
        if folder.exists():
            return files
        import numpy as np
        import pyarrow as pa
        from pyarrow import parquet

        folder.mkdir()
        rng = np.random.default_rng(rows_per_slice)
        keys = max(1, round(self._rows / SLICES / rows_per_slice))
        size = keys * SLICES * rows_per_slice
        for number, file in enumerate(files):
            second = np.repeat(np.arange(SLICES), keys * rows_per_slice) + number * SLICES
            micros = (1_777_593_600 + second) * 1_000_000 + np.sort(rng.integers(0, 1_000_000, size))
            key = rng.permuted(np.tile(np.arange(keys), SLICES * rows_per_slice).reshape(SLICES, -1), axis=1)
            table = pa.table(
                {
                    "key": pa.array([f"sensor-{each}" for each in range(keys)]).take(pa.array(key.ravel())),
                    "time": pa.array(micros, pa.timestamp("us", "UTC")),
                    "value": rng.normal(20.0, 5.0, size),
                }
            )
            parquet.write_table(table, file)
        return files


def cpu_us_per_row(spark: SparkSession, files: list[Path], method: str, overlaps: int, folder: Path) -> float:
    """CPU time of a query's batches after the first, for each of their rows."""
    import pyarrow.parquet as parquet

    place = Path(tempfile.mkdtemp(dir=folder))
    source = place / "in"
    source.mkdir()
    os.link(files[0], source / files[0].name)
    rows = (
        spark.readStream.schema("key STRING, time TIMESTAMP, value DOUBLE")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(source))
        .withWatermark("time", "2 seconds")
    )
    aggregates = {"mean": windows.Aggregate("mean", "value"), "count": windows.Aggregate("count")}
    hop = windows.Hop(overlaps, 1)
    result = windows.METHOD[method](rows, "time", ["key"], hop, aggregates)
    query = (
        result.writeStream.format("noop")
        .outputMode("append")
        .option("checkpointLocation", str(place / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
        jvm: Any = spark._jvm
        pid = int(jvm.java.lang.ProcessHandle.current().pid())
        jvm.java.lang.System.gc()
        costs: list[float] = []
        for file in files[1:]:
            before = _cpu_s(pid)
            os.link(file, source / file.name)
            query.processAllAvailable()
            rows_in = int(parquet.read_metadata(file).num_rows)
            costs.append((_cpu_s(pid) - before) / rows_in)
    finally:
        query.stop()
        shutil.rmtree(place, ignore_errors=True)
    return 1e6 * statistics.mean(costs)


def _cpu_s(pid: int) -> float:
    """CPU time of all threads of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Line:
    """One case of the table."""

    overlaps: int
    rows_per_slice: int
    native_rows_per_cpu_s: float
    sliced_rows_per_cpu_s: float
    auto: str
    auto_loses: float
    target: float | None

    @property
    def ratio(self) -> float:
        """How many times faster sliced is."""
        return self.sliced_rows_per_cpu_s / self.native_rows_per_cpu_s

    @property
    def met(self) -> bool:
        """Whether the targets are met."""
        return self.auto_loses <= MOST_LOST and self.ratio >= (self.target or 0.0)

    def __str__(self) -> str:
        target = f" (target {self.target:g})" if self.target else ""
        rates = f"{self.native_rows_per_cpu_s:,.0f} | {self.sliced_rows_per_cpu_s:,.0f}"
        chosen = f"{self.auto} | {self.auto_loses:.1%}"
        return f"| {self.overlaps} | {self.rows_per_slice} | {rates} | {self.ratio:.2f}{target} | {chosen} |"


def lines(costs: dict[tuple[int, int, str], float]) -> Iterator[Line]:
    """Every case that both methods were measured in."""
    for overlaps, rows in CASES:
        native, sliced = (costs.get((overlaps, rows, method)) for method in METHODS)
        if native is None or sliced is None:
            continue
        chosen = windows.choose(windows.Hop(overlaps, 1), rows, rows_per_batch=ROWS)
        lost = {"native": native, "sliced": sliced}[chosen] / min(native, sliced) - 1
        target = TARGETS.get((overlaps, rows))
        yield Line(overlaps, rows, 1e6 / native, 1e6 / sliced, chosen, lost, target)


def growth(cases: Sequence[Line], method: str) -> tuple[float, float] | None:
    """How many times more a row costs at the most overlaps than at the fewest: least and most over the rows a
    slice has; None if nothing was measured at both."""
    cost = {
        (line.overlaps, line.rows_per_slice): 1 / getattr(line, f"{method}_rows_per_cpu_s") for line in cases
    }
    few, many = min(OVERLAPS), max(OVERLAPS)
    grown = [cost[many, rows] / cost[few, rows] for rows in ROWS_PER_SLICE
             if (few, rows) in cost and (many, rows) in cost]  # fmt: skip
    return (min(grown), max(grown)) if grown else None


def report(measured: Sequence[campaign.Line]) -> str:
    """The table as Markdown, what each batch costs besides, and what is not measured yet."""
    rows = [line for line in measured if line["part"] == "rows"]
    heads = "| overlaps | rows per slice and key | native rows/CPU s | sliced | × | auto | auto loses |"
    text = [heads, "|---|---|---|---|---|---|---|", *(str(line) for line in found(measured))]
    lacking = len(CASES) * len(METHODS) * ROUNDS - len(rows)
    text += ["", f"Rounds: {ROUNDS}, the median counts."]
    text += [f"{lacking} of {lacking + len(rows)} queries: {MISSING}."] if lacking else []
    for method in METHODS:
        if (span := growth(found(measured), method)) is not None:
            text.append(
                f"From {min(OVERLAPS)} to {max(OVERLAPS)} overlaps a row's CPU time grows {span[0]:.1f}- to "
                f"{span[1]:.1f}-fold, {method}."
            )
        costs = [line["cpu_ms_per_batch"] for line in measured
                 if line["part"] == "fixed" and line["method"] == method]  # fmt: skip
        said = f"{statistics.median(costs):.0f} ms of CPU" if costs else MISSING
        text.append(f"A batch with hardly a row, {method}: {said}.")
    return "\n".join(text) + "\n"


def found(measured: Sequence[campaign.Line]) -> list[Line]:
    """The cases of the table."""
    return list(lines(medians(_queries([line for line in measured if line["part"] == "rows"]))))


def missed(measured: Sequence[campaign.Line]) -> list[str]:
    """Cases that miss a target."""
    return [
        f"{line.overlaps} overlaps, {line.rows_per_slice} rows" for line in found(measured) if not line.met
    ]


def medians(measured: Sequence[Measured]) -> dict[tuple[int, int, str], float]:
    """The median over the rounds of each case and method."""
    found: dict[tuple[int, int, str], list[float]] = {}
    for m in measured:
        found.setdefault((m.overlaps, m.rows_per_slice, m.method), []).append(m.cpu_us_per_row)
    return {case: statistics.median(costs) for case, costs in found.items()}


def draw(measured: Sequence[campaign.Line], file: Path) -> None:
    """CPU a row over the overlaps: what demand does, with both methods."""
    from matplotlib.figure import Figure

    from fogctl.planner.picture import save

    costs = medians(_queries([line for line in measured if line["part"] == "rows"]))
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.subplots()
    shades = {2: "#9ecae1", 17: "#4292c6", 200: "#08306b"}
    for rows, method in product(shades, METHODS):
        points = [(o, costs[o, rows, method]) for o in OVERLAPS if (o, rows, method) in costs]
        if points:
            style = "--" if method == "native" else "-"
            axes.plot(*zip(*points, strict=True), style, color=shades[rows], marker="o", markersize=3,
                      label=f"{method}, {rows} rows per slice and key")  # fmt: skip
    axes.set_xlabel("overlaps (window size / slide)")
    axes.set_ylabel("CPU time of a row (µs)")
    axes.set_ylim(bottom=0)
    axes.set_title("What a row costs as windows overlap more", loc="left", fontsize=10)
    axes.legend(fontsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    save(figure, file)


def _queries(rows: Sequence[campaign.Line]) -> list[Measured]:
    return [Measured(**{field.name: line[field.name] for field in fields(Measured)}) for line in rows]


CAMPAIGN = Campaign(
    name="windows",
    about="CPU time of a row over the overlaps",
    names=tuple(EACH_S),
    parts=lambda _: parts(),
    asked=lambda _: {"campaign": "windows", "version": 2, "rows": ROWS, "slices": SLICES},
    report=report,
    data=lambda measured: [{**asdict(line), "ratio": line.ratio} for line in found(measured)],
    draw=draw,
    missed=missed,
    emulates=False,
)
main = CAMPAIGN.main

if __name__ == "__main__":
    sys.exit(exit_code(main))
