"""OSPBench's aggregation pipeline: the cars that passed each measuring point over hopping windows.

A record's value is JSON as `fogapps.ospbench.flows` makes it: `{"measurement": "GEO02_PNHTI532", "lane":
"lane2", "time": "…", "flow": 7, "accuracy": 99}`; lanes of one point are added up. What is not that is left
out. The option `time: arrival` counts when a record arrived. Native expressions only.
"""

from __future__ import annotations

from collections.abc import Mapping

from fogapps.windows import Aggregate
from fogapps.windows_options import event_time, hop, iso, timely, windowed
from fogapps.work import burnt
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

_FLOW = "measurement STRING, lane STRING, time STRING, flow BIGINT"


def aggregate(flows: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """Sum of the flow of each measuring point over `window_s` (300), every `slide_s` (60)."""
    parsed = flows.select(f.from_json("value", _FLOW).alias("flow"), "timestamp")
    flow = f.col("flow")
    time = event_time(options, flow["time"].try_cast("timestamp"), f.col("timestamp"))
    rows = parsed.select(
        flow["measurement"].alias("measurement"), time.alias("time"), flow["flow"].alias("cars")
    )
    usable = (f.length("measurement") > 0) & f.col("time").isNotNull() & f.col("cars").isNotNull()
    rows = timely(rows.filter(usable & burnt(f.col("cars"), options)), options, 5.0)
    sums = {"flow": Aggregate("sum", "cars"), "records": Aggregate("count")}
    made = windowed(rows, options, ["measurement"], hop(options, 300.0, 60.0), sums)
    window = f.col("window")
    edges = (iso(window["start"]).alias("from"), iso(window["end"]).alias("to"))
    value = f.to_json(f.struct("measurement", *edges, "flow", "records"))
    return made.select(f.col("measurement").alias("key"), value.alias("value"))
