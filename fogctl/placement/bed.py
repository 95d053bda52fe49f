"""Placing an app on a testbed, around what runs there: one that is up, or one that only has a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fognetem.matrix import LatencyMatrix

from fogctl.config import testbed as testbed_file
from fogctl.errors import FogError
from fogctl.placement.demand import neutral, profiled
from fogctl.placement.plan import Planned, Strategy, plan
from fogctl.placement.profile import read_profile
from fogctl.placement.room import rooms
from fogctl.runtime import deployment, fault_record
from fogctl.runtime.app import App
from fogctl.runtime.deployment import Change, Deployment
from fogctl.runtime.operate import Apps
from fogctl.testbed.model import Testbed


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
        running = apps.running
        faults = fault_record.read(running.state.folder)
        down = fault_record.down_nodes(faults)
        left = {
            node.name: 0.0 if node.name in down else fault_record.node_share(faults, node.name)
            for node in running.testbed.nodes
        }
        return cls(running.testbed, running.latencies, found, heaps, left)

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
    """How a user wants an app placed."""

    strategy: Strategy
    replicas: Mapping[str, int]
    """By stage; one that is not named keeps as many as it has, or gets one."""
    profile: Path | None = None
    seed: int = 0
    slots: int = 1
    """Replicas that a node may hold, of one stage each; each has this part of the node's CPU."""

    @property
    def share(self) -> float | None:
        """Of its node, what each replica gets; None: what it has, or all."""
        return None if self.slots == 1 else 1.0 / self.slots


def placed(app: App, bed: Bed, wish: Wish) -> Planned:
    """The nodes of every stage of an app, around what other apps have; FogError if it does not fit."""
    current = bed.current(app.name)
    replicas = {
        stage.name: wish.replicas.get(stage.name, len(current.get(stage.name, ())) or 1)
        for stage in app.stages
    }
    if wish.profile is None:
        demands = neutral(app, replicas)
    else:
        demands = profiled(app, replicas, read_profile(wish.profile), wish.profile)
    others = [each for each in bed.deployments if each.app != app.name]
    left = rooms(
        *(bed.testbed, bed.latencies, others, bed.heaps),
        slots_per_node=wish.slots,
        cpu_left=bed.cpu_left,
        unlimited_cores=float(os.cpu_count() or 1),
    )
    return plan(wish.strategy, demands, left, seed=wish.seed, current=current)


def first_changes(app: App, bed: Bed, planned: Planned, share: float | None = None) -> list[Change]:
    """What deploying would do on a testbed where nothing runs yet, checked as `deploy` checks it."""
    wanted = deployment.place(app, planned.nodes, (), share or deployment.WHOLE)
    deployment.check([wanted], bed.testbed)
    heaps = {(app.name, stage.name): stage.memory_bytes for stage in app.stages}
    deployment.check_memory([wanted], heaps, bed.testbed)
    return deployment.changes(None, wanted)


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
