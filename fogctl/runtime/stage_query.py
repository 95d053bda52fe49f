"""The query of a stage: what its runner is told, and how the app's function becomes a running query."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.streaming.query import StreamingQuery

from fogctl.metrics.stage_side import StageWatch
from fogctl.runtime import realtime_plan
from fogctl.runtime.kafka_config import KafkaConnection
from fogctl.runtime.realtime import native_problem

StageFunction = Callable[..., DataFrame]

# A task's fetch and its flush each cost a round trip however much they carry, so each carries all it can.
CONSUMER = {
    "fetch.max.wait.ms": "100",
    "max.poll.records": "5000",
    "max.partition.fetch.bytes": str(4 << 20),
    "receive.buffer.bytes": str(1 << 20),
    "request.timeout.ms": "10000",
    "default.api.timeout.ms": "15000",
}
PRODUCER = {
    "acks": "all",
    "batch.size": str(256 << 10),
    "send.buffer.bytes": str(1 << 20),
    "buffer.memory": str(16 << 20),
}
LINGER_MS = 50
"""In a micro-batch nobody waits for single records: the flush at a task's end sends the rest at once."""


@dataclass(frozen=True, slots=True)
class Spec:
    """Everything a stage runner is told."""

    app: str
    stage: dict[str, Any]
    code: str
    settings: dict[str, str]
    kafka: KafkaConnection
    input_topics: tuple[str, ...]
    output_topic: str
    warm_up_topic: str
    checkpoint: str
    socket: str
    progress: str
    watch: StageWatch
    origin: str
    """The user's own file that `code` is a copy of."""
    most_tasks: int
    """Tasks a batch is divided into at most: by default its slots if it ran on every node, since more than
    that could never run at once."""

    @property
    def real_time(self) -> bool:
        """Whether it takes records one by one instead of in batches."""
        return bool(self.stage["mode"] == "real-time")

    @property
    def source_options(self) -> dict[str, str]:
        """How Spark's connector reads from Kafka."""
        return self._for_connector({**CONSUMER, **self.stage["consumer"]})

    @property
    def sink_options(self) -> dict[str, str]:
        """How Spark's connector writes to Kafka; whoever writes with the same shares its producer."""
        linger = {"linger.ms": "0" if self.real_time else str(LINGER_MS)}
        return self._for_connector({**PRODUCER, **linger, **self.stage["producer"]})

    def _for_connector(self, client: Mapping[str, str]) -> dict[str, str]:
        return {**self.kafka.for_spark(), **{f"kafka.{key}": value for key, value in client.items()}}

    @classmethod
    def read(cls, path: Path) -> Spec:
        """The specification in a JSON file."""
        return cls.of(json.loads(path.read_text()))

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Spec:
        """The specification in plain JSON values."""
        kafka, watch = KafkaConnection.from_json(data["kafka"]), StageWatch.from_json(data["watch"])
        return cls(**{**data, "kafka": kafka, "watch": watch, "input_topics": tuple(data["input_topics"])})


def load_function(code: Path, name: str) -> StageFunction:
    """The stage's function from the app's file."""
    spec = importlib.util.spec_from_file_location(f"fogapp_{code.stem}", code)
    if spec is None or spec.loader is None:
        raise ImportError(f"{code} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    function: StageFunction | None = getattr(module, name, None)
    if function is None:
        raise AttributeError(f"{code} has no function {name}")
    return function


def source(session: SparkSession, spec: Spec, topic: str, max_rows: int) -> DataFrame:
    """A topic as a stream of key, value (text) and timestamp."""
    reader = (
        session.readStream.format("kafka")
        .options(**spec.source_options)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", "true")
    )
    if not spec.real_time:  # there a batch has no bound: Spark refuses the option
        reader = reader.option("maxOffsetsPerTrigger", max_rows)
    raw = reader.load()
    return raw.select(col("key").cast("string"), col("value").cast("string"), col("timestamp"))


def result_of(spec: Spec, inputs: list[DataFrame]) -> DataFrame:
    """What the app's function makes of its inputs: key and value, as text."""
    function = load_function(Path(spec.code), spec.stage["function"])
    options: Mapping[str, str] = spec.stage["options"]
    result = function(*inputs, options)
    which = f"the function {spec.stage['function']} of {spec.origin}"
    if not isinstance(result, DataFrame):
        raise ValueError(
            f"{which} returns {type(result).__name__}, not a DataFrame (does it end with return?)"
        )
    if lacking := {"key", "value"} - set(result.columns):
        raise ValueError(
            f"{which} returns the columns {', '.join(result.columns)}; {' and '.join(sorted(lacking))} "
            f"is missing (end with .select(…) that names both)"
        )
    return result.select(col("key").cast("string"), col("value").cast("string"))


def stream_of(session: SparkSession, spec: Spec, topics: Sequence[str], max_rows: int) -> DataFrame:
    """The stage's results out of these topics, in as many tasks as it has use for."""
    result = result_of(spec, [source(session, spec, topic, max_rows) for topic in topics])
    if not spec.real_time and spec.stage["partitions"] * len(topics) > spec.most_tasks:
        # Tasks beyond the slots would run in waves, and each wave of a far replica costs its round trips.
        result = result.coalesce(spec.most_tasks)
    return result


def start_query(
    session: SparkSession, spec: Spec, max_rows: int, check: Callable[[DataFrame], None] | None = None
) -> StreamingQuery:
    """Build the stage's query and start it from its checkpoint, unless the check refuses it."""
    if spec.real_time:
        # All its tasks run at once, and Spark starves those without a slot: as many behind a shuffle as read.
        session.conf.set("spark.sql.shuffle.partitions", str(spec.stage["partitions"]))
    result = stream_of(session, spec, spec.input_topics, max_rows)
    if check is not None:
        check(result)
    writer = (
        result.writeStream.format("kafka")
        .queryName(f"{spec.app}.{spec.stage['name']}")
        .options(**spec.sink_options)
        .option("topic", spec.output_topic)
        .option("checkpointLocation", spec.checkpoint)
        .outputMode(spec.stage["output_mode"])
    )
    if spec.real_time:
        if (problem := native_problem(realtime_plan.facts(result))) is not None:
            raise ValueError(problem)
        writer = writer.trigger(  # type: ignore[call-overload]
            realTime=f"{max(5, int(spec.stage['freshness_ms'] / 1000))} seconds"
        )
    return writer.start()
