"""Warming up executors: a new one loads and compiles its code while its node's CPU is not limited yet.

Left to its first batches, that work would be done at a tenth of a core and hold everybody up for half a
minute. A warm-up writes made-up records to a topic of its own and runs the stage's query over them, a few
small batches from topic to topic. It is the same query, down to the code that Spark generates for it, so an
executor has that code ready when the first real batch comes.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from fogctl.runtime import realtime_plan
from fogctl.runtime.executor_list import live_executors
from fogctl.runtime.stage_query import Spec, result_of, stream_of

LONGEST_S = 6.0
"""Far replicas take long for a batch: they have what they need after a few."""
_BATCHES = 6
_ROWS_PER_TASK = 60
# Each task lasts long enough for the next one to go to another executor.
_PAUSE_MS = 150


def run(session: SparkSession, spec: Spec, tasks: int) -> None:
    """Have every executor write to the warm-up's topic, and read it through the stage's query.

    ValueError for a function with Python parts: if those raise on made-up records, their tasks may stay in
    their slots for ever.
    """
    inputs = len(spec.input_topics)
    sink = {**spec.sink_options, "topic": spec.warm_up_topic}
    if python := realtime_plan.facts(result_of(spec, [made_up(session, tasks)] * inputs)).python:
        raise ValueError(f"the function uses {', '.join(python)}")
    made_up(session, tasks).select("key", "value").write.format("kafka").options(**sink).save()
    rows = max(1, tasks * _ROWS_PER_TASK // _BATCHES)
    # Ends with the records that were there when it began: its own results go to the same topic.
    # A session of its own: nobody who listens to the stage's query hears of it.
    result = stream_of(session.newSession(), spec, [spec.warm_up_topic] * inputs, rows)
    with tempfile.TemporaryDirectory(prefix="warm-up-", dir=Path(spec.checkpoint).parent) as checkpoint:
        query = (
            result.writeStream.format("kafka")
            .options(**sink)
            .option("checkpointLocation", checkpoint)
            .outputMode(spec.stage["output_mode"])
            .trigger(availableNow=True)
            .start()
        )
        began = time.monotonic()
        while query.isActive and time.monotonic() - began < LONGEST_S:
            time.sleep(0.1)
        query.stop()
        if (failure := query.exception()) is not None:
            raise failure


def made_up(session: SparkSession, tasks: int) -> DataFrame:
    """Records that no app can read, spread over so many tasks."""
    rows = session.range(0, tasks * _ROWS_PER_TASK, 1, tasks)
    pause = f.expr(f"java_method('java.lang.Thread', 'sleep', {_PAUSE_MS}L)")
    first = f.col("id") % _ROWS_PER_TASK == 0
    value = f.when(first, f.concat(f.lit("warm-up "), pause)).otherwise("warm-up")
    return rows.select(
        f.col("id").cast("string").alias("key"),
        value.alias("value"),
        f.current_timestamp().alias("timestamp"),
    )


def tasks_done(session: SparkSession) -> dict[str, int]:
    """For each node with a live executor, the tasks that executor has completed."""
    return {each.node: each.completed_tasks for each in live_executors(session.sparkContext)}
