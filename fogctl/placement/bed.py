"""Placing apps on a testbed, around what else runs there: one that is up, or one that only has a file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fognetem.matrix import LatencyMatrix

from fogctl.config import boards as board_profiles
from fogctl.config import testbed as testbed_file
from fogctl.errors import FogError
from fogctl.placement.demand import StageDemand, labelled, neutral, profiled
from fogctl.placement.plan import Planned, Strategy, plan
from fogctl.placement.profile import Profile, read_profile
from fogctl.placement.room import rooms
from fogctl.runtime import deployment, fault_record
from fogctl.runtime.app import App
from fogctl.runtime.deployment import Change, Deployment
from fogctl.runtime.operate import Apps
from fogctl.testbed.model import Node, Testbed


@dataclass(frozen=True, slots=True)
class Bed:
    """A testbed, the latencies on it now, and what runs there."""

    testbed: Testbed
    latencies: LatencyMatrix
    deployments: tuple[Deployment, ...] = ()
    heaps: Mapping[tuple[str, str], int] | None = None
    """Of the deployed apps' stages, in bytes by (app, stage)."""
    cpu_left: Mapping[str, float] | None = None
    """By node, what a fault left of its CPU quota; 0: it is down."""

    @classmethod
    def running(cls, apps: Apps) -> Bed:
        """One that is up."""
        found = tuple(apps.deployments())
        heaps = {
            (each.app, stage.name): stage.memory_bytes
            for each in found
            for stage in apps.app(each.app).stages
        }
        ground = apps.ground
        faults = fault_record.read(ground.folder)
        down = fault_record.down_nodes(faults)
        left = {
            node.name: 0.0 if node.name in down else fault_record.node_share(faults, node.name)
            for node in ground.testbed.nodes
        }
        return cls(ground.testbed, ground.latencies, found, heaps, left)

    @classmethod
    def described(cls, file: Path) -> Bed:
        """One that is not up, as its file has it: nothing is deployed there."""
        wanted = testbed_file.load(file)
        return cls(wanted, wanted.latencies)

    def current(self, app: str) -> dict[str, tuple[str, ...]]:
        """The nodes of an app's stages now; empty if it is not deployed."""
        found = next((each for each in self.deployments if each.app == app), None)
        return {} if found is None else {each.stage: each.nodes for each in found.stages}


@dataclass(frozen=True, slots=True)
class Wish:
    """How a user wants apps placed."""

    strategy: Strategy
    replicas: Mapping[str, int]
    """By label (`labels`); a stage that is not named keeps as many as it has, or gets one."""
    profiles: tuple[Path, ...] = ()
    """One of each app, or none."""
    seed: int = 0
    slots: int = 1
    """Replicas that a node may hold, of one stage each; each has this part of the node's CPU."""

    @property
    def share(self) -> float | None:
        """Of its node, what each replica gets; None: what it has, or all."""
        return None if self.slots == 1 else 1.0 / self.slots


def labels(apps: Sequence[App]) -> dict[str, tuple[str, str]]:
    """What each stage is called where these apps are placed, with its app and its own name.

    A stage of one app alone by its name; of several, as APP.STAGE.
    """
    alone = len(apps) == 1
    return {
        stage.name if alone else f"{app.name}.{stage.name}": (app.name, stage.name)
        for app in apps
        for stage in app.stages
    }


def placed(apps: Sequence[App], bed: Bed, wish: Wish) -> Planned:
    """The nodes of every stage of these apps, in one plan, around what others have; FogError if it does not
    fit."""
    called = {where: label for label, where in labels(apps).items()}
    profiles = _profiles(apps, wish.profiles)
    demands: list[StageDemand] = []
    current: dict[str, tuple[str, ...]] = {}
    for app in apps:
        now = bed.current(app.name)
        replicas = {
            stage.name: wish.replicas.get(called[app.name, stage.name], len(now.get(stage.name, ())) or 1)
            for stage in app.stages
        }
        own = profiled(app, replicas, *profiles[app.name]) if profiles else neutral(app, replicas)
        demands += labelled(own, {stage.name: called[app.name, stage.name] for stage in app.stages})
        current |= {
            called[app.name, stage]: nodes for stage, nodes in now.items() if (app.name, stage) in called
        }
    names = {app.name for app in apps}
    left = rooms(
        sized(bed.testbed),
        bed.latencies,
        [each for each in bed.deployments if each.app not in names],
        bed.heaps,
        slots_per_node=wish.slots,
        cpu_left=bed.cpu_left,
        unlimited_cores=float(os.cpu_count() or 1),
    )
    return plan(wish.strategy, demands, left, seed=wish.seed, current=current)


