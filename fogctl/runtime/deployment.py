"""What should run where, and the changes that lead from one deployment to another. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fogctl.errors import FogError
from fogctl.runtime.app import App
from fogctl.testbed.model import Role, Testbed

WHOLE = 1.0
BESIDE_HEAP_BYTES = 160 << 20
"""What a replica needs beside its executor's heap at the least: the JVM's own memory."""


@dataclass(frozen=True, slots=True)
class Replica:
    """One executor of a stage on one node, with a share of that node's CPU quota."""

    node: str
    share: float = WHOLE


@dataclass(frozen=True, slots=True)
class StagePlacement:
    """Where a stage runs."""

    stage: str
    number: int
    """Its place among all stages on the testbed, which gives it ports of its own."""
    replicas: tuple[Replica, ...]

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes it runs on."""
        return tuple(replica.node for replica in self.replicas)


@dataclass(frozen=True, slots=True)
class Deployment:
    """An app on a testbed."""

    app: str
    app_file: str
    stages: tuple[StagePlacement, ...]

    def stage(self, name: str) -> StagePlacement:
        """Where that stage runs; FogError if the app has none of that name."""
        for placement in self.stages:
            if placement.stage == name:
                return placement
        known = ", ".join(placement.stage for placement in self.stages)
        raise FogError(f"app {self.app} has no stage {name}", hint=f"its stages: {known}")

    def with_stage(self, placement: StagePlacement) -> Deployment:
        """The same with one stage placed anew."""
        return replace(
            self, stages=tuple(placement if old.stage == placement.stage else old for old in self.stages)
        )


@dataclass(frozen=True, slots=True)
class StartStage:
    """Start a stage's Master and driver; its replicas follow."""

    stage: str

    def describe(self) -> str:
        """In words."""
        return f"start stage {self.stage}"


@dataclass(frozen=True, slots=True)
class AddReplica:
    """Start a replica on a node."""

    stage: str
    replica: Replica

    def describe(self) -> str:
        """In words."""
        return f"add a replica of {self.stage} on {self.replica.node} at {self.replica.share:.0%}"


@dataclass(frozen=True, slots=True)
class SetShare:
    """Change a replica's share of its node."""

    stage: str
    replica: Replica
    before: float

    def describe(self) -> str:
        """In words."""
        return f"share of {self.stage} on {self.replica.node}: {self.before:.0%} to {self.replica.share:.0%}"


@dataclass(frozen=True, slots=True)
class RemoveReplica:
    """Decommission a replica."""

    stage: str
    replica: Replica

    def describe(self) -> str:
        """In words."""
        return f"remove the replica of {self.stage} on {self.replica.node}"


@dataclass(frozen=True, slots=True)
class StopStage:
    """Stop a stage altogether; its checkpoint stays."""

    stage: str
    because: str = ""
    """What of it changed, if it will start anew."""
    replicas: tuple[Replica, ...] = ()
    """Those it had, so that it can be started again as it was."""

    def describe(self) -> str:
        """In words."""
        reason = f" to start it anew: {self.because} changed" if self.because else ""
        return f"stop stage {self.stage}{reason}"


Change = StartStage | AddReplica | SetShare | RemoveReplica | StopStage


def changes(
    current: Deployment | None, wanted: Deployment | None, anew: Mapping[str, str] | None = None
) -> list[Change]:
    """From one deployment to the other: replicas are added before others are removed, so none is short.

    `anew` names stages that must start anew, with the reason; they go on from their checkpoints.
    """
    anew = anew or {}
    before = {placement.stage: placement for placement in (current.stages if current else ())}
    after = {placement.stage: placement for placement in (wanted.stages if wanted else ())}
    steps: list[Change] = [
        StopStage(name, anew.get(name, ""), placement.replicas)
        for name, placement in before.items()
        if name not in after or name in anew
    ]
    before = {name: placement for name, placement in before.items() if name not in anew}
    for name, placement in after.items():
        old = {replica.node: replica for replica in before[name].replicas} if name in before else {}
        new = {replica.node: replica for replica in placement.replicas}
        if name not in before:
            steps.append(StartStage(name))
        steps += [AddReplica(name, replica) for node, replica in new.items() if node not in old]
        steps += [
            SetShare(name, replica, old[node].share)
            for node, replica in new.items()
            if node in old and old[node].share != replica.share
        ]
        steps += [RemoveReplica(name, replica) for node, replica in old.items() if node not in new]
    return steps


def inverse(change: Change) -> list[Change]:
    """What undoes a change, in its order; a stage that was stopped is started again as it was."""
    match change:
        case StartStage(stage):
            return [StopStage(stage)]
        case AddReplica(stage, replica):
            return [RemoveReplica(stage, replica)]
        case RemoveReplica(stage, replica):
            return [AddReplica(stage, replica)]
        case SetShare(stage, replica, before):
            return [SetShare(stage, Replica(replica.node, before), replica.share)]
        case StopStage(stage, _, replicas):
            return [StartStage(stage), *(AddReplica(stage, replica) for replica in replicas)]


