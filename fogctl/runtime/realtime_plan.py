"""Reads from a DataFrame's plan what real-time mode must know: Python parts, foreign operators, shuffles.

The plan is looked at, never run: a streaming DataFrame that has not started will do, and so will a static one
with the columns of the stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark import SparkContext
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
_STATEFUL = {"Aggregate", "Distinct", "Deduplicate", "DeduplicateWithinWatermark", "GlobalLimit"}
_REPARTITIONING = {"Repartition", "RepartitionByExpression", "RebalancePartitions"}
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
        python.update(dict.fromkeys(f"the UDF {udf}" for udf in _python_functions(node)))
        if name in _REPARTITIONING:
            _count_repartition(node, name, shuffles, unsupported, default_tasks)
        elif name == "Join":
            if node.left().isStreaming() and node.right().isStreaming():
                unsupported["join of two streams"] = None
        elif name == "Aggregate" and _over_sessions(node):
            unsupported["session windows"] = None
        elif name in _SHUFFLING:
            shuffles.append(default_tasks)
        elif name not in _STATELESS:
            unsupported[_WORDS.get(name, name)] = None
    return PlanFacts(tuple(python), tuple(unsupported), tuple(shuffles))


def stateful(result: DataFrame) -> set[str]:
    """The operators in the query of `result` that keep state from batch to batch."""
    found = set()
    for node in _tree(result._jdf.queryExecution().analyzed()):
        name = _class(node)
        if name == "Join" and node.left().isStreaming() and node.right().isStreaming():
            found.add("join of two streams")
        elif name in _STATEFUL or "WithState" in name:
            found.add(_WORDS.get(name, name))
    return found


def _python_functions(node: Any) -> list[str]:
    """Names of the Python functions in the expressions of this node."""
    # Each look at an expression is a call into the JVM: ask the node first whether there is any in its tree.
    wanted = SparkContext._jvm.org.apache.spark.sql.catalyst.trees.TreePattern.PYTHON_UDF()  # type: ignore[union-attr]
    if not node.containsPattern(wanted):
        return []
    expressions = (inner for top in _items(node.expressions()) for inner in _tree(top))
    return [str(found.name()) for found in expressions if _class(found) in ("PythonUDF", "PythonUDAF")]


def _over_sessions(aggregate: Any) -> bool:
    """Whether rows are grouped by session windows, which the analyzer turns into marked columns."""
    columns = (inner for top in _items(aggregate.groupingExpressions()) for inner in _tree(top))
    return any(
        _class(column) in ("AttributeReference", "Alias")
        and column.metadata().contains("spark.sessionWindow")
        for column in columns
    )


def _count_repartition(
    node: Any, name: str, shuffles: list[int], unsupported: dict[str, None], default_tasks: int
) -> None:
    if name == "Repartition":
        if node.shuffle():
            shuffles.append(int(node.numPartitions()))
        else:
            unsupported["coalesce"] = None
    elif any(_class(column) == "SortOrder" for column in _items(node.partitionExpressions())):
        unsupported["repartitionByRange"] = None
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
