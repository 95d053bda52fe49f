"""Replicas on their way back: their nodes' CPU is lifted until their executors work, then limited again."""

from __future__ import annotations

import contextlib
import json

from fogctl.errors import FogError
from fogctl.runtime import change_lock, events, quota, supervision
from fogctl.runtime.control import ask, stage_socket
from fogctl.runtime.deployment import Deployment, from_json
from fogctl.runtime.supervision import Key, Lift, Limit, Print, ReplicaSeen, ServiceSeen, StageSeen
from fogctl.runtime.supervisor_report import said
from fogctl.testbed.running import Running

WARM_PATIENCE_S = 30.0
"""An executor that registered so long ago is believed to work, warmed up or not."""


class Replicas:
    """The replicas of a testbed, as its supervisor knows them."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._folder = running.state.folder
        self._settled: dict[Key, Print] = {}
        self._lifted: dict[Key, float] = {}
        self._registered: dict[Key, float] = {}
        self._since_s: dict[int, float] = {}

    def follow(self, running: Running) -> None:
        """From now on the testbed is this."""
        self._running = running

    def settle(self, seen: list[ServiceSeen], down: frozenset[str], now_s: float) -> list[StageSeen]:
        """Help the replicas that are on their way; answers their stages."""
        stages = self._stages({each.name: each.pid for each in seen}, now_s)
        open_stages = supervision.unsettled(stages, self._settled, down)
        for stage in open_stages:
            if change_lock.holder(self._folder, stage.app) is not None:
                continue
            with said(f"settling {stage.app}.{stage.stage}"):
                wanted = supervision.settle(stage, self._ready(stage, now_s))
                with change_lock.supervising(self._folder, stage.app):
                    for action in wanted:
                        self._help(action, now_s)
        return open_stages

    def _stages(self, pids: dict[str, int | None], now_s: float) -> list[StageSeen]:
        there = [pid for name, pid in pids.items() if ".executor." in name and pid is not None]
        self._since_s = {pid: self._since_s.get(pid, now_s) for pid in there}
        found = []
        for deployment in self._deployments():
            for placement in deployment.stages:
                prefix = f"{deployment.app}.{placement.stage}"
                replicas = []
                for replica in placement.replicas:
                    executor = pids.get(f"{prefix}.executor.{replica.node}")
                    age_s = now_s - self._since_s.get(executor, now_s) if executor is not None else 0.0
                    replicas.append(ReplicaSeen(replica.node, replica.share, executor, age_s))
                found.append(
                    StageSeen(deployment.app, placement.stage, pids.get(f"{prefix}.driver"), tuple(replicas))
                )
        return found

    def _deployments(self) -> list[Deployment]:
        found = []
        for path in sorted((self._folder / "apps").glob("*/deployment.json")):
            with contextlib.suppress(OSError, ValueError, KeyError):
                found.append(from_json(json.loads(path.read_text())))
        return found

    def _ready(self, stage: StageSeen, now_s: float) -> list[str]:
        """The nodes whose executors the driver has, warmed up, or registered for a good while."""
        socket = stage_socket(self._folder, stage.app, stage.stage)
        ready = []
        try:
            there = {executor["node"] for executor in ask(socket, {"ask": "executors"})["executors"]}
            for node in (replica.node for replica in stage.replicas):
                key = (stage.app, stage.stage, node)
                if node not in there:
                    self._registered.pop(key, None)
                    continue
                since_s = self._registered.setdefault(key, now_s)
                warm = ask(socket, {"ask": "warm", "node": node}).get("warm", True)
                if warm or now_s - since_s > WARM_PATIENCE_S:
                    ready.append(node)
        except (FogError, KeyError):
            pass
        return ready

    def _help(self, action: Lift | Limit, now_s: float) -> None:
        key = (action.app, action.stage, action.node)
        part = quota.part(action.app, action.stage)
        share = self._share(key)
        if share is None:
            return  # it was removed since we looked
        if isinstance(action, Lift):
            if self._settled.pop(key, None) is not None or key not in self._lifted:
                self._lifted[key] = now_s
            quota.lift(self._running, action.node, part)
            return
        quota.limit(self._running, action.node, part, share)
        self._settled[key] = action.fingerprint
        self._registered.pop(key, None)
        if (since_s := self._lifted.pop(key, None)) is not None:
            facts = {"app": action.app, "stage": action.stage, "node": action.node}
            events.append(self._folder, "replica ready", **facts, after_s=round(now_s - since_s, 2))

    def _share(self, key: Key) -> float | None:
        app, stage, node = key
        for deployment in self._deployments():
            for placement in deployment.stages if deployment.app == app else ():
                for replica in placement.replicas if placement.stage == stage else ():
                    if replica.node == node:
                        return replica.share
        return None
