"""Warming up executors: a new one loads its classes while its node's CPU is not limited yet.

Left to its first batch, that work would be done at a tenth of a core and hold everybody up for half a minute.
A warm-up writes a few made-up records to a topic of its own and runs the stage's function over them, from
topic to topic as over real ones, except that nothing comes out.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from fogctl.runtime import realtime_plan
from fogctl.runtime.stage_query import Spec, StageFunction

_ROUNDS = 2
_ROWS_PER_TASK = 20
# Each task lasts long enough for the next one to go to another executor.
_PAUSE_MS = 150


def run(session: SparkSession, spec: Spec, function: StageFunction, tasks: int) -> None:
    """Have every executor write to the warm-up's topic, and read it through the stage's function.

    ValueError for a function with Python parts: if those raise on made-up records, their tasks may stay in
    their slots for ever.
    """
    inputs, options = len(spec.input_topics), spec.stage["options"]
    sink = {**spec.sink_options, "topic": spec.warm_up_topic}
    if python := realtime_plan.facts(function(*([made_up(session, tasks)] * inputs), options)).python:
        raise ValueError(f"the function uses {', '.join(python)}")
    made_up(session, tasks).select("key", "value").write.format("kafka").options(**sink).save()
    for _ in range(_ROUNDS):
        result = function(*([read_back(session, spec)] * inputs), options)
        # Spark does not know that no text is shorter than nothing, so it computes every row to find out.
        rows = result.select(f.col("key").cast("string"), f.col("value").cast("string"))
        rows.where(f.length("value") < 0).write.format("kafka").options(**sink).save()


def read_back(session: SparkSession, spec: Spec) -> DataFrame:
    """The records of the warm-up's topic, as a stage gets its own."""
    raw = session.read.format("kafka").options(**spec.source_options, subscribe=spec.warm_up_topic).load()
    return raw.select(f.col("key").cast("string"), f.col("value").cast("string"), f.col("timestamp"))


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
    driver = session.sparkContext.getConf().get("spark.driver.host")
    known = session.sparkContext._jsc.sc().statusStore().executorList(True)
    found = [known.apply(number) for number in range(known.size())]
    nodes = [(each.hostPort().rpartition(":")[0], each.completedTasks()) for each in found]
    return {node: done for node, done in nodes if node != driver}
