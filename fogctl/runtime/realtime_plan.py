"""Reads from a DataFrame's plan what real-time mode must know: Python parts, foreign operators, shuffles.

The plan is looked at, never run: a streaming DataFrame that has not started will do, and so will a static one
with the columns of the stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from fogctl.runtime.realtime import PlanFacts

_PYTHON_NODES = {
    "MapInPandas": "mapInPandas",
    "MapInArrow": "mapInArrow",
    "PythonMapInArrow": "mapInArrow",
    "FlatMapGroupsInPandas": "applyInPandas",
    "FlatMapGroupsInArrow": "applyInArrow",
    "FlatMapCoGroupsInPandas": "applyInPandas of a cogroup",
    "FlatMapCoGroupsInArrow": "applyInArrow of a cogroup",
    "FlatMapGroupsInPandasWithState": "applyInPandasWithState",
    "TransformWithStateInPySpark": "transformWithState in Python",
}
_PYTHON_WORDS = ("Python", "PySpark", "Pandas", "InArrow")
# The logical operators behind Spark 4.3's list of physical ones (RealTimeModeAllowlist).
_STATELESS = {
    *("Project", "Filter", "Expand", "Generate", "Union", "SubqueryAlias", "View", "EventTimeWatermark"),
    *("UpdateEventTimeWatermarkColumn", "CollectMetrics", "ResolvedHint", "UnresolvedHint", "TypedFilter"),
    *("MapElements", "MapPartitions", "AppendColumns", "DeserializeToObject", "SerializeFromObject"),
    *(
        "LocalRelation",
        "LogicalRDD",
        "LogicalRelation",
        "LogicalRelationWithTable",
        "Range",
        "OneRowRelation",
    ),
    *("StreamingRelation", "StreamingRelationV2", "StreamingExecutionRelation", "DataSourceV2Relation"),
}
_SHUFFLING = {"Aggregate", "Distinct", "Deduplicate", "TransformWithState"}
_WORDS = {
    "Sort": "orderBy",
    "DeduplicateWithinWatermark": "dropDuplicatesWithinWatermark",
    "FlatMapGroupsWithState": "flatMapGroupsWithState",
    "GlobalLimit": "limit",
    "LocalLimit": "limit",
    "Window": "window functions over rows",
}


def facts(result: DataFrame) -> PlanFacts:
    """What the query of `result` consists of."""
    plan = result._jdf.queryExecution().analyzed()
    default_tasks = int(result.sparkSession.conf.get("spark.sql.shuffle.partitions") or 200)
    python: dict[str, None] = {}
    unsupported: dict[str, None] = {}
    shuffles: list[int] = []
    for node in _tree(plan):
        name = _class(node)
        if name in _PYTHON_NODES or any(word in name for word in _PYTHON_WORDS):
            python[_PYTHON_NODES.get(name, name)] = None
            continue
        expressions = [inner for top in _items(node.expressions()) for inner in _tree(top)]
        names = {_class(expression) for expression in expressions}
        for expression in expressions:
            if _class(expression) in ("PythonUDF", "PythonUDAF"):
                python[f"the UDF {expression.name()}"] = None
        if name in ("Repartition", "RepartitionByExpression", "RebalancePartitions"):
            _count_repartition(node, name, names, shuffles, unsupported, default_tasks)
        elif name == "Join":
            if node.left().isStreaming() and node.right().isStreaming():
                unsupported["join of two streams"] = None
        elif "SessionWindow" in names:
            unsupported["session windows"] = None
        elif name in _SHUFFLING:
            shuffles.append(default_tasks)
        elif name not in _STATELESS:
            unsupported[_WORDS.get(name, name)] = None
    return PlanFacts(tuple(python), tuple(unsupported), tuple(shuffles))


def _count_repartition(
    node: Any,
    name: str,
    expressions: set[str],
    shuffles: list[int],
    unsupported: dict[str, None],
    default_tasks: int,
) -> None:
    if name == "Repartition" and not node.shuffle():
        unsupported["coalesce"] = None
    elif "SortOrder" in expressions:
        unsupported["repartitionByRange"] = None
    elif name == "Repartition":
        shuffles.append(int(node.numPartitions()))
    else:
        asked = node.optNumPartitions()
        shuffles.append(int(asked.get()) if asked.isDefined() else default_tasks)


def _class(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _items(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(place) for place in range(sequence.size()))


def _tree(root: Any) -> Iterator[Any]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(list(_items(node.children())))
