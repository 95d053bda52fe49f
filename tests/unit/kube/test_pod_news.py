"""What became of an app's pods between two looks is told as events, and what was meant is not."""

from __future__ import annotations

from typing import Any

from fogctl.kube import names
from fogctl.kube.nodes import NodeState
from fogctl.kube.target import PodSeen, node_news, pod_news, read_pod

WANTED = {"nearest": ("pi1", "pi2")}


def executor(node: str, uid: str, **given: Any) -> PodSeen:
    return PodSeen(f"taxi-nearest-exec-{uid}", uid, "nearest", "executor", node, **given)


def driver(uid: str = "d", **given: Any) -> PodSeen:
    return PodSeen("fog-taxi-nearest-0", uid, "nearest", "driver", "cloud", **given)


def told(before: list[PodSeen], after: list[PodSeen], wanted: Any = WANTED) -> list[tuple[str, str, str]]:
    return [
        (event["what"], event["service"], event["reason"])
        for event in pod_news("taxi", before, after, wanted)
    ]


def test_nothing_is_told_while_nothing_happens() -> None:
    pods = [driver(), executor("pi1", "1"), executor("pi2", "2")]
    assert told(pods, pods) == []


def test_an_evicted_executor_is_told_with_the_clusters_own_words_once() -> None:
    why = "Evicted: The node was low on resource: memory"
    before, evicted = executor("pi1", "1"), executor("pi1", "1", over=why)
    assert told([before], [evicted]) == [("lost", "taxi.nearest.executor.pi1", why)]
    assert told([evicted], []) == []


def test_an_executor_that_is_gone_is_lost_if_it_should_be_there_and_its_successor_is_known() -> None:
    assert told([executor("pi1", "1")], []) == [("lost", "taxi.nearest.executor.pi1", "it is gone")]
    gone = executor("pi1", "1", over="it is gone")
    assert told([gone], [executor("pi1", "3")]) == [("restarted", "taxi.nearest.executor.pi1", "a new pod")]


def test_a_replica_that_was_removed_or_added_on_purpose_is_no_news() -> None:
    assert told([executor("pi2", "2")], [], {"nearest": ("pi1",)}) == []
    assert told([executor("pi1", "1")], [executor("pi1", "1"), executor("pi2", "2")]) == []


def test_a_driver_whose_container_or_pod_was_replaced_has_restarted() -> None:
    again = driver(restarts=1, ended="OOMKilled, exit code 137")
    assert told([driver()], [again]) == [("restarted", "taxi.nearest.driver", "OOMKilled, exit code 137")]
    assert told([driver()], [driver("e")]) == [
        ("lost", "taxi.nearest.driver", "it is gone"),
        ("restarted", "taxi.nearest.driver", "a new pod"),
    ]


def test_a_pod_is_read_as_the_api_server_tells_it() -> None:
    labels = {names.APP: "taxi", names.STAGE: "nearest", "spark-role": "executor"}
    manifest = {
        "metadata": {"name": "p", "uid": "u", "labels": labels},
        "spec": {"nodeName": "pi1"},
        "status": {
            "phase": "Failed",
            "reason": "Evicted",
            "message": "The node was low on resource: memory.",
            "containerStatuses": [
                {"restartCount": 2, "lastState": {"terminated": {"reason": "Error", "exitCode": 1}}}
            ],
        },
    }
    assert read_pod(manifest) == PodSeen(
        "p", "u", "nearest", "executor", "pi1", "Evicted: The node was low on resource: memory.", 2,
        "Error, exit code 1",
    )  # fmt: skip
    young = read_pod({"metadata": {"name": "p", "uid": "u", "labels": labels}, "spec": {}})
    assert (young.node, young.over, young.restarts) == ("", "", 0)


def test_a_node_that_stops_being_ready_is_told_with_the_reason_and_once() -> None:
    up = {"pi1": NodeState("pi1", True, "", False, 4.0, 1)}
    down = {"pi1": NodeState("pi1", False, "Kubelet stopped posting node status", False, 4.0, 1)}
    lost = {"what": "node not ready", "node": "pi1", "reason": "Kubelet stopped posting node status"}
    assert node_news({}, up) == []
    assert node_news({}, down) == [lost], "also when it is so from the start"
    assert node_news(up, down) == [lost]
    assert node_news(down, down) == []
    assert node_news(down, up) == [{"what": "node ready again", "node": "pi1"}]
    assert node_news(up, {}) == [{"what": "node not ready", "node": "pi1", "reason": "it left the cluster"}]
