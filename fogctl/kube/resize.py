"""A pod's CPU limit changed in place, by its `resize`: asked for, watched until the kubelet has done it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fogctl.errors import FAILED, REFUSED, FogError
from fogctl.kube import quantity
from fogctl.kube.access import STRATEGIC
from fogctl.kube.limit_patch import resize_body
from fogctl.kube.objects import Objects, Ref

PATIENCE_S = 30.0
DEFERRED_PATIENCE_S = 5.0
"""How long a node may say that it has no room at the moment."""
OLD_WORDS_S = 2.0
"""How long a node's words may be about what was asked before, where it does not say which they are about."""
_LOOK_EVERY_S = 0.02


class Progress(StrEnum):
    """How far a resize is."""

    done = "done"
    asked = "asked"
    deferred = "deferred"
    infeasible = "infeasible"
    failed = "failed"
    gone = "gone"


@dataclass(frozen=True, slots=True)
class Resize:
    """What a pod's status says of a limit that it should have."""

    progress: Progress
    said: str = ""
    """The kubelet's words."""
    dated: bool = True
    """Whether it says that they are about the newest that was asked; older ones do not."""


def read(pod: dict[str, Any] | None, container: str, cpu: str) -> Resize:
    """How far a pod is with a limit. Pure."""
    if pod is None or pod["metadata"].get("deletionTimestamp"):
        return Resize(Progress.gone)
    status = pod.get("status", {})
    if status.get("phase") in ("Succeeded", "Failed"):
        return Resize(Progress.gone)
    for condition in status.get("conditions") or []:
        said = str(condition.get("message", "")).rstrip(".")
        about = condition.get("observedGeneration")
        old = about is not None and about < pod["metadata"].get("generation", 0)
        if condition.get("status") != "True" or old:
            continue
        if condition["type"] == "PodResizePending":
            reason = str(condition.get("reason", "")).lower()
            known = reason if reason in (Progress.deferred, Progress.infeasible) else Progress.deferred
            return Resize(Progress(known), said, about is not None)
        if condition["type"] == "PodResizeInProgress" and condition.get("reason") == "Error":
            return Resize(Progress.failed, said)
    for each in status.get("containerStatuses") or []:
        limit = ((each.get("resources") or {}).get("limits") or {}).get("cpu")
        if each["name"] == container and limit is not None and _same(limit, cpu):
            return Resize(Progress.done)
    return Resize(Progress.asked)


def resize(
    objects: Objects,
    pod: Ref,
    container: str,
    cpu: str,
    where: str,
    clock: Callable[[], float] = time.monotonic,
) -> bool:
    """Give a pod's container this CPU limit; False if the pod is gone.

    FogError, in the cluster's or the kubelet's words, if the cluster refuses it, or if the node cannot do it
    or does not in time. `where` says whose it is.
    """
    try:
        if objects.patch(pod, resize_body(container, cpu), STRATEGIC, "resize") is None:
            return False
    except FogError as error:
        if error.exit_code != REFUSED:
            raise
        raise FogError(
            f"{where} cannot have {cpu} of CPU: {error.message}", hint=error.hint, exit_code=REFUSED
        ) from error
    began = clock()
    while True:
        found = read(objects.get(pod), container, cpu)
        took_s = clock() - began
        match found.progress:
            case Progress.done:
                return True
            case Progress.gone:
                return False
            case Progress.infeasible if found.dated or took_s > OLD_WORDS_S:
                raise FogError(
                    f"{where} cannot have {cpu} of CPU: its node says that it never can ({found.said})",
                    hint="ask for a smaller share",
                    exit_code=REFUSED,
                )
            case Progress.failed:
                raise FogError(f"{where} did not get {cpu} of CPU: {found.said}", exit_code=FAILED)
            case Progress.deferred if took_s > DEFERRED_PATIENCE_S:
                raise FogError(
                    f"{where} cannot have {cpu} of CPU now: its node has put it off ({found.said})",
                    hint="free some of the node, or ask for a smaller share",
                    exit_code=REFUSED,
                )
        if took_s > PATIENCE_S:
            raise FogError(
                f"{where} was to have {cpu} of CPU, and its node did not answer in {PATIENCE_S:.0f} s",
                hint="fogctl status shows whether the node is ready",
                exit_code=FAILED,
            )
        time.sleep(_LOOK_EVERY_S if took_s < 1 else 10 * _LOOK_EVERY_S)


def supported(objects: Objects) -> bool:
    """Whether the cluster can resize pods in place: Kubernetes 1.33 and later."""
    with objects.access.sentences("asking what the cluster can do"):
        found = objects.access.request("GET", "/api/v1")
    return any(each["name"] == "pods/resize" for each in found.get("resources", ()))


def _same(a: str, b: str) -> bool:
    return abs(quantity.parse(a) - quantity.parse(b)) < 0.0005
