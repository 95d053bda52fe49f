"""What the API server and a played kubelet answer to a pod's resize: done, refused, put off, impossible."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.kube.control_plane import ControlPlane, until
from tests.kube.pods import container_status, pod, resize_patch

Nodes = Callable[..., list[str]]
ANSWER = "kube.fogctl.test/resize"


@pytest.fixture
def running_pod(control_plane: ControlPlane, kwok_nodes: Nodes) -> Iterator[tuple[ControlPlane, str]]:
    kwok_nodes(["resize-1"], cpu="2")
    with control_plane.namespace() as namespace:
        control_plane.apply(pod(namespace, "a", cpu="1"))
        control_plane.kubectl("wait", "pod/a", "-n", namespace, "--for=condition=Ready", "--timeout=120s")
        yield control_plane, namespace


def test_an_accepted_resize_shows_in_the_containers_status(running_pod: tuple[ControlPlane, str]) -> None:
    plane, namespace = running_pod
    plane.kubectl("patch", "pod", "a", "-n", namespace, "--subresource", "resize", "-p", resize_patch("400m"))
    until(lambda: _limit(plane, namespace) == "400m", "the container has its new limit")
    assert container_status(plane, namespace, "a")["restartCount"] == 0


def test_a_limit_can_not_be_changed_without_the_subresource(running_pod: tuple[ControlPlane, str]) -> None:
    plane, namespace = running_pod
    assert "Forbidden" in plane.refused("patch", "pod", "a", "-n", namespace, "-p", resize_patch("400m"))


def test_more_than_the_node_has_is_refused_by_the_api_server(running_pod: tuple[ControlPlane, str]) -> None:
    plane, namespace = running_pod
    more = resize_patch("3", request="3")
    complaint = plane.refused("patch", "pod", "a", "-n", namespace, "--subresource", "resize", "-p", more)
    assert (
        "node didn't have enough allocatable resources: cpu, requested: 3000, allocatable: 2000" in complaint
    )
    assert _limit(plane, namespace) == "1"


@pytest.mark.parametrize("answer", ["deferred", "infeasible"])
def test_a_resize_put_off_leaves_the_pod_as_it_is_until_it_can_be_done(
    running_pod: tuple[ControlPlane, str], answer: str
) -> None:
    plane, namespace = running_pod
    plane.kubectl("annotate", "pod", "a", "-n", namespace, f"{ANSWER}={answer}")
    plane.kubectl("patch", "pod", "a", "-n", namespace, "--subresource", "resize", "-p", resize_patch("400m"))
    until(lambda: _pending(plane, namespace), "the kubelet says that it waits")
    assert _pending(plane, namespace)["reason"] == answer.capitalize()
    assert _limit(plane, namespace) == "1"
    plane.kubectl("annotate", "pod", "a", "-n", namespace, f"{ANSWER}-")
    until(lambda: _limit(plane, namespace) == "400m", "the container has its new limit")
    assert not _pending(plane, namespace)


def _limit(plane: ControlPlane, namespace: str) -> str | None:
    limits = container_status(plane, namespace, "a").get("resources", {}).get("limits", {})
    return str(limits["cpu"]) if "cpu" in limits else None


def _pending(plane: ControlPlane, namespace: str) -> dict[str, Any]:
    conditions = plane.read("pod", "a", "-n", namespace)["status"]["conditions"]
    return next((dict(each) for each in conditions if each["type"] == "PodResizePending"), {})
