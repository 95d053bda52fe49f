"""What is said of a broker that does not come up."""

from __future__ import annotations

from typing import Any

import pytest

from fogctl.kube.waiting import is_ready, trouble


def pod(**status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "fog-broker-0"},
        "spec": {"containers": [{"image": "i:1"}]},
        "status": status,
    }


def waiting(reason: str, **more: Any) -> dict[str, Any]:
    return {"name": "broker", "image": "i:1", "state": {"waiting": {"reason": reason}}, **more}


@pytest.mark.parametrize(
    ("found", "said", "hopeless"),
    [
        (None, "its pod is not made yet", False),
        (pod(phase="Pending"), "its pod is pending", False),
        (pod(containerStatuses=[waiting("ErrImageNeverPull")]), "its node has not the image i:1", True),
        (pod(initContainerStatuses=[waiting("ImagePullBackOff")]), "its node has not the image i:1", True),
        (
            pod(
                containerStatuses=[
                    waiting("CrashLoopBackOff", lastState={"terminated": {"message": "no\nmemory"}})
                ]
            ),
            "broker: CrashLoopBackOff: no memory",
            True,
        ),
        (
            pod(conditions=[{"type": "PodScheduled", "status": "False", "message": "0/3 nodes"}]),
            "0/3 nodes",
            False,
        ),
    ],
)
def test_trouble_is_one_sentence(found: dict[str, Any] | None, said: str, hopeless: bool) -> None:
    text, gives_up = trouble(found)
    assert said in text
    assert "\n" not in text
    assert gives_up is hopeless


def test_ready_is_what_the_cluster_calls_ready() -> None:
    assert is_ready(pod(conditions=[{"type": "Ready", "status": "True"}]))
    assert not is_ready(pod(conditions=[{"type": "Ready", "status": "False"}]))
    assert not is_ready(pod())
