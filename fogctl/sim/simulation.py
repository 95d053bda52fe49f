"""The simulated world: an app on a testbed, its inputs, and time that passes when told to."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from graphlib import CycleError, TopologicalSorter
from typing import Any, Protocol

import numpy as np
from fognetem.matrix import LatencyMatrix, Path

from fogctl.errors import FAILED, FogError
from fogctl.metrics.values import WINDOW_S, NodeMetrics, StageMetrics
from fogctl.runtime import deployment as deployments
from fogctl.runtime.app import App, Mode, Stage
from fogctl.runtime.deployment import (
    AddReplica,
    Change,
    Deployment,
    RemoveReplica,
    Replica,
    SetShare,
    StagePlacement,
)
from fogctl.sim import faults as fault_list
from fogctl.sim.batch_stage import BatchStage
from fogctl.sim.faults import Fault
from fogctl.sim.parameters import StageParameters
from fogctl.sim.queue_stage import QueueStage
from fogctl.sim.replicas import Pool
from fogctl.sim.streams import Merged, Stream
from fogctl.sim.wiring import Wiring
from fogctl.testbed.model import Node, Role, Testbed

REPLICA_BYTES = 400 << 20
"""Memory of one replica: a small JVM."""


class SimStage(Protocol):
    """What both kinds of stage do."""

    parameters: StageParameters
    pool: Pool

    @property
    def output(self) -> Stream:
        """What it writes."""
        ...

    @property
    def processed(self) -> float:
        """Records done so far."""
        ...

    def configure(self, pool: Pool) -> None:
        """From now on, these replicas."""
        ...

    def joined(self, node: str) -> None:
        """A replica there begins."""
        ...

    def stall(self, at_s: float, seconds: float) -> None:
        """So many seconds are lost."""
        ...

    def advance(self, until_s: float) -> None:
        """Let time pass."""
        ...

    def lag(self, at_s: float) -> float:
        """Records that wait."""
        ...

    def cpu_busy(self, at_s: float, window_s: float) -> float:
        """Share of the window spent computing."""
        ...

    def metrics(self, now_s: float, window_s: float) -> StageMetrics:
        """One look."""
        ...


@dataclass(order=True, slots=True)
class _Due:
    at_s: float
    number: int
    act: Callable[[], None] = field(compare=False)


class Simulation:
    """An app on a simulated testbed. Two with the same arguments do the same, to the last digit."""

    def __init__(
        self,
        testbed: Testbed,
        app: App,
        inputs: Mapping[str, Stream],
        deployment: Deployment,
        parameters: Mapping[str, StageParameters] | None = None,
        *,
        seed: int = 0,
        start_s: float = 0.0,
        window_s: float = WINDOW_S,
        faults: Sequence[Fault] = (),
    ) -> None:
        if missing := [name for name in app.sources if name not in inputs]:
            raise FogError(
                f"nothing feeds the stream {missing[0]} of app {app.name}", hint="give it an input"
            )
        deployments.check([deployment], testbed)
        fault_list.check(faults, testbed)
        self.testbed, self.app, self.inputs = testbed, app, dict(inputs)
        self.deployment = deployment
        self.now_s, self.start_s, self.window_s = start_s, start_s, window_s
        self.events: list[dict[str, Any]] = []
        self.supply: dict[str, list[tuple[float, int]]] = {}
        """By stage: when its number of replicas changed, and to what."""
        self._nodes: dict[str, Node] = {node.name: node for node in testbed.nodes}
        self._origins = tuple(node.name for node in testbed.nodes if node.role is not Role.edge)
        self._paths: dict[tuple[str, str], Path] = {}
        self._matrix = testbed.latencies
        self._distances: dict[str, float] = {}
        self._down: set[str] = set()
        self._slow: dict[str, float] = {}
        self._starting: set[tuple[str, str]] = set()
        """Replicas, by stage and node, that were placed and have not registered."""
        self._due: list[_Due] = []
        self._numbers = 0
        given = parameters or {}
        self.stages = self._build({s.name: given.get(s.name, StageParameters()) for s in app.stages}, seed)
        for change in testbed.schedule:
            self._later(start_s + change.at_s, partial(self.set_path, change.a, change.b, change.path))
        for fault in faults:
            self._later(max(start_s, fault.at_s), partial(self._fail, fault))
        for placement in deployment.stages:
            for node in placement.nodes:
                self.stages[placement.stage].joined(node)
            self._configure(placement.stage)

    # Time

    def advance(self, until_s: float) -> None:
        """Let time pass up to then; what is due on the way happens on the way."""
        while self._due and self._due[0].at_s <= until_s:
            due = heapq.heappop(self._due)
            self._run(max(self.now_s, due.at_s))
            due.act()
        self._run(until_s)

    def drain(self, most_s: float = 86_400.0) -> float | None:
        """Let time pass until every record is processed; answers when that was, None if it takes longer."""
        end_s = self.now_s + most_s
        step = 1.0
        while self.now_s < end_s:
            if all(self.stages[stage.name].lag(self.now_s) < 1.0 for stage in self.app.stages):
                return self.now_s
            self.advance(min(end_s, self.now_s + step))
        return None

    def _run(self, until_s: float) -> None:
        if until_s > self.now_s:
            # Sources first: nothing flows backwards, so each stage can be run to the end at once.
            for stage in self.stages.values():
                stage.advance(until_s)
            self.now_s = until_s

    def _later(self, at_s: float, act: Callable[[], None]) -> None:
        self._numbers += 1
        heapq.heappush(self._due, _Due(at_s, self._numbers, act))

    # Looking

    def stage_metrics(self) -> tuple[StageMetrics, ...]:
        """Every stage, as a live one would answer."""
        return tuple(self.stages[stage.name].metrics(self.now_s, self.window_s) for stage in self.app.stages)

    def node_metrics(self) -> tuple[NodeMetrics, ...]:
        """Every node that is up."""
        used: dict[str, dict[str, float]] = {}
        held_back: dict[str, float] = {}
        for placement in self.deployment.stages:
            stage = self.stages[placement.stage]
            there = set(stage.pool.nodes)
            busy = stage.cpu_busy(self.now_s, self.window_s)
            for replica in placement.replicas:
                if replica.node in there:
                    cores = self._cores(replica.node, stage.parameters) * replica.share * busy
                    used.setdefault(replica.node, {})[f"{self.app.name}-{placement.stage}"] = cores
                    held_back[replica.node] = max(held_back.get(replica.node, 0.0), busy)
        now_s, down, nothing = self.now_s, self._down, dict[str, float]()
        window_s = min(self.window_s, now_s - self.start_s)
        return tuple(
            NodeMetrics(
                node=node.name,
                at_s=now_s,
                cpu_used_cores=sum((parts := used.get(node.name, nothing)).values()),
                cpu_quota_cores=node.cpu_cores,
                cpu_throttled=held_back.get(node.name, 0.0),
                memory_bytes=REPLICA_BYTES * len(parts),
                memory_limit_bytes=node.memory_bytes,
                cpu_used_by_part=parts,
                window_s=window_s,
            )
            for node in self.testbed.nodes
            if node.name not in down
        )

    @property
    def latencies(self) -> LatencyMatrix:
        """The round trips as they are now."""
        if self._paths:
            old = {(a, b): path for a, b, path in self._matrix.paths}
            for pair, path in self._paths.items():
                old.pop((pair[1], pair[0]), None)
                old[pair] = path
            self._matrix = LatencyMatrix(self._matrix.nodes, tuple((a, b, p) for (a, b), p in old.items()))
            self._paths = {}
        return self._matrix

    def distance_ms(self, node: str) -> float:
        """The longer of a node's round trips to driver and broker."""
        if node not in self._distances:
            self._distances[node] = self.latencies.max_rtt_ms(self._origins, node)
        return self._distances[node]

    # Changing

    def set_path(self, a: str, b: str, path: Path) -> None:
        """Another path between two nodes from now on."""
        self._paths[a, b] = path
        self._distances.pop(a, None)
        self._distances.pop(b, None)
        if {a, b} & set(self._origins):
            for placement in self.deployment.stages:
                if {a, b} & set(placement.nodes):
                    self._configure(placement.stage)
        self._log("latency", a=a, b=b, rtt_ms=path.rtt_ms)

    def change(self, *wave: Change) -> None:
        """Make changes that belong together and let the time pass that they take; FogError if one cannot be.

        Replicas that are added together start together and stall a stage once, as on a live testbed; those
        that leave together take as long as one.
        """
        if adding := [step for step in wave if isinstance(step, AddReplica)]:
            self._add(adding)
        if leaving := [step for step in wave if isinstance(step, RemoveReplica)]:
            self._remove(leaving)
        for step in wave:
            match step:
                case AddReplica() | RemoveReplica():
                    pass
                case SetShare(stage, replica):
                    old = self.deployment.stage(stage)
                    self._place(old, tuple(replica if r.node == replica.node else r for r in old.replicas))
                case _:
                    raise FogError(
                        f"a simulated app cannot {step.describe()}", hint="make another Simulation"
                    )

    def _add(self, steps: Sequence[AddReplica]) -> None:
        names = [step.replica.node for step in steps]
        if lost := [node for node in names if node in self._down]:
            raise FogError(f"node {lost[0]} does not answer", exit_code=FAILED)
        stages = list(dict.fromkeys(step.stage for step in steps))
        for stage in stages:  # a replica is paid for from its start on, and works once it has registered
            old = self.deployment.stage(stage)
            new = tuple(step.replica for step in steps if step.stage == stage)
            self._starting |= {(stage, replica.node) for replica in new}
            self._place(old, (*old.replicas, *new))
        stalls_of = {stage: self.stages[stage].parameters.stalls for stage in stages}
        done_s = self.now_s + max(stalls.add_takes_s for stalls in stalls_of.values())
        self.advance(min(done_s, self.now_s + max(stalls.registers_s for stalls in stalls_of.values())))
        self._starting -= {(step.stage, step.replica.node) for step in steps}
        lost = [node for node in names if node in self._down]
        for stage in stages:
            new_nodes = [step.replica.node for step in steps if step.stage == stage]
            if lost:
                old = self.deployment.stage(stage)
                self._place(old, tuple(replica for replica in old.replicas if replica.node not in new_nodes))
                continue
            for node in new_nodes:
                self.stages[stage].joined(node)
            self._configure(stage)
            far_s = max(map(self.distance_ms, new_nodes)) / 1e3
            stalls = stalls_of[stage]
            self._stall(stage, stalls.out_s + stalls.first_trips * far_s, "out")
        if lost:
            raise FogError(f"node {lost[0]} was lost meanwhile", exit_code=FAILED)
        self.advance(done_s)

    def _remove(self, steps: Sequence[RemoveReplica]) -> None:
        # One that was undone before it had been added is not there.
        there = [step for step in steps if step.replica.node in self.deployment.stage(step.stage).nodes]
        stages = list(dict.fromkeys(step.stage for step in there))
        if not stages:
            return
        self.advance(self.now_s + max(self.stages[s].parameters.stalls.remove_takes_s for s in stages))
        for stage in stages:
            gone = {step.replica.node for step in there if step.stage == stage}
            old = self.deployment.stage(stage)
            self._place(old, tuple(replica for replica in old.replicas if replica.node not in gone))
            if not gone <= self._down:
                self._stall(stage, self.stages[stage].parameters.stalls.in_s, "in")

    # Inner workings

    def _build(self, parameters: Mapping[str, StageParameters], seed: int) -> dict[str, SimStage]:
        """The stages, sources first, each with random numbers of its own."""
        by_output: dict[str, list[Stage]] = {}
        for stage in self.app.stages:
            by_output.setdefault(stage.output, []).append(stage)
        sorter: TopologicalSorter[str] = TopologicalSorter()
        for stage in self.app.stages:
            sorter.add(stage.name, *(s.name for name in stage.inputs for s in by_output.get(name, ())))
        try:
            order = list(sorter.static_order())
        except CycleError as error:
            raise FogError(f"the stages form a cycle: {' -> '.join(error.args[1])}") from error
        built: dict[str, SimStage] = {}
        for name in order:
            stage = self.app.stage(name)
            sources: list[Stream] = []
            for stream in stage.inputs:
                makers = by_output.get(stream, ())
                sources += [built[maker.name].output for maker in makers] or [self.inputs[stream]]
            kind = QueueStage if stage.mode is Mode.real_time else BatchStage
            rng = np.random.default_rng([seed, *name.encode()])
            topics = tuple(self.app.topic(stream) for stream in stage.inputs)
            source = sources[0] if len(sources) == 1 else Merged(sources)
            wiring = Wiring(self.app.name, stage, parameters[name], source, topics, self.start_s, rng)
            built[name] = kind(wiring)
        return built

    def _cores(self, node: str, parameters: StageParameters) -> float:
        cores = self._nodes[node].cpu_cores
        return parameters.reference_cores if cores is None else cores

    def _place(self, placement: StagePlacement, replicas: tuple[Replica, ...]) -> None:
        self.deployment = self.deployment.with_stage(
            StagePlacement(placement.stage, placement.number, replicas)
        )
        self._configure(placement.stage)

    def _configure(self, name: str) -> None:
        """Tell a stage which replicas it has, how fast each is and how far the farthest."""
        placement, stage = self.deployment.stage(name), self.stages[name]
        p = stage.parameters
        alive = [
            replica
            for replica in placement.replicas
            if replica.node not in self._down and (name, replica.node) not in self._starting
        ]
        speeds, cores = [], []
        for replica in alive:
            cores.append(self._cores(replica.node, p) * replica.share)
            speed = self._cores(replica.node, p) / p.reference_cores * replica.share**p.sigma
            speeds.append(speed * self._slow.get(replica.node, 1.0))
        nodes = tuple(replica.node for replica in alive)
        far = tuple(map(self.distance_ms, nodes))
        stage.configure(Pool(nodes, tuple(speeds), far, tuple(cores)))
        steps = self.supply.setdefault(name, [])
        if not steps or steps[-1][1] != len(placement.replicas):
            steps.append((self.now_s, len(placement.replicas)))

    def _stall(self, stage: str, seconds: float, why: str) -> None:
        self.stages[stage].stall(self.now_s, seconds)
        self._log("stall", stage=stage, seconds=seconds, kind=why)

    def _fail(self, fault: Fault) -> None:
        touched = [p for p in self.deployment.stages if fault.node in p.nodes]
        match fault.kind:
            case "kill" | "cut":
                self._down.add(fault.node)
            case "slow":
                self._slow[fault.node] = fault.speed
            case "restore":
                self._down.discard(fault.node)
                self._slow.pop(fault.node, None)
        for placement in touched:
            stalls = self.stages[placement.stage].parameters.stalls
            if fault.kind == "restore" and fault.node not in self.stages[placement.stage].pool.nodes:
                self.stages[placement.stage].joined(fault.node)
                self._stall(placement.stage, stalls.out_s, "out")
            elif fault.kind in ("kill", "cut"):
                seconds = stalls.lost_s if fault.kind == "kill" else stalls.cut_s
                self._stall(placement.stage, seconds, fault.kind)
            self._configure(placement.stage)
        self._log("fault", kind=fault.kind, node=fault.node)

    def _log(self, what: str, **values: Any) -> None:
        self.events.append({"at_s": self.now_s, "what": what, **values})
