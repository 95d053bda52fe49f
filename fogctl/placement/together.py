"""Several apps moved to one plan: in an order in which each has room, and undone together if one fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fogctl.errors import REFUSED, FogError
from fogctl.runtime import app_copy, deployment
from fogctl.runtime.app import App
from fogctl.runtime.deployment import Change, Deployment, Replica
from fogctl.runtime.operate import Apps

Say = Callable[[str], None]
Fits = Callable[[Sequence[Deployment]], bool]
"""Whether deployments have room beside each other."""
NodesByApp = Mapping[str, Mapping[str, Sequence[str]]]


def in_order(wanted: Iterable[Deployment], current: Iterable[Deployment], fits: Fits) -> list[Deployment]:
    """An order in which one after the other has room beside what is there then; FogError if there is none."""
    there = {each.app: each for each in current}
    left, done = list(wanted), []
    while left:
        for each in left:
            others = [deployed for app, deployed in there.items() if app != each.app]
            if fits([*others, each]):
                break
        else:
            names = ", ".join(each.app for each in left)
            raise FogError(
                f"{names} would each have to go first, because one has the nodes that the other shall have",
                hint=f"fogctl app rm {left[-1].app} --keep-state first, then deploy them together again",
                exit_code=REFUSED,
            )
        there[each.app] = each
        left.remove(each)
        done.append(each)
    return done


@dataclass(frozen=True, slots=True)
class Together:
    """Apps that are to run on the nodes of one plan, beside what else runs there."""

    on: Apps
    apps: Sequence[App]
    nodes: NodesByApp
    share: float | None = None

    def ordered(self) -> list[App]:
        """The apps in an order in which they can be deployed; FogError if there is none."""
        by_name = {app.name: app for app in self.apps}
        wanted = [self._wanted(app, None) for app in self.apps]
        return [by_name[each.app] for each in in_order(wanted, self.on.deployments(), self._fits)]

    def changes(self) -> dict[str, list[Change]]:
        """By app, in order, what deploying would change; nothing is touched."""
        if len(self.apps) == 1:
            (app,) = self.apps
            return {app.name: self.on.plan(app, self.nodes[app.name], self.share)[1]}
        found: dict[str, list[Change]] = {}
        deployed = {each.app: each for each in self.on.deployments()}
        for app in self.ordered():
            current = deployed.get(app.name)
            anew = {} if current is None else app_copy.changed_stages(self.on.app(app.name), app)
            found[app.name] = deployment.changes(current, self._wanted(app, current), anew)
        return found

    def deploy(self, say: Say) -> dict[str, list[Change]]:
        """Deploy them one after the other; if one fails, those before it go back to where they were."""
        found: dict[str, list[Change]] = {}
        before = {each.app: each for each in self.on.deployments()}
        for app in self.ordered() if len(self.apps) > 1 else self.apps:
            try:
                found[app.name] = self.on.deploy(app, self.nodes[app.name], say, self.share)
            except FogError:
                for name in reversed(found):
                    say(f"undoing {name}")
                    if name in before:  # its nodes and shares; the code is the newer one, whose copy is kept
                        here = self.on.get(name)
                        self.on.become(replace(before[name], app_file=here.app_file), say)
                    else:
                        self.on.remove(name, say=say)
                raise
        return found

    def _wanted(self, app: App, current: Deployment | None) -> Deployment:
        """The deployment asked for; replicas that are there keep their shares unless others are asked for."""
        wanted = deployment.place(app, self.nodes[app.name], (), self.share or deployment.WHOLE)
        if current is None or self.share is not None:
            return wanted
        kept = {(each.stage, r.node): r.share for each in current.stages for r in each.replicas}
        for each in wanted.stages:
            replicas = tuple(Replica(r.node, kept.get((each.stage, r.node), r.share)) for r in each.replicas)
            wanted = wanted.with_stage(replace(each, replicas=replicas))
        return wanted

    def _fits(self, deployments: Sequence[Deployment]) -> bool:
        testbed = self.on.ground.testbed
        heaps = {(app.name, stage.name): stage.memory_bytes for app in self.apps for stage in app.stages}
        for each in deployments:
            for stage in each.stages:
                if (each.app, stage.stage) not in heaps:
                    heaps[each.app, stage.stage] = self.on.app(each.app).stage(stage.stage).memory_bytes
        try:
            deployment.check(deployments, testbed)
            deployment.check_memory(deployments, heaps, testbed)
        except FogError:
            return False
        return True
