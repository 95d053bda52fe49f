"""Waiting for the broker of a testbed, and what to say when it does not come."""

from __future__ import annotations

import time
from collections.abc import Callable

from fogctl.errors import FAILED, FogError
from fogctl.kube import names
from fogctl.kube.access import Manifest
from fogctl.kube.objects import Objects, Ref
from fogctl.runtime.broker import broker_node
from fogctl.testbed.model import Testbed

BROKER_PATIENCE_S = 240.0
HOPELESS_AFTER_S = 20.0
"""How long a reason that does not mend itself may stand: a first try may come before the volume."""
_PAUSE_S = 0.3


def for_broker(
    objects: Objects, testbed: Testbed, say: Callable[[str], None], patience_s: float = BROKER_PATIENCE_S
) -> None:
    """Return when the broker's pod is ready; one sentence from the cluster if it does not become so."""
    ref = Ref("Pod", f"{names.BROKER}-0", names.namespace(testbed.name))
    began = time.monotonic()
    while True:
        pod = objects.get(ref)
        if pod is not None and is_ready(pod):
            return
        why, hopeless = trouble(pod)
        elapsed = time.monotonic() - began
        if elapsed > patience_s or (hopeless and elapsed > HOPELESS_AFTER_S):
            node = broker_node(testbed)
            raise FogError(
                f"the broker on {node} did not come up within {elapsed:.0f} s: {why}",
                hint="everything else is there; mend this and run fogctl up again",
                exit_code=FAILED,
            )
        say(f"waiting for the broker: {why}")
        time.sleep(_PAUSE_S)


def is_ready(pod: Manifest) -> bool:
    """Whether a pod answers."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def trouble(pod: Manifest | None) -> tuple[str, bool]:
    """Why a pod is not ready, and whether waiting helps no more. Pure."""
    if pod is None:
        return "its pod is not made yet", False
    status = pod.get("status") or {}
    for each in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        waiting = (each.get("state") or {}).get("waiting") or {}
        reason = waiting.get("reason")
        if reason in ("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"):
            image = each.get("image") or pod["spec"]["containers"][0]["image"]
            return f"its node has not the image {image} (fogctl pi provision -p images loads it)", True
        if reason in (
            "CrashLoopBackOff",
            "CreateContainerConfigError",
            "CreateContainerError",
            "RunContainerError",
        ):
            last = ((each.get("lastState") or {}).get("terminated") or {}).get("message") or waiting.get(
                "message"
            )
            return f"{each['name']}: {reason}{f': {_one_line(last)}' if last else ''}", True
    for each in status.get("conditions") or []:
        if each["type"] == "PodScheduled" and each["status"] == "False":
            return _one_line(each.get("message") or each.get("reason") or "it is not placed"), False
    return f"its pod is {status.get('phase', 'unknown').lower()}", False


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]
