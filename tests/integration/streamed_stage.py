"""A stage's function at work in a real streaming query, without Kafka: batches of files in, rows out."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from fogctl.runtime import local
from fogctl.runtime.app import load
from fogctl.runtime.stage_query import load_function


def stream_results(
    spark: SparkSession, folder: Path, app: str, stage: str, batches: Sequence[Sequence[str]], **options: str
) -> list[tuple[str, dict[str, Any]]]:
    """What a real streaming query of the stage writes when the batches come one after the other."""
    source = folder / "in"
    source.mkdir()
    for number, batch in enumerate(batches):
        rows = [{"key": str(n), "value": value, "timestamp": "2026-05-02"} for n, value in enumerate(batch)]
        file = source / f"{number}.json"
        file.write_text("\n".join(map(json.dumps, rows)))
        os.utime(file, (number, number))
    loaded = load(app)
    wanted = loaded.stage(stage)
    stream = spark.readStream.schema(local.COLUMNS).option("maxFilesPerTrigger", 1).json(str(source))
    result = load_function(loaded.code, wanted.function)(stream, {**dict(wanted.options), **options})
    name = "_".join((app, stage, options.get("method", ""))).replace("-", "_")
    query = (
        result.writeStream.format("memory")
        .queryName(name)
        .outputMode(wanted.output_mode.value)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [(row["key"], json.loads(row["value"])) for row in spark.table(name).collect()]
