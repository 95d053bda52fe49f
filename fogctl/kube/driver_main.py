"""Runs a stage inside its driver's pod: the same stage runner, with what only the pod knows filled in.

Run as `python -m fogctl.kube.driver_main SPEC.json`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fogctl.kube import in_cluster, names
from fogctl.kube.allocation import Allocation, Kept, remove_leftovers
from fogctl.kube.app_objects import STATE_FOLDER
from fogctl.runtime import control_http, jars
from fogctl.runtime.kafka_config import secret
from fogctl.runtime.stage_query import Spec
from fogctl.runtime.stage_runner import Runner


def completed(data: Mapping[str, Any], pod_ip: str, pod: str, api: str, connector: str) -> dict[str, Any]:
    """A specification with what only the pod knows. Pure."""
    settings = {
        **data["settings"],
        "spark.master": f"k8s://{api}",
        "spark.driver.host": pod_ip,
        "spark.driver.bindAddress": pod_ip,
        "spark.kubernetes.driver.pod.name": pod,
        "spark.driver.extraClassPath": connector,
        "spark.executor.extraClassPath": connector,
    }
    return {**data, "settings": settings, "watch": {**data["watch"], "address": pod_ip}}


def with_executors(spec: Spec, executors: int) -> Spec:
    """The specification of a driver that starts with so many executors; Spark wants one at the least."""
    return replace(spec, settings={**spec.settings, "spark.executor.instances": str(max(1, executors))})


def main(file: Path) -> int:
    """Run until told to stop; answers the exit code."""
    data = json.loads(file.read_text())
    place = data.pop("cluster")
    pod_ip, pod = os.environ["FOG_POD_IP"], os.environ["FOG_POD_NAME"]
    os.environ["SPARK_LOCAL_IP"] = pod_ip
    connector = ":".join(map(str, jars.class_path(jars.CONNECTOR)))
    spec = Spec.of(completed(data, pod_ip, pod, in_cluster.url(), connector))
    try:
        remove_leftovers(place["namespace"], place["executors_selector"])
    except OSError as error:
        print(f"executors of an earlier driver were not removed: {error}", file=sys.stderr, flush=True)
    kept = Kept.read(Path(STATE_FOLDER) / "executors.json", 0)
    allocation = Allocation(
        kept, place["namespace"], place["executors_selector"], shared_state=place["shared_state"]
    )
    runner = Runner(with_executors(spec, allocation.executors), allocation)
    allocation.warm = lambda node: bool(runner.answer({"ask": "warm", "node": node})["warm"])
    token = secret(f"{names.SECRET_FOLDER}/{names.CONTROL_TOKEN}")
    server = control_http.serve(pod_ip, place["control_port"], token, runner.answer)
    # As the first process of its container it would not be ended by a signal that nobody handles.
    signal.signal(signal.SIGTERM, lambda *_: runner.stop())
    code: list[int] = []
    worker = threading.Thread(target=lambda: code.append(runner.run()))
    worker.start()
    worker.join()
    server.shutdown()
    if runner.session is not None:
        runner.session.stop()
    return code[0] if code else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
