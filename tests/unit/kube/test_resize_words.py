"""What a pod's status says of a resize, and the fallback for clusters that cannot resize."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from fognetem.matrix import LatencyMatrix

from fogctl.errors import FogError
from fogctl.kube import cgroup_limit
from fogctl.kube.resize import Progress, read
from fogctl.testbed.model import Kind, Node, Role, Testbed

CONTAINER_ID = "ab" * 32


def pod(limit: str | None, *conditions: dict[str, Any], phase: str = "Running") -> dict[str, Any]:
    resources = {"limits": {"cpu": limit}} if limit else {}
    running = {"name": "executor", "resources": resources, "containerID": f"containerd://{CONTAINER_ID}"}
    return {
        "metadata": {"name": "x"},
        "status": {"phase": phase, "conditions": list(conditions), "containerStatuses": [running]},
    }


def pending(reason: str) -> dict[str, Any]:
    return {"type": "PodResizePending", "status": "True", "reason": reason, "message": "Node didn't have it."}


@pytest.mark.parametrize(
    ("found", "progress"),
    [
        (pod("400m"), Progress.done),
        (pod("0.4"), Progress.done),
        (pod("1"), Progress.asked),
        (pod(None), Progress.asked),
        (pod("1", pending("Deferred")), Progress.deferred),
        (pod("1", pending("Infeasible")), Progress.infeasible),
        (
            pod("1", {"type": "PodResizeInProgress", "status": "True", "reason": "Error", "message": "no"}),
            Progress.failed,
        ),
        (pod("400m", phase="Succeeded"), Progress.gone),
        (None, Progress.gone),
    ],
)
def test_a_pods_status_says_how_far_its_resize_is(found: dict[str, Any] | None, progress: Progress) -> None:
    assert read(found, "executor", "400m").progress is progress


@pytest.mark.parametrize("reason", ["Deferred", "Infeasible"])
def test_what_a_kubelet_said_of_an_earlier_wish_is_not_taken_for_its_answer(reason: str) -> None:
    found = pod("1", pending(reason) | {"observedGeneration": 3})
    found["metadata"]["generation"] = 3
    answer = read(found, "executor", "400m")
    assert (answer.progress, answer.dated) == (Progress(reason.lower()), True)
    found["metadata"]["generation"] = 4
    assert read(found, "executor", "400m").progress is Progress.asked
    assert read(found, "executor", "1").progress is Progress.done, "what it has is what is asked for again"
    undated = read(pod("1", pending(reason)), "executor", "400m")
    assert (undated.progress, undated.dated) == (Progress(reason.lower()), False)


def test_the_kubelets_words_are_kept_for_the_user() -> None:
    assert read(pod("1", pending("Deferred")), "executor", "400m").said == "Node didn't have it"


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [("cpu.max", "max 100000", "40000 100000"), ("cpu.cfs_quota_us", "-1", "40000")],
)
def test_without_resize_the_containers_own_control_group_is_written(
    tmp_path: Path, file: str, before: str, after: str
) -> None:
    group = tmp_path / "kubepods" / f"cri-containerd-{CONTAINER_ID}.scope"
    other = tmp_path / "kubepods" / f"cri-containerd-{'cd' * 32}.scope"
    for each in (group, other):
        each.mkdir(parents=True)
        (each / file).write_text(before)
    subprocess.run(["sh", "-c", cgroup_limit.script(CONTAINER_ID, 0.4, str(tmp_path))], check=True)
    assert (group / file).read_text().strip() == after
    assert (other / file).read_text() == before


def test_a_container_that_is_not_there_is_no_success(tmp_path: Path) -> None:
    done = subprocess.run(["sh", "-c", cgroup_limit.script(CONTAINER_ID, 0.4, str(tmp_path))], check=False)
    assert done.returncode != 0


def test_a_cluster_that_is_too_old_and_hosts_nobody_knows_are_one_sentence() -> None:
    nodes = (Node("pi1", Role.edge, "field", "rpi4-2g", None, None),)
    bed = Testbed("lab", Kind.k3s, nodes, LatencyMatrix(("pi1",)))
    with pytest.raises(FogError, match="the cluster is too old to change the CPU of the replica of x on pi1"):
        cgroup_limit.set_limit(bed, "pi1", pod("1"), "executor", 0.4, "the replica of x on pi1")
