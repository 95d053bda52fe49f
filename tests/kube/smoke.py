"""Runs inside the image: what a stage uses of it. Prints one JSON object; whatever is missing raises."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import fogapps.windows
import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.types import LongType

import fogctl.runtime.stage_runner
from fogctl.runtime import jars


def writable(folder: str) -> bool:
    """Whether a file can be made there."""
    try:
        Path(folder, "probe").write_text("")
    except OSError:
        return False
    return True


@f.udf(LongType())
def doubled(value: int) -> int:
    """A Python function on executors."""
    return 2 * value


@pandas_udf(LongType())  # type: ignore[untyped-decorator, call-overload]
def tripled(values: pd.Series) -> pd.Series:
    """The same through Arrow."""
    return 3 * values


began = time.monotonic()
connector = ":".join(map(str, jars.class_path(jars.CONNECTOR)))
session = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.extraClassPath", connector)
    .config("spark.sql.shuffle.partitions", "1")
    .config(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    )
    .getOrCreate()
)
started_s = time.monotonic() - began
kafka = (
    session.readStream.format("kafka")
    .option("kafka.bootstrap.servers", "127.0.0.1:1")
    .option("subscribe", "t")
)
rates = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 40).load()
counted = rates.select(doubled("value").alias("d"), tripled("value").alias("t")).groupBy(
    (f.col("d") % 4).alias("k")
)
query = (
    counted.agg(f.count("*").alias("n"), f.sum("t").alias("t"))
    .writeStream.format("memory")
    .queryName("seen")
    .outputMode("complete")
    .option("checkpointLocation", "/tmp/checkpoint")
    .trigger(processingTime="0 seconds")
    .start()
)
deadline = time.monotonic() + 500
while time.monotonic() < deadline and query.exception() is None and len(query.recentProgress) < 2:
    time.sleep(0.2)
failure = query.exception()
query.stop()
if failure is not None:
    raise failure
jvm = session._jvm
assert jvm is not None
kubernetes = jvm.java.lang.Class.forName("org.apache.spark.scheduler.cluster.k8s.KubernetesClusterManager")
client = (
    jvm.java.lang.Class.forName("io.fabric8.kubernetes.client.KubernetesClientBuilder").newInstance().build()
)
print(
    json.dumps(
        {
            "uid": os.getuid(),
            "writable": [
                folder
                for folder in ("/", "/work", "/opt/fogctl", "/etc", "/tmp", "/var/tmp")
                if writable(folder)
            ],
            "capabilities": next(
                line.split()[1]
                for line in Path("/proc/self/status").read_text().splitlines()
                if line.startswith("CapEff")
            ),
            "java": jvm.java.lang.System.getProperty("java.version"),
            "machine": os.uname().machine,
            "spark": session.version,
            "started_s": round(started_s, 1),
            "kafka": kafka.load().columns[:2],
            "kinds": [row["k"] for row in session.sql("select k from seen order by k").collect()],
            "kubernetes": kubernetes.getSimpleName(),
            "client": client.getClass().getSimpleName(),
            "stage_runner": fogctl.runtime.stage_runner.__name__,
            "apps": fogapps.windows.__name__,
        }
    )
)
