"""Inside a driver's pod: how many executors Spark shall have, which one leaves, and what CPU each may use.

The numbers are written down where the checkpoint is: a driver that starts again asks for as many as before,
and an executor that Spark starts in place of a lost one gets the limit of that one as soon as it is warm.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from fogctl.kube import in_cluster
from fogctl.kube.app_objects import EXECUTOR_ID
from fogctl.kube.limit_patch import resize_body
from fogctl.runtime import realtime_plan
from fogctl.runtime.executor_list import LiveExecutor, live_executors

_LOOK_EVERY_S = 2.0
STRATEGIC = "application/strategic-merge-patch+json"


@dataclass(slots=True)
class Kept:
    """What is asked of a stage's executors, in a file."""

    file: Path
    executors: int = 0
    limits: dict[str, str] = field(default_factory=dict)
    """CPU by node, as Kubernetes writes it."""

    @classmethod
    def read(cls, file: Path, executors: int) -> Kept:
        """What was written last; the number that is given, if nothing was."""
        try:
            data = json.loads(file.read_text())
            return cls(file, int(data["executors"]), dict(data["limits"]))
        except (OSError, ValueError, KeyError, TypeError):
            return cls(file, executors)

    def write(self) -> None:
        """In one piece."""
        fresh = self.file.with_suffix(".new")
        fresh.write_text(json.dumps({"executors": self.executors, "limits": self.limits}))
        fresh.replace(self.file)


class Allocation:
    """Satisfies `fogctl.runtime.stage_runner.Extra`."""

    def __init__(self, kept: Kept, namespace: str, selector: str, *, shared_state: bool) -> None:
        self._kept = kept
        self._namespace, self._selector = namespace, selector
        self._shared_state = shared_state
        self._session: SparkSession | None = None
        self._lock = threading.Lock()
        self._limited: dict[str, str] = {}
        self.warm: Callable[[str], bool] = lambda _: True
        """Whether the executor on a node has done its first tasks."""

    @property
    def executors(self) -> int:
        """How many are asked for."""
        return self._kept.executors

    def started(self, session: SparkSession) -> None:
        """Ask for as many executors as there should be, and begin to watch over them."""
        self._session = session
        self._request(self._kept.executors)
        threading.Thread(target=self._watch, name="limits", daemon=True).start()

    def check(self, result: DataFrame) -> None:
        """Refuse a query with state if executors have no storage in common: each node would keep its own."""
        if self._shared_state:
            return
        if found := sorted(realtime_plan.stateful(result)):
            raise ValueError(
                f"the query keeps state ({', '.join(found)}), and the nodes have no storage in common (give "
                "kube: a storage_class that many nodes can write, with shared_storage: true)"
            )

    def answer(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """Requests about executors."""
        match request.get("ask"):
            case "executors":
                return {"executors": self._listed(), "wanted": self._kept.executors}
            case "scale":
                return self._scale(int(request["executors"]))
            case "decommission":
                return self._decommission(str(request["node"]), int(request["executors"]))
            case "limit":
                return self._limit(str(request["node"]), request["cpu"])
        return None

    def _live(self) -> list[LiveExecutor]:
        return [] if self._session is None else live_executors(self._session.sparkContext)

    def _listed(self) -> list[dict[str, Any]]:
        return [{"node": each.node, "tasks": each.active_tasks, "id": each.id} for each in self._live()]

    def _scale(self, executors: int) -> dict[str, Any]:
        with self._lock:
            self._kept.executors = executors
            self._kept.write()
        self._request(executors)
        return {"ok": True, "wanted": executors}

    def _request(self, executors: int) -> None:
        if self._session is not None:
            context: Any = self._session.sparkContext
            nowhere_special = context._jvm.PythonUtils.toScalaMap({})
            context._jsc.sc().requestTotalExecutors(executors, 0, nowhere_special)

    def _decommission(self, node: str, executors: int) -> dict[str, Any]:
        """Have the executor on a node finish its tasks and end; so many are asked for from then on."""
        # First fewer are asked for, or Spark would start another at once.
        self._scale(executors)
        with self._lock:
            self._kept.limits.pop(node, None)
            self._kept.write()
        leaving = [each.id for each in self._live() if each.node == node]
        if leaving and self._session is not None:
            context: Any = self._session.sparkContext
            jvm = context._jvm
            backend = context._jsc.sc().schedulerBackend()
            for each in leaving:
                why = jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo(
                    "scaled in", jvm.scala.Option.empty()
                )
                backend.decommissionExecutor(each, why, False, False)
        return {"ok": True, "leaving": leaving}

    def _limit(self, node: str, cpu: str | None) -> dict[str, Any]:
        """What the executor on a node may use, also one that comes in its place; whoever asks sets it."""
        with self._lock:
            if cpu is None:
                self._kept.limits.pop(node, None)
            else:
                self._kept.limits[node] = cpu
                self._limited.update({each.id: cpu for each in self._live() if each.node == node})
            self._kept.write()
        return {"ok": True}

    def _watch(self) -> None:
        """Limit executors that Spark started in place of others."""
        pause = threading.Event()
        while not pause.wait(_LOOK_EVERY_S):
            try:
                for each in self._live():
                    wanted = self._kept.limits.get(each.node)
                    if wanted is not None and self._limited.get(each.id) != wanted and self.warm(each.node):
                        self._resize(each.id, wanted)
                        self._limited[each.id] = wanted
            except Exception as error:  # a session that ends, an API server that restarts
                print(f"limits: {type(error).__name__}: {error}", file=sys.stderr, flush=True)

    def _resize(self, executor: str, cpu: str) -> None:
        space = f"/api/v1/namespaces/{self._namespace}/pods"
        query = {"labelSelector": f"{self._selector},{EXECUTOR_ID}={executor}"}
        for pod in in_cluster.request("GET", space, query=query)["items"]:
            body = resize_body(pod["spec"]["containers"][0]["name"], cpu)
            name = pod["metadata"]["name"]
            try:
                in_cluster.request("PATCH", f"{space}/{name}/resize", body, content_type=STRATEGIC)
            except FileNotFoundError:  # the pod has gone, or the cluster is too old for this
                print(f"limits: {name} was not given {cpu} of CPU: it cannot be resized", file=sys.stderr)


def remove_leftovers(namespace: str, selector: str) -> None:
    """Remove the executors of an earlier driver: they end anyway, but would hold their nodes until then."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    in_cluster.request("DELETE", path, query={"labelSelector": selector, "gracePeriodSeconds": "2"})
