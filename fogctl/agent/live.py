"""The agent's target on a running testbed of any kind: real stages, real nodes, real time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fognetem.matrix import LatencyMatrix

from fogctl.agent.arrivals import TopicArrivals
from fogctl.agent.knowledge import RecordCost, StageFacts
from fogctl.agent.observation import HostMetrics
from fogctl.agent.plan import Plan
from fogctl.agent.recovery import wanted
from fogctl.agent.surroundings import Surroundings, surroundings_of
from fogctl.agent.target import Facts
from fogctl.errors import FogError, NoAnswerError
from fogctl.metrics.values import WINDOW_S, NodeMetrics, Reader, StageMetrics
from fogctl.placement.kept import kept
from fogctl.placement.profile import Profile
from fogctl.runtime import app as apps
from fogctl.runtime.carry_out import Say
from fogctl.runtime.deployment import BESIDE_HEAP_BYTES, Deployment, Replica
from fogctl.runtime.ground import Ground, quiet
from fogctl.runtime.operate import Apps
from fogctl.testbed.model import Role

_NAP_S = 0.2


class LiveTarget:
    """An app on a running testbed."""

    def __init__(
        self,
        ground: Ground,
        *,
        window_s: float = WINDOW_S,
        say: Say = quiet,
        stopping: Callable[[], bool] = lambda: False,
        reader: Reader | None = None,
    ) -> None:
        """`reader` is where the metrics come from; without one, from those who measure."""
        self._ground = ground
        self._apps = Apps(ground)
        self._around = surroundings_of(ground)
        self._reader = _UpOnly(ground.reader(window_s) if reader is None else reader, self._around)
        self._arrivals = TopicArrivals(ground.kafka)
        self._say = say
        self._stopping = stopping

    @property
    def reader(self) -> Reader:
        """Asks the stage runners and the nodes; those without power do not answer."""
        return self._reader

    @property
    def latencies(self) -> LatencyMatrix:
        """As injected now: somebody may have changed them live."""
        return self._ground.latencies

    def now_s(self) -> float:
        """Unix time, as metrics have it."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Sleep, but no longer once the agent shall stop."""
        deadline = time.monotonic() + seconds
        while not self._stopping() and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(_NAP_S, left))

    def facts(self, app: str) -> Facts:
        """From app.yaml, the testbed, and what its nodes say they have."""
        loaded = apps.load(self._apps.get(app).app_file)
        nodes = self._ground.testbed.nodes
        have = self._around.nodes()
        profile = kept(self._ground.folder, app)
        return Facts(
            stages=tuple(
                StageFacts(
                    stage.name,
                    stage.partitions,
                    stage.freshness_ms / 1e3,
                    stage.inputs,
                    stage.output,
                    stage.memory_bytes + BESIDE_HEAP_BYTES,
                    stage.slots,
                    _cost(profile, stage.name),
                )
                for stage in loaded.stages
            ),
            edge=tuple(have[node.name] for node in nodes if node.role is Role.edge and node.name in have),
            origins=tuple(node.name for node in nodes if node.role is not Role.edge),
        )

    def deployment(self, app: str) -> Deployment:
        """What runs: the record, and where a killed change left others running or none, what is there."""
        found = self._apps.get(app)
        for placement in found.stages:
            there = self._executors(app, placement.stage)
            if set(there) != set(placement.nodes):
                shares = {replica.node: replica.share for replica in placement.replicas}
                replicas = tuple(Replica(node, shares.get(node, 1.0)) for node in there)
                found = found.with_stage(replace(placement, replicas=replicas))
        return found

    def _executors(self, app: str, stage: str) -> list[str]:
        """Where replicas are; a testbed that cannot tell right now is no reason to end the agent."""
        try:
            return self._ground.executors(app, stage)
        except NoAnswerError:
            raise
        except FogError as error:  # an API server that has just started refuses what it permits later
            raise NoAnswerError(error.message, hint=error.hint, exit_code=error.exit_code) from error

    def others(self, app: str) -> Mapping[str, float]:
        """The shares of all other apps."""
        shares: dict[str, float] = {}
        for other in self._apps.deployments():
            for placement in other.stages if other.app != app else ():
                for replica in placement.replicas:
                    shares[replica.node] = shares.get(replica.node, 0.0) + replica.share
        return shares

    def arrivals(self, app: str) -> Mapping[str, tuple[float, ...]]:
        """By stage that reads from outside: the time stamps of the latest records on its topics."""
        loaded = apps.load(self._apps.get(app).app_file)
        sources = set(loaded.sources)
        return self._arrivals.of(
            {
                stage.name: [loaded.topic(stream) for stream in stage.inputs]
                for stage in loaded.stages
                if set(stage.inputs) <= sources
            }
        )

    def host(self) -> HostMetrics | None:
        """The memory of the host that emulates the nodes; None: they are machines of their own."""
        return self._around.host()

    def news(self, app: str) -> Sequence[Mapping[str, Any]]:
        """What happened to the app's processes, as events, where nobody else writes that down."""
        return self._around.news(self._apps.get(app))

    def apply(self, app: str, plan: Plan) -> None:
        """Bring the app to what the plan leads to from what is recorded."""
        self._apps.become(wanted(plan, self._apps.get(app)), self._say)


def _cost(profile: Profile | None, stage: str) -> RecordCost | None:
    """What a record costs a stage by the app's profile; None if that says nothing of it."""
    seen = None if profile is None else profile.stage(stage)
    if seen is None:
        return None
    return RecordCost(seen.cpu_s_per_record, seen.state_bytes_per_record, seen.output_bytes_per_record)


@dataclass(frozen=True, slots=True)
class _UpOnly:
    """A reader that leaves out the nodes that are down though somebody could read their numbers."""

    inner: Reader
    around: Surroundings

    def stages(self, app: str) -> tuple[StageMetrics, ...]:
        """Every stage that answers."""
        return self.inner.stages(app)

    def nodes(self) -> tuple[NodeMetrics, ...]:
        """Every node that answers and has power."""
        down = self.around.down()
        return tuple(metrics for metrics in self.inner.nodes() if metrics.node not in down)
