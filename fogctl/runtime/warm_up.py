"""Warming up executors: a new one loads its classes while its node's CPU is not limited yet.

Left to its first batch, that work would be done at a tenth of a core and hold everybody up for half a minute.
A warm-up runs the stage's own function over a few made-up records, in as many tasks as there are slots, and
writes none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

_ROUNDS = 2
_ROWS_PER_TASK = 50
# Each task lasts long enough for the next one to go to another executor.
_PAUSE_MS = 150


def run(
    session: SparkSession,
    function: Callable[..., DataFrame],
    inputs: int,
    options: Mapping[str, str],
    sink: Mapping[str, str],
    tasks: int,
) -> None:
    """Run the function on every slot; `sink` are the options of the Kafka sink it really writes to."""
    for _ in range(_ROUNDS):
        records = made_up(session, tasks)
        result = function(*([records] * inputs), options)
        # Spark does not know that no text is shorter than nothing, so it computes every row to find out.
        rows = result.select(f.col("key").cast("string"), f.col("value").cast("string"))
        rows.where(f.length("value") < 0).write.format("kafka").options(**sink).save()


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
