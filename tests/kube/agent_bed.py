"""What tests of the agent share: a testbed that is up on played nodes, and an app on record there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from fogctl.kube import names, stage_objects
from fogctl.kube.app_objects import EXECUTOR_ROLE, StageRef
from fogctl.kube.background import stop_all
from fogctl.kube.executors import CONTAINER
from fogctl.kube.objects import Objects
from fogctl.kube.running import KubeRunning
from fogctl.runtime import app as apps
from fogctl.runtime import app_copy, deployment, events, fault_record
from tests.kube.cluster_bed import Bed
from tests.kube.control_plane import ControlPlane
from tests.kube.fake_nodes import FakeNodes
from tests.kube.pods import IMAGE

NODES = ("cloud", "hub", "pi1", "pi2")
APP, STAGE = "identity", "copy"


@contextmanager
def brought_up(plane: ControlPlane, nodes: FakeNodes, folder: Path) -> Iterator[Bed]:
    """A testbed for all tests of a file: bringing one up takes a while."""
    nodes.add(NODES)
    try:
        bed = Bed(plane, folder, NODES)
        bed.fogctl("up")
        try:
            yield bed
        finally:
            bed.cluster.down()
    finally:
        nodes.remove(NODES)


@contextmanager
def fresh(bed: Bed, *, deployed: bool = True) -> Iterator[Bed]:
    """The testbed for one test: nothing told yet, the app on record or not; afterwards it is as before."""
    (bed.state.folder / events.FILE).unlink(missing_ok=True)
    if deployed:
        record(bed, ["pi1"])
    try:
        yield bed
    finally:
        if bed.state.exists:
            stop_all(bed.state.folder)
            if fault_record.read(bed.state.folder):
                bed.fogctl("fault", "restore")
            app = bed.state.folder / "apps" / APP / "deployment.json"
            app.unlink(missing_ok=True)
            bed.plane.kubectl("delete", "pod", "-l", "spark-role", "-n", bed.space, "--force")


def record(bed: Bed, nodes: list[str]) -> None:
    """Have the app on record as if it had been deployed: no driver answers where nothing really runs."""
    app = apps.load(APP)
    folder = bed.state.folder / "apps" / APP
    copy = app_copy.keep(app, folder)
    placed = replace(deployment.place(app, {STAGE: nodes}, []), app_file=str(copy.file))
    (folder / "deployment.json").write_text(json.dumps(deployment.to_json(placed)))
    objects = Objects(KubeRunning.load(bed.name, bed.state_dir).access)
    for node in nodes:
        stage_objects.label(objects, StageRef(bed.name, APP, STAGE), node)


def executor(bed: Bed, name: str, node: str, cpu: str | None = None) -> None:
    """A pod with the labels of an executor, on a played node."""
    limited = {} if cpu is None else {"resources": {"limits": {"cpu": cpu}, "requests": {"cpu": "10m"}}}
    labels = {**names.labels(bed.name), **StageRef(bed.name, APP, STAGE).role_labels(EXECUTOR_ROLE)}
    bed.plane.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": bed.space, "labels": labels},
            "spec": {"nodeName": node, "containers": [{"name": CONTAINER, "image": IMAGE, **limited}]},
        }
    )
    bed.plane.kubectl("wait", "pod", name, "-n", bed.space, "--for=condition=Ready", "--timeout=120s")


def told(bed: Bed, *whats: str) -> list[dict[str, Any]]:
    """The events of these kinds."""
    return [event for event in events.read(bed.state.folder) if event["what"] in whats]
