"""Runs one stage of an app on a few records, in a Spark of this process: for tests, without Kafka."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from fogctl.errors import FogError
from fogctl.java import require_java
from fogctl.runtime.app import App, load
from fogctl.runtime.spark import CHECKPOINTS_BY_RENAME
from fogctl.runtime.stage_query import load_function

COLUMNS = "key STRING, value STRING, timestamp TIMESTAMP"
"""What a stage's function gets of each input."""

Record = str | None | tuple[str | None, str | None] | tuple[str | None, str | None, datetime]
"""A value; or key and value; or key, value and the time it arrived."""

_ARRIVAL = datetime(2026, 1, 1, tzinfo=UTC)


def session() -> SparkSession:
    """A Spark inside this process, with one slot and settings like those of a stage; the same each time."""
    java = require_java()
    os.environ.setdefault("JAVA_HOME", str(java.home))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {
        "spark.master": "local[1]",
        "spark.app.name": "fogctl-local",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINTS_BY_RENAME,
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def records(spark: SparkSession, given: Iterable[Record]) -> DataFrame:
    """Records as a stage's function gets them; those without a key are numbered from 1."""
    rows = []
    for number, record in enumerate(given, start=1):
        fields = record if isinstance(record, tuple) else (str(number), record)
        rows.append((fields[0], fields[1], fields[2] if len(fields) == 3 else _ARRIVAL))
    return spark.createDataFrame(rows, COLUMNS)


def run_stage(
    app: App | Path | str, stage: str, *inputs: Iterable[Record], options: Mapping[str, str] | None = None
) -> list[tuple[str, str]]:
    """Key and value of all that a stage makes of its inputs, if they are all there is.

    Its options are those of app.yaml, with `options` on top.
    """
    app = app if isinstance(app, App) else load(app)
    wanted = app.stage(stage)
    if len(inputs) != len(wanted.inputs):
        raise FogError(
            f"stage {stage} reads {', '.join(wanted.inputs)}: give records for each, in that order"
        )
    spark = session()
    function = load_function(app.code, wanted.function)
    result = function(
        *(records(spark, given) for given in inputs), {**dict(wanted.options), **(options or {})}
    )
    return [(row["key"], row["value"]) for row in result.select("key", "value").collect()]
