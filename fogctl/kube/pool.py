"""The executors of a stage on a cluster: pods on exactly the labelled nodes, started by Spark, read back."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fogctl.errors import FAILED, FogError
from fogctl.kube import names, stage_objects
from fogctl.kube.access import Manifest
from fogctl.kube.app_objects import EXECUTOR_ROLE, StageRef
from fogctl.kube.driver import DriverPlan, config_map, stateful_set
from fogctl.kube.objects import Objects, Ref
from fogctl.kube.stage_objects import Limits
from fogctl.kube.waiting import HOPELESS_AFTER_S, trouble
from fogctl.runtime.carry_out import GaveUpError

PATIENCE_S = 300.0
"""A board reads half a gigabyte of image from its card before a first executor runs."""
WARM_PATIENCE_S = 30.0
STAYS_PATIENCE_S = 10.0
UNPLACED_PATIENCE_S = 40.0
"""How long a pod may find no node: the one before it may just be leaving."""
GONE_PATIENCE_S = 60.0
LEAVING_GRACE_S = 5
_LOOK_EVERY_S = 0.5

Ask = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class KubePool:
    """The pool of one stage. Satisfies `fogctl.runtime.app_pools.Pool`."""

    objects: Objects
    plan: DriverPlan
    ask: Ask
    limits: Limits
    freshness_s: float
    _counting: threading.Lock = field(default_factory=threading.Lock)

    @property
    def ref(self) -> StageRef:
        """Whose it is."""
        return self.plan.ref

    def start(self) -> None:
        """Have the driver's pod made; one that is there already and would do the same is left alone."""
        wanted = stateful_set(self.plan)
        ref = Ref.of(wanted)
        there = self.objects.get(ref)
        if there is not None:
            digest = (there["metadata"].get("annotations") or {}).get(names.DIGEST)
            if digest == wanted["metadata"]["annotations"][names.DIGEST]:
                return
            self.stop()
        settings = config_map(self.plan)
        self.objects.delete(Ref.of(settings))
        self.objects.create(settings)
        if not self.objects.create(wanted):
            raise FogError(
                f"somebody else started stage {self.ref.stage} just now", hint="try again", exit_code=FAILED
            )

    def wait_for_master(self) -> None:
        """A cluster has no Master of its own for each stage."""

    def wait_until_running(self) -> None:
        """Return when the query runs; the app's own error, in one sentence, if it fails."""
        driver = Ref("Pod", self.ref.driver_pod, self.ref.namespace)

        def runs() -> bool:
            try:
                status = self.ask({"ask": "status"})
            except FogError:
                return False
            self._require_no_failure(status)
            return bool(status["state"] == "running")

        self._wait(runs, f"stage {self.ref.stage} did not start", lambda: self.objects.get(driver), "driver")

    def lift(self, node: str) -> None:
        """A new executor has no limit until it gets one."""

    def add(self, node: str, give_up: threading.Event) -> None:
        """Have an executor on a node; returns when it has registered with the driver."""
        stage_objects.label(self.objects, self.ref, node)

        def registered() -> bool:
            if give_up.is_set():
                raise GaveUpError(f"the replica of {self.ref.stage} on {node} was not waited for")
            return node in self._having_asked_for_all()

        self._wait(
            registered,
            f"the replica of {self.ref.stage} on {node} did not register",
            lambda: self._newest_pod(node),
            f"executor.{node}",
        )

    def warm(self, node: str, give_up: threading.Event) -> None:
        """Return when the executor on a node has done its first tasks, is gone, or after a while."""
        deadline = time.monotonic() + WARM_PATIENCE_S
        while time.monotonic() < deadline and not give_up.is_set():
            with contextlib.suppress(FogError, KeyError):
                if self.ask({"ask": "warm", "node": node})["warm"]:
                    return
            time.sleep(_LOOK_EVERY_S)

    def require(self, node: str) -> None:
        """FogError, in the cluster's words, if the replica on a node has ended again."""
        deadline = time.monotonic() + STAYS_PATIENCE_S
        while node not in self.nodes():
            if time.monotonic() > deadline:
                with contextlib.suppress(FogError):
                    self._require_no_failure(self.ask({"ask": "status"}))
                why, _ = trouble(self._newest_pod(node))
                raise FogError(
                    f"the replica of {self.ref.stage} on {node} does not stay: {why}",
                    hint=f"fogctl app logs {self.ref.app} {self.ref.stage}.executor.{node}",
                    exit_code=FAILED,
                )
            time.sleep(_LOOK_EVERY_S)

    def limit(self, node: str, share: float) -> None:
        """Give the replica on a node this share of it; one that comes in its place gets it too."""
        self.limits.set(self.ref, node, share)

    def remove(self, node: str) -> None:
        """Decommission the executor on a node: it finishes its tasks, takes no more, and ends."""
        stage_objects.unlabel(self.objects, self.ref, node)
        with contextlib.suppress(FogError):
            with self._counting:
                left = len(stage_objects.labelled_nodes(self.objects, self.ref))
                self.ask({"ask": "decommission", "node": node, "executors": left})
            # Its last tasks belong to a batch, which may take as long as the freshness allows and more.
            deadline = time.monotonic() + max(20.0, 3 * self.freshness_s)
            while node in self.nodes() and time.monotonic() < deadline:
                time.sleep(_LOOK_EVERY_S)
        self._remove_pods(lambda pod: pod["spec"].get("nodeName") == node)

    def stop(self) -> None:
        """Stop driver and executors; the checkpoint stays."""
        with contextlib.suppress(FogError):
            self.ask({"ask": "stop"})
        about = self.ref.about()
        for kind in ("StatefulSet", "ConfigMap"):
            ref = Ref(kind, about["name"], self.ref.namespace)
            self.objects.delete(ref)
            self.objects.wait_gone(ref, GONE_PATIENCE_S)
        driver = Ref("Pod", self.ref.driver_pod, self.ref.namespace)
        self._wait_gone(driver)
        self._remove_pods(lambda _: True)
        for node in stage_objects.labelled_nodes(self.objects, self.ref):
            stage_objects.unlabel(self.objects, self.ref, node)

    def nodes(self) -> list[str]:
        """The nodes whose executors the driver has."""
        try:
            return [each["node"] for each in self.ask({"ask": "executors"})["executors"]]
        except (FogError, KeyError):
            return []

    def _having_asked_for_all(self) -> list[str]:
        """The nodes whose executors the driver has, after it was asked for one on each labelled node."""
        try:
            said = self.ask({"ask": "executors"})
            with self._counting:
                wanted = len(stage_objects.labelled_nodes(self.objects, self.ref))
                if said["wanted"] != wanted:
                    self.ask({"ask": "scale", "executors": wanted})
            return [each["node"] for each in said["executors"]]
        except (FogError, KeyError):
            return []

    def _require_no_failure(self, status: Mapping[str, Any]) -> None:
        if status["state"] == "failed":
            raise FogError(f"stage {self.ref.stage} failed: {status['error']}", exit_code=FAILED)

    def _newest_pod(self, node: str) -> Manifest | None:
        """The newest executor on a node, or one that waits for a node."""
        pods = stage_objects.pods(self.objects, self.ref, EXECUTOR_ROLE)
        own = [pod for pod in pods if pod["spec"].get("nodeName") in (node, None)]
        return max(own, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), default=None)

    def _wait(
        self, done: Callable[[], bool], failure: str, pod: Callable[[], Manifest | None], part: str
    ) -> None:
        """Until it is done; with the pod's own trouble if that does not mend itself, or takes too long."""
        began = time.monotonic()
        hopeless_since = unplaced_since = None
        why = "nothing was heard of it"
        while (now := time.monotonic()) - began < PATIENCE_S:
            if done():
                return
            with contextlib.suppress(FogError):
                found = pod()
                why, hopeless = trouble(found)
                hopeless_since = (hopeless_since or now) if hopeless else None
                unplaced = found is not None and not found["spec"].get("nodeName")
                unplaced_since = (unplaced_since or now) if unplaced else None
            if hopeless_since and now - hopeless_since > HOPELESS_AFTER_S:
                break
            if unplaced_since and now - unplaced_since > UNPLACED_PATIENCE_S:
                break
            time.sleep(_LOOK_EVERY_S)
        hint = f"fogctl app logs {self.ref.app} {self.ref.stage}.{part}"
        raise FogError(f"{failure}: {why}", hint=hint, exit_code=FAILED)

    def _remove_pods(self, which: Callable[[Manifest], bool]) -> None:
        """Have executors' pods gone; from a node that does not answer they are taken out of the books."""
        leaving = [pod for pod in stage_objects.pods(self.objects, self.ref, EXECUTOR_ROLE) if which(pod)]
        for pod in leaving:
            # What it had to finish is finished: it was decommissioned, or its driver is gone.
            ref = Ref("Pod", pod["metadata"]["name"], self.ref.namespace)
            self.objects.delete(ref, grace_s=LEAVING_GRACE_S)
        for pod in leaving:
            self._wait_gone(Ref("Pod", pod["metadata"]["name"], self.ref.namespace))

    def _wait_gone(self, pod: Ref) -> None:
        try:
            self.objects.wait_gone(pod, GONE_PATIENCE_S)
        except FogError:
            self.objects.delete(pod, grace_s=0)
            self.objects.wait_gone(pod, GONE_PATIENCE_S)