def sized(testbed: Testbed) -> Testbed:
    """The testbed with every node as large as its board, where nothing else is said: real ones are."""
    boards = board_profiles.load_all()

    def node_of(node: Node) -> Node:
        board = boards.get(node.board)
        if board is None:
            return node
        return replace(
            node,
            cpu_cores=board.capacity if node.cpu_cores is None else node.cpu_cores,
            memory_bytes=board.memory_bytes if node.memory_bytes is None else node.memory_bytes,
        )

    return replace(testbed, nodes=tuple(map(node_of, testbed.nodes)))


def _profiles(apps: Sequence[App], files: Sequence[Path]) -> dict[str, tuple[Profile, Path]]:
    """Each app's profile with its file; empty if none is given. FogError unless there is one of each app."""
    found: dict[str, tuple[Profile, Path]] = {}
    names = [app.name for app in apps]
    for file in files:
        profile = read_profile(file)
        if profile.app not in names:
            raise FogError(
                f"the profile is of the app {profile.app}, not of {' or '.join(names)}",
                file=file,
                key="app",
                hint=f"fogctl app profile {names[0]} --to FILE makes one",
            )
        if profile.app in found:
            raise FogError(
                f"is a second profile of {profile.app}", file=file, hint=f"give it or {found[profile.app][1]}"
            )
        found[profile.app] = profile, file
    if found and (lacking := [name for name in names if name not in found]):
        # What is not known counts as a core's worth of work, which would outweigh all that is.
        raise FogError(
            f"there is a profile of {', '.join(found)} and none of {', '.join(lacking)}",
            key="--profile",
            hint="give one of each app, or none",
        )
    return found


def nodes_by_app(apps: Sequence[App], planned: Planned) -> dict[str, dict[str, tuple[str, ...]]]:
    """A plan as deploying takes it: by app, the nodes of its stages."""
    found: dict[str, dict[str, tuple[str, ...]]] = {app.name: {} for app in apps}
    for label, (app, stage) in labels(apps).items():
        found[app][stage] = planned.nodes[label]
    return found


def first_changes(
    apps: Sequence[App], bed: Bed, planned: Planned, share: float | None = None
) -> dict[str, list[Change]]:
    """By app, what deploying would do on a testbed where nothing runs yet, checked as `deploy` checks it."""
    where = nodes_by_app(apps, planned)
    wanted = [deployment.place(app, where[app.name], (), share or deployment.WHOLE) for app in apps]
    deployment.check(wanted, bed.testbed)
    heaps = {(app.name, stage.name): stage.memory_bytes for app in apps for stage in app.stages}
    deployment.check_memory(wanted, heaps, bed.testbed)
    return {each.app: deployment.changes(None, each) for each in wanted}


def replicas_from(text: str | None, stages: list[str]) -> dict[str, int]:
    """Replicas by stage from `parse=1,measure=3`; FogError if a stage is unknown or a number is none."""
    found: dict[str, int] = {}
    for part in (each.strip() for each in (text or "").split(",")):
        if not part:
            continue
        stage, equals, count = (each.strip() for each in part.partition("="))
        if not equals or not count.isdecimal() or int(count) < 1:
            raise FogError(
                f"{part} is not STAGE=REPLICAS", key="--replicas", hint=f"--replicas {stages[0]}=2"
            )
        if stage not in stages:
            raise FogError(
                f"the app has no stage {stage}", key="--replicas", hint=f"its stages: {', '.join(stages)}"
            )
        if stage in found:
            raise FogError(f"{stage} is named twice", key="--replicas")
        found[stage] = int(count)
    return found
