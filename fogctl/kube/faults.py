"""Faults on a cluster: only what can be undone by name, and nothing that is not ours.

A board keeps its power: a node that is killed loses every pod of ours and gets none until it is restored.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fognetem import Path as NetworkPath

from fogctl.errors import FAILED, FogError
from fogctl.kube import latency, names
from fogctl.kube.app_objects import DRIVER_ROLE, EXECUTOR_ROLE, ROLE
from fogctl.kube.background import Job, Jobs
from fogctl.kube.ground import KubeGround
from fogctl.kube.objects import Objects, Ref
from fogctl.kube.running import KubeRunning
from fogctl.runtime import events, fault_plan, fault_record, fault_targets
from fogctl.runtime.fault_plan import CUT
from fogctl.runtime.fault_record import Fault, Kind
from fogctl.runtime.fault_targets import Target, What
from fogctl.runtime.operate import Apps

API_PATIENCE_S = 30.0
TIMER = "faults.timer"
"""The job in the background that restores faults whose time is over."""
BROKER_SERVICE = fault_targets.SERVICES[What.broker]


@dataclass(slots=True)
class ClusterBreaker:
    """A testbed on a cluster. Satisfies `fogctl.runtime.fault_plan.Breaker`."""

    running: KubeRunning
    objects: Objects

    @classmethod
    def on(cls, running: KubeRunning) -> ClusterBreaker:
        """That of this testbed."""
        return cls(running, Objects(running.access, API_PATIENCE_S))

    @property
    def nodes(self) -> Sequence[str]:
        """The testbed's nodes in order."""
        return [node.name for node in self.running.testbed.nodes]

    # What would be done

    def killing(self, words: Sequence[str], lasting_s: float | None) -> tuple[Target, Fault | None]:
        """What `kill` means by these words, and the fault it leaves; None if the cluster mends it at once."""
        _require_possible(words, lasting_s)
        pods = self._pods()
        target = fault_targets.find(words, self.nodes, pods)
        if target.what is What.node:
            fault = fault_plan.made(Kind.node, (target.name,), lasting_s)
            fault_plan.refuse_twice(self._folder, fault)
            if (self._node(target.name).get("spec") or {}).get("unschedulable"):
                raise FogError(
                    f"somebody else has cordoned node {target.name}, and restoring it would open it",
                    hint=f"kubectl uncordon {target.name}",
                    exit_code=FAILED,
                )
            return target, fault
        if lasting_s is None:
            return target, None
        owner = _owner(pods[target.name])
        fault = fault_plan.made(Kind.process, (target.name,), lasting_s, before={"statefulset": owner})
        fault_plan.refuse_twice(self._folder, fault)
        return target, fault

    def cutting(self, a: str, b: str | None, lasting_s: float | None) -> list[Fault]:
        """The links that `cut` cuts: the one between two nodes, or all of one node."""
        first, others = fault_plan.pairs(self.nodes, a, b)
        latency.require_hosts(self.running.testbed)
        found = []
        for other in others:
            path = self.running.latencies.path(first, other)
            fault = fault_plan.made(Kind.link, (first, other), lasting_s, before={"path": path.to_dict()})
            if b is not None or not fault_plan.active(self._folder, fault):
                fault_plan.refuse_twice(self._folder, fault)
                found.append(fault)
        if not found:
            raise FogError(f"every link of {first} is cut already", hint=f"fogctl fault restore {first}")
        return found

    def slowing(self, node: str, share: float, lasting_s: float | None) -> Fault:
        """The fault that `slow` makes: it is felt by the replicas there, now and later."""
        name = fault_targets.node(node, self.nodes)
        fault_plan.check_share(share)
        fault = replace(fault_plan.made(Kind.slow, (name,), lasting_s), now={"share": share})
        fault_plan.refuse_twice(self._folder, fault)
        return fault

    def restoring(self, words: Sequence[str]) -> list[Fault]:
        """The active faults that these words name: all without words. FogError if there is none."""
        return fault_plan.restoring(self._folder, words)

    # Doing it

    def describe(self, target: Target) -> str:
        """What `kill` does to it, in words."""
        if target.what is What.node:
            return f"node {target.name}: cordon it and delete the pods of the testbed there at once"
        return f"delete the pod of {target.name} at once"

    def kill(self, target: Target, fault: Fault | None) -> None:
        """Kill pods without a goodbye; with a fault, none comes back until that is restored."""
        self._remember([] if fault is None else [fault])
        events.append(
            self._folder, "fault", fault="kill", target=target.name, kind=target.what.value,
            until_s=None if fault is None else fault.until_s,
        )  # fmt: skip
        try:
            if target.what is What.node:
                self.objects.patch(Ref("Node", target.name), {"spec": {"unschedulable": True}})
                gone = [pod for pod in self._all_pods() if pod["spec"].get("nodeName") == target.name]
            else:
                if fault is not None:
                    self._scale(fault, 0)
                gone = [pod for name, pod in self._pods().items() if name == target.name]
            for pod in gone:
                about = pod["metadata"]
                self.objects.delete(
                    Ref("Pod", about["name"], self.running.namespace), about["uid"], grace_s=0
                )
        except FogError:
            if fault is not None:
                self.restore(fault)
            raise

    def cut(self, planned: Sequence[Fault]) -> None:
        """Lose every packet between these nodes; SSH, the API server and kubelets stay free."""
        wanted = self.running.latencies
        for fault in planned:
            a, b = fault.target
            wanted = wanted.with_path(a, b, replace(wanted.path(a, b), loss=CUT))
        self._remember(planned)
        try:
            self.running = latency.change(self.running, wanted)
        except FogError:
            for fault in planned:
                fault_record.drop(self._folder, fault)
            raise
        for fault in planned:
            events.append(
                self._folder, "fault", fault="cut", target=list(fault.target), until_s=fault.until_s
            )

    def slow(self, fault: Fault) -> None:
        """Lower the CPU limits of the replicas on a node."""
        self._remember([fault])
        try:
            self._limit_again(fault.target[0])
        except FogError:
            fault_record.drop(self._folder, fault)
            raise
        facts = {"share": fault.now["share"], "until_s": fault.until_s}
        events.append(self._folder, "fault", fault="slow", target=fault.target[0], **facts)

    def restore(self, fault: Fault) -> None:
        """Put back what was there before a fault; the cluster starts what should run."""
        match fault.kind:
            case Kind.node:
                self.objects.patch(Ref("Node", fault.target[0]), {"spec": {"unschedulable": None}})
            case Kind.process:
                self._scale(fault, 1)
            case Kind.link:
                a, b = fault.target
                before = NetworkPath.from_dict(fault.before["path"])
                now = self.running.latencies.path(a, b)
                # Only the loss is ours: what somebody set on the link meanwhile stays.
                wanted = replace(now, loss=before.loss) if now.loss == CUT else now
                self.running = latency.change(self.running, self.running.latencies.with_path(a, b, wanted))
        fault_record.drop(self._folder, fault)
        if fault.kind is Kind.slow:
            self._limit_again(fault.target[0])
        events.append(
            self._folder, "restored", target=list(fault.target), kind=fault.kind.value,
            after_s=round(time.time() - fault.at_s, 2),
        )  # fmt: skip

    # Inner workings

    @property
    def _folder(self) -> Path:
        return self.running.folder

    def _remember(self, planned: Sequence[Fault]) -> None:
        for fault in planned:
            fault_record.add(self._folder, fault)
        if any(fault.until_s is not None for fault in planned):
            argv = (sys.executable, "-P", "-m", __name__, self.running.testbed.name, str(self._folder.parent))
            Jobs(self._folder).ensure(Job(TIMER, argv))

    def _node(self, name: str) -> dict[str, Any]:
        found = self.objects.get(Ref("Node", name))
        if found is None:
            raise FogError(f"node {name} is not in the cluster", exit_code=FAILED)
        return found

    def _all_pods(self) -> list[dict[str, Any]]:
        """Every pod of the testbed; those of others in its namespace are none of ours."""
        return self.objects.list("Pod", self.running.namespace, names.selector(self.running.testbed.name))

    def _pods(self) -> dict[str, dict[str, Any]]:
        """The pods that can be killed by name: APP.STAGE.driver, APP.STAGE.executor.NODE, broker."""
        called = {
            (names.label_value(found.app), names.label_value(placement.stage)): (found.app, placement.stage)
            for found in Apps(KubeGround.on(self.running)).deployments()
            for placement in found.stages
        }
        found: dict[str, dict[str, Any]] = {}
        for pod in self._all_pods():
            labels = pod["metadata"].get("labels") or {}
            role, node = labels.get(ROLE), pod["spec"].get("nodeName")
            whose = called.get((labels.get(names.APP, ""), labels.get(names.STAGE, "")))
            if pod["metadata"]["name"] == f"{names.BROKER}-0":
                found[BROKER_SERVICE] = pod
            elif whose is not None and role == DRIVER_ROLE:
                found[f"{whose[0]}.{whose[1]}.driver"] = pod
            elif whose is not None and role == EXECUTOR_ROLE and node:
                found[f"{whose[0]}.{whose[1]}.executor.{node}"] = pod
        return found

    def _scale(self, fault: Fault, replicas: int) -> None:
        ref = Ref("StatefulSet", fault.before["statefulset"], self.running.namespace)
        self.objects.patch(ref, {"spec": {"replicas": replicas}})

    def _limit_again(self, node: str) -> None:
        """Give every replica on a node its share of what the node has now."""
        ground = KubeGround.on(self.running)
        for found in Apps(ground).deployments():
            for placement in found.stages:
                for replica in placement.replicas:
                    if replica.node == node:
                        ground.limit(found.app, placement.stage, node, replica.share)


