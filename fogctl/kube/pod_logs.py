"""What the pods of an app said, asked of the API server."""

from __future__ import annotations

from collections.abc import Callable

from fogctl.kube import names
from fogctl.kube.access import Manifest
from fogctl.kube.app_objects import DRIVER_ROLE, ROLE
from fogctl.kube.objects import Objects, Ref
from fogctl.runtime.ground import Log


def pod_logs(objects: Objects, testbed: str, app: str) -> dict[str, Log]:
    """By part, as on other testbeds; of several executors that were on a node, the newest has its name."""
    selector = f"{names.selector(testbed)},{names.APP}={names.label_value(app)},{ROLE}"
    found: dict[str, Log] = {}
    pods = objects.list("Pod", names.namespace(testbed), selector)
    for pod in sorted(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"])):
        name = pod["metadata"]["name"]
        found[part_of(pod)] = Log(f"pod {name}", None, _tail(objects, name, names.namespace(testbed)))
    return dict(sorted(found.items()))


def part_of(pod: Manifest) -> str:
    """nearest.driver, nearest.executor.pi1; an executor that waits for a node has its pod's name. Pure."""
    labels = pod["metadata"]["labels"]
    stage = labels[names.STAGE]
    if labels[ROLE] == DRIVER_ROLE:
        return f"{stage}.driver"
    return f"{stage}.executor.{pod['spec'].get('nodeName') or pod['metadata']['name']}"


def _tail(objects: Objects, pod: str, namespace: str) -> Callable[[int], list[str]]:
    def tail(lines: int) -> list[str]:
        path = f"{Ref('Pod', pod, namespace).path}/log"
        with objects.access.sentences(f"reading what {pod} said"):
            answer = objects.access.raw(
                "GET", path, query={"tailLines": str(lines)}, headers={"Accept": "*/*"}
            )
            text = bytes(answer.read()).decode(errors="replace")
        return text.splitlines()

    return tail
