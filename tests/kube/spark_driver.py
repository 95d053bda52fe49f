"""A real Spark driver beside a control plane: its executors are pods that it asks the API server for.

Run as `python -m tests.kube.spark_driver FACTS.json`: says `ready`, then answers a JSON request a line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fogctl.java import require_java
from fogctl.kube import executors, names
from fogctl.kube.app_objects import DRIVER_ROLE, EXECUTOR_ROLE, StageRef
from fogctl.runtime.spark import Pool
from tests.kube.control_plane import ControlPlane
from tests.kube.pods import IMAGE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 240


class SparkDriver:
    """The process, as a test sees it."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process, self._log = process, log

    def ask(self, **request: Any) -> dict[str, Any]:
        """What the driver answers."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return dict(json.loads(self.line()))

    def line(self) -> str:
        """The next thing it says; its log if it says nothing more."""
        assert self._process.stdout is not None
        timer = threading.Timer(PATIENCE_S, self._process.kill)
        timer.start()
        found = self._process.stdout.readline()
        timer.cancel()
        assert found, self._log.read_text()[-4000:]
        return found


@contextmanager
def spark_driver(plane: ControlPlane, ref: StageRef, control: str, folder: Path) -> Iterator[SparkDriver]:
    """Spark as the testbed's driver account; a pod on the control node stands for it, and owns executors."""
    plane.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": ref.about(),
            "data": {"decommission.sh": executors.DECOMMISSION_SCRIPT},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": ref.driver_pod,
                "namespace": ref.namespace,
                "labels": ref.role_labels(DRIVER_ROLE),
            },
            "spec": {"nodeName": control, "containers": [{"name": "driver", "image": IMAGE}]},
        },
    )
    token = folder / "token"
    token.write_text(plane.kubectl("create", "token", names.DRIVER, "-n", ref.namespace).strip())
    (folder / "executor.json").write_text(json.dumps(executors.template(ref)))
    pool = Pool(ref.app, ref.stage, control, 0)
    settings = executors.settings(pool, ref, IMAGE, memory_bytes=256 << 20, slots=1)
    settings |= {
        "spark.master": f"k8s://{plane.url}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.port": "0",
        "spark.executor.instances": "1",
        "spark.kubernetes.driver.pod.name": ref.driver_pod,
        "spark.kubernetes.executor.podTemplateFile": str(folder / "executor.json"),
        "spark.kubernetes.authenticate.oauthTokenFile": str(token),
        "spark.kubernetes.authenticate.caCertFile": str(plane.ca_file),
    }
    facts = {
        "settings": settings,
        "kept": str(folder / "kept.json"),
        "namespace": ref.namespace,
        "selector": ref.selector(EXECUTOR_ROLE),
    }
    (folder / "facts.json").write_text(json.dumps(facts))
    log = folder / "driver.log"
    environment = {
        **os.environ,
        "JAVA_HOME": str(require_java().home),
        "HOME": str(folder),
        "PYTHONPATH": str(ROOT),
    }
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.kube.spark_driver", str(folder / "facts.json")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
        )
    driver = SparkDriver(process, log)
    try:
        assert driver.line().strip() == "ready"
        yield driver
    finally:
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()


def main(facts: dict[str, Any]) -> None:
    """The process itself."""
    from pyspark.sql import SparkSession

    from fogctl.kube.allocation import Allocation, Kept

    builder = SparkSession.builder
    for key, value in facts["settings"].items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    kept = Kept.read(Path(facts["kept"]), 1)
    allocation = Allocation(kept, facts["namespace"], facts["selector"], shared_state=False)
    allocation.started(session)
    print("ready", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        answer = _checked(session, request) if request["ask"] == "check" else allocation.answer(request)
        print(json.dumps(answer), flush=True)
    session.stop()


def _checked(session: SparkSession, request: dict[str, Any]) -> dict[str, Any]:
    """What is said against a query of that kind, on storage of that kind."""
    from fogctl.kube.allocation import Allocation, Kept

    rows = session.readStream.format("rate").load()
    queries = {
        "none": rows.select("value"),
        "counts": rows.groupBy("value").count(),
        "windows": rows.withWatermark("timestamp", "1 minute").dropDuplicates(["value", "timestamp"]),
        "join": rows.join(rows.withColumnRenamed("timestamp", "then"), "value"),
    }
    allocation = Allocation(Kept(Path("unused")), "", "", shared_state=request["shared"])
    try:
        allocation.check(queries[request["state"]])
    except ValueError as error:
        return {"said": str(error)}
    return {"said": None}


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