def mends(
    current: Deployment | None,
    wanted: Deployment,
    steps: Iterable[Change],
    there: Mapping[str, Iterable[str]],
) -> list[Change]:
    """What is to be done besides the steps, because other replicas are there than the record says.

    `there` are the nodes by stage. A stage that is started or stopped anyway needs no mending.
    """
    moved = {step.stage for step in steps if isinstance(step, StartStage | StopStage)}
    before = {placement.stage: placement.nodes for placement in (current.stages if current else ())}
    found: list[Change] = []
    for placement in wanted.stages:
        if placement.stage not in before or placement.stage in moved:
            continue
        recorded, nodes = before[placement.stage], list(there.get(placement.stage, ()))
        lacking = [r for r in placement.replicas if r.node in recorded and r.node not in nodes]
        strays = [node for node in nodes if node not in {*placement.nodes, *recorded}]
        found += [AddReplica(placement.stage, replica) for replica in lacking]
        found += [RemoveReplica(placement.stage, Replica(node)) for node in strays]
    return found


def place(
    app: App,
    nodes_by_stage: Mapping[str, Iterable[str]],
    numbers: Iterable[int],
    share: float = WHOLE,
) -> Deployment:
    """Put each stage on the given nodes; `numbers` are places that other stages have already.

    Each replica gets this share of its node: with half of it, two stages fit on one.
    """
    taken = set(numbers)
    stages = []
    for stage in app.stages:
        number = next(n for n in range(len(taken) + 1) if n not in taken)
        taken.add(number)
        replicas = tuple(Replica(node, share) for node in dict.fromkeys(nodes_by_stage[stage.name]))
        stages.append(StagePlacement(stage.name, number, replicas))
    return Deployment(app.name, str(app.file), tuple(stages))


def check(deployments: Iterable[Deployment], testbed: Testbed) -> None:
    """Refuse what the testbed has no room for: unknown nodes, nodes that are no edge, too many shares."""
    shares: dict[str, float] = {}
    known = {node.name: node for node in testbed.nodes}
    for deployment in deployments:
        for placement in deployment.stages:
            if not placement.replicas:
                raise FogError(
                    f"stage {placement.stage} would have no replica", hint="name at least one node"
                )
            for replica in placement.replicas:
                node = known.get(replica.node)
                if node is None:
                    raise FogError(
                        f"testbed {testbed.name} has no node {replica.node}",
                        hint=f"its edge nodes: {', '.join(edge_nodes(testbed))}",
                    )
                if node.role is not Role.edge:
                    raise FogError(
                        f"node {node.name} has the role {node.role.value}; replicas run on edge nodes",
                        hint=f"its edge nodes: {', '.join(edge_nodes(testbed))}",
                    )
                if not 0 < replica.share <= WHOLE:
                    raise FogError(f"a share is more than 0 % and at most 100 %, not {replica.share:.0%}")
                shares[node.name] = shares.get(node.name, 0.0) + replica.share
    for name, total in shares.items():
        if total > WHOLE + 1e-9:
            raise FogError(
                f"the replicas on {name} would have {total:.0%} of its CPU together",
                hint="lower their shares (fogctl app share) or use another node",
            )


def check_memory(
    deployments: Iterable[Deployment], heaps: Mapping[tuple[str, str], int], testbed: Testbed
) -> None:
    """Refuse nodes whose memory the replicas would not fit into; `heaps` are bytes by (app, stage)."""
    needed: dict[str, dict[str, int]] = {}
    for deployment in deployments:
        for placement in deployment.stages:
            for replica in placement.replicas:
                name = f"{deployment.app}.{placement.stage}"
                heap = heaps[deployment.app, placement.stage]
                needed.setdefault(replica.node, {})[name] = heap + BESIDE_HEAP_BYTES
    for node in testbed.nodes:
        replicas = needed.get(node.name, {})
        total = sum(replicas.values())
        if node.memory_bytes is not None and total > node.memory_bytes:
            parts = ", ".join(f"{name} {size >> 20}" for name, size in replicas.items())
            raise FogError(
                f"node {node.name} has no room: its memory is {node.memory_bytes >> 20} MiB, and replicas "
                f"would need {total >> 20} MiB ({parts}: heap and {BESIDE_HEAP_BYTES >> 20} MiB beside it)",
                hint="use another node, lower memory: in app.yaml, or give the node more in testbed.yaml",
            )


def edge_nodes(testbed: Testbed) -> list[str]:
    """The nodes that replicas may run on."""
    return [node.name for node in testbed.nodes if node.role is Role.edge]


def to_json(deployment: Deployment) -> dict[str, Any]:
    """A deployment as plain JSON values."""
    return {
        "app": deployment.app,
        "app_file": deployment.app_file,
        "stages": [
            {
                "stage": placement.stage,
                "number": placement.number,
                "replicas": [{"node": r.node, "share": r.share} for r in placement.replicas],
            }
            for placement in deployment.stages
        ],
    }


def from_json(data: dict[str, Any]) -> Deployment:
    """The inverse of `to_json`."""
    stages = tuple(
        StagePlacement(
            entry["stage"], entry["number"], tuple(Replica(r["node"], r["share"]) for r in entry["replicas"])
        )
        for entry in data["stages"]
    )
    return Deployment(data["app"], data["app_file"], stages)