def restore_all(running: KubeRunning) -> None:
    """Undo what would outlive the testbed, for `down`: cordons. All else goes with it."""
    objects = Objects(running.access)
    for fault in fault_record.read(running.folder):
        if fault.kind is Kind.node:
            objects.patch(Ref("Node", fault.target[0]), {"spec": {"unschedulable": None}})
        fault_record.drop(running.folder, fault)


def restore_in_time(testbed: str, state_dir: Path) -> None:
    """Restore each fault when its time is over, until none is left that ends by itself."""
    folder = KubeRunning.load(testbed, state_dir).folder
    while timed := [fault for fault in fault_record.read(folder) if fault.until_s is not None]:
        first = min(timed, key=lambda fault: fault.until_s or 0.0)
        left = (first.until_s or 0.0) - time.time()
        if left > 0:
            time.sleep(min(left, 1.0))  # it may be restored by hand, or another be made
        else:
            ClusterBreaker.on(KubeRunning.load(testbed, state_dir)).restore(first)


def _require_possible(words: Sequence[str], lasting_s: float | None) -> None:
    """FogError, in one sentence, for what a cluster has not, or cannot take back."""
    match words[0]:
        case What.delay_line.value:
            raise FogError(
                "real machines delay packets in their kernels: there is no delay line to kill",
                hint="cut a link instead: fogctl fault cut A B",
            )
        case What.master.value:
            raise FogError(
                "stages on a cluster have no Master: Kubernetes is in its place",
                hint="kill a driver instead: fogctl fault kill driver APP.STAGE",
            )
        case What.bridge.value:
            raise FogError("the MQTT bridge runs on emulated nodes only")
        case What.executor.value if lasting_s is not None:
            raise FogError(
                "an executor's driver starts another one at once, so it cannot be kept down alone",
                hint="without --for, or the whole node: fogctl fault kill NODE --for 30s",
            )


def _owner(pod: dict[str, Any]) -> str:
    """The StatefulSet that starts a pod again."""
    for owner in pod["metadata"].get("ownerReferences") or []:
        if owner["kind"] == "StatefulSet":
            return str(owner["name"])
    raise FogError(f"nobody would start pod {pod['metadata']['name']} again", exit_code=FAILED)


if __name__ == "__main__":
    restore_in_time(sys.argv[1], Path(sys.argv[2]))
