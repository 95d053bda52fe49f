"""Apps on a running testbed: deployed, changed live, observed and removed. A failed change is rolled back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fogctl.errors import FAILED, FogError
from fogctl.java import require_java
from fogctl.runtime import app as apps
from fogctl.runtime import audit as audits
from fogctl.runtime import deployment, kafka, kafka_ready, realtime, spark
from fogctl.runtime.app import App, Mode
from fogctl.runtime.change_lock import changing
from fogctl.runtime.deployment import (
    AddReplica,
    Change,
    Deployment,
    RemoveReplica,
    Replica,
    SetShare,
    StagePlacement,
    StartStage,
    StopStage,
)
from fogctl.runtime.pool import StagePool
from fogctl.runtime.sent_numbers import SentNumbers
from fogctl.runtime.service import Services
from fogctl.testbed.model import Role
from fogctl.testbed.running import Running

Say = Callable[[str], None]


def quiet(_: str) -> None:
    """Say nothing."""


@dataclass(frozen=True, slots=True)
class Apps:
    """The apps of one running testbed."""

    running: Running
    services: Services

    @classmethod
    def on(cls, running: Running) -> Apps:
        """The apps on this testbed."""
        return cls(running, Services(running))

    # What is there

    def deployments(self) -> list[Deployment]:
        """Every app that is deployed."""
        return [
            deployment.from_json(json.loads(path.read_text()))
            for path in sorted(self._folder.glob("*/deployment.json"))
        ]

    def get(self, app: str) -> Deployment:
        """That app's deployment; FogError if it is not deployed."""
        for found in self.deployments():
            if found.app == app:
                return found
        known = ", ".join(found.app for found in self.deployments()) or "none"
        raise FogError(f"app {app} is not deployed", hint=f"deployed: {known}", exit_code=FAILED)

    def status(self, app: str) -> dict[str, Any]:
        """What each stage of an app says of itself."""
        found = self.get(app)
        loaded = apps.load(found.app_file)
        stages = []
        for placement in found.stages:
            pool = self._pool(loaded, placement)
            try:
                said = pool.status()
            except FogError as error:
                said = {"state": "no answer", "error": error.message, "executors": [], "last": None}
            stages.append({**said, "stage": placement.stage, "asked": deployment.to_json(found)["stages"]})
        return {"app": app, "stages": stages}

    def sent(self, app: str) -> int:
        """How many records were sent to an app so far; the next one has this number."""
        return self.sent_numbers(app).read().next

    def sent_numbers(self, app: str) -> SentNumbers:
        """The journal of what was sent to an app: senders write it, the audit reads it."""
        return SentNumbers(self._folder / app / "sent.jsonl")

    def will_have_sent(self, app: str, records: int) -> None:
        """Have exactly the numbers below `records` count as sent, whatever was written down before."""
        self.sent_numbers(app).declare(records)

    def audit(self, app: str) -> dict[str, audits.Audit]:
        """For each result stream that keeps record numbers: what became of the records sent."""
        loaded = apps.load(self.get(app).app_file)
        with kafka.reachable(self.running) as connection:
            return {
                stage.output: audits.count(
                    audits.keys_of(connection, loaded.topic(stage.output)), self.sent_numbers(app).read()
                )
                for stage in loaded.stages
                if stage.output in loaded.sinks and stage.output in loaded.numbered
            }

    def audit_stream(self, app: str, stream: str) -> audits.Audit:
        """What of the records sent is in one stream that keeps their numbers, an input for example."""
        loaded = apps.load(self.get(app).app_file)
        if stream not in loaded.numbered:
            known = ", ".join(loaded.numbered)
            raise FogError(
                f"the stream {stream} of {app} keeps no record numbers", hint=f"those that do: {known}"
            )
        if stream in loaded.sources and len(loaded.sources) > 1:
            raise FogError(
                f"the inputs of {app} share one row of numbers, so none has all of them",
                hint="audit the results: without --stream",
            )
        with kafka.reachable(self.running) as connection:
            return audits.count(
                audits.keys_of(connection, loaded.topic(stream)), self.sent_numbers(app).read()
            )

    # What changes it

    def plan(self, app: App, nodes_by_stage: Mapping[str, Sequence[str]]) -> tuple[Deployment, list[Change]]:
        """The deployment asked for, checked, and the changes that lead there; nothing is touched."""
        others = [found for found in self.deployments() if found.app != app.name]
        current = next((found for found in self.deployments() if found.app == app.name), None)
        wanted = deployment.place(
            app, nodes_by_stage, [stage.number for other in others for stage in other.stages]
        )
        if current is not None:
            wanted = _keeping(current, wanted)
        deployment.check([*others, wanted], self.running.testbed)
        for placement in wanted.stages:
            _check_real_time(app, placement)
        return wanted, deployment.changes(current, wanted)

    def deploy(self, app: App, nodes_by_stage: Mapping[str, Sequence[str]], say: Say = quiet) -> list[Change]:
        """Have the app run on exactly these nodes; answers what was changed."""
        with changing(self.running, app.name):
            wanted, steps = self.plan(app, nodes_by_stage)
            made: list[str] = []
            if steps:
                nodes = [replica.node for placement in wanted.stages for replica in placement.replicas]
                kafka_ready.ready(self.running, self.services, nodes, say)
                made = kafka.ensure_topics(self.running, app.topics)
            current = next((found for found in self.deployments() if found.app == app.name), None)
            try:
                self._carry_out(app, current, wanted, steps, say)
            except FogError:
                # A topic left behind would bind the next try to this one's number of partitions.
                kafka.delete_topics(self.running, made)
                raise
            return steps

    def become(self, wanted: Deployment, say: Say = quiet) -> list[Change]:
        """Have a deployed app run exactly so, all stages at once; replicas nobody recorded are removed."""
        with changing(self.running, wanted.app):
            current = self.get(wanted.app)
            others = [found for found in self.deployments() if found.app != wanted.app]
            deployment.check([*others, wanted], self.running.testbed)
            app = apps.load(current.app_file)
            for placement in wanted.stages:
                _check_real_time(app, placement)
            steps = deployment.changes(current, wanted)
            for placement in wanted.stages:
                recorded = {*placement.nodes, *current.stage(placement.stage).nodes}
                strays = [node for node in self.workers(wanted.app, placement.stage) if node not in recorded]
                steps += [RemoveReplica(placement.stage, Replica(node)) for node in strays]
            self._carry_out(app, current, wanted, steps, say)
            return steps

    def workers(self, app: str, stage: str) -> list[str]:
        """The nodes on which a replica of a stage should run by the list of services.

        They differ from the deployment's only where a fogctl was killed in the middle of a change.
        """
        prefix = f"{app}.{stage}.worker."
        names = [service.name for service in self.services.all()]
        return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]

    def scale(self, name: str, stage: str, nodes: Sequence[str], say: Say = quiet) -> list[Change]:
        """Have a stage run on exactly these nodes."""
        with changing(self.running, name):
            placement, old = self._stage(name, stage)
            shares = {replica.node: replica.share for replica in old.replicas}
            replicas = tuple(Replica(node, shares.get(node, 1.0)) for node in dict.fromkeys(nodes))
            return self._replace(placement, replace(old, replicas=replicas), say)

    def share(self, name: str, stage: str, share: float, nodes: Sequence[str] | None = None) -> list[Change]:
        """Give a stage's replicas (all, or those on some nodes) this share of their nodes."""
        with changing(self.running, name):
            placement, old = self._stage(name, stage)
            chosen = set(nodes if nodes is not None else old.nodes)
            if unknown := chosen - set(old.nodes):
                raise FogError(
                    f"stage {stage} has no replica on {', '.join(sorted(unknown))}",
                    hint=f"it runs on {', '.join(old.nodes)}",
                )
            replicas = tuple(Replica(r.node, share) if r.node in chosen else r for r in old.replicas)
            return self._replace(placement, replace(old, replicas=replicas), quiet)

    def remove(self, name: str, *, keep_state: bool = False, say: Say = quiet) -> None:
        """Stop an app; its topics and checkpoints go too unless they are to be kept."""
        with changing(self.running, name):
            found = self.get(name)
            app = apps.load(found.app_file)
            self._carry_out(app, found, None, deployment.changes(found, None), say)
            if not keep_state:
                kafka.delete_topics(self.running, list(app.topics))
                shutil.rmtree(self._folder / name, ignore_errors=True)

    # Inner workings

    @property
    def _folder(self) -> Path:
        return self.running.state.folder / "apps"

    def _stage(self, name: str, stage: str) -> tuple[Deployment, StagePlacement]:
        found = self.get(name)
        return found, found.stage(stage)

    def _replace(self, current: Deployment, placement: StagePlacement, say: Say) -> list[Change]:
        wanted = current.with_stage(placement)
        others = [found for found in self.deployments() if found.app != current.app]
        deployment.check([*others, wanted], self.running.testbed)
        app = apps.load(current.app_file)
        _check_real_time(app, placement)
        steps = deployment.changes(current, wanted)
        self._carry_out(app, current, wanted, steps, say)
        return steps

    def _carry_out(
        self, app: App, current: Deployment | None, wanted: Deployment | None, steps: list[Change], say: Say
    ) -> None:
        """Make the changes one by one; if one fails, undo those made, newest first, and say so."""
        done: list[Change] = []
        places = {
            p.stage: p for p in (*(current.stages if current else ()), *(wanted.stages if wanted else ()))
        }
        try:
            for step in steps:
                say(step.describe())
                done.append(step)
                self._make(app, places[step.stage], step)
        except FogError as error:
            for step in reversed(done):
                back = deployment.inverse(step)
                if back is not None:
                    say(f"undoing: {back.describe()}")
                    self._try(app, places[step.stage], back)
            hint = f"{error.hint}; " if error.hint else ""
            raise FogError(
                error.message, hint=f"{hint}what had been changed was undone", exit_code=error.exit_code
            ) from error
        self._record(app.name, wanted)

    def _try(self, app: App, placement: StagePlacement, step: Change) -> None:
        try:
            self._make(app, placement, step)
        except FogError as error:
            raise FogError(
                f"{step.describe()} failed while undoing: {error.message}",
                hint=f"fogctl app rm {app.name} removes what is left",
                exit_code=FAILED,
            ) from error

    def _make(self, app: App, placement: StagePlacement, step: Change) -> None:
        pool = self._pool(app, placement)
        match step:
            case StartStage():
                pool.start(max_rows=1000)
                pool.wait_until_running()
            case AddReplica(replica=replica):
                pool.lift(replica.node)
                try:
                    pool.add(replica.node)
                    pool.warm(replica.node)
                finally:
                    pool.limit(replica.node, replica.share)
            case SetShare(replica=replica):
                pool.limit(replica.node, replica.share)
            case RemoveReplica(replica=replica):
                pool.remove(replica.node)
            case StopStage():
                pool.stop()

    def _record(self, name: str, wanted: Deployment | None) -> None:
        file = self._folder / name / "deployment.json"
        if wanted is None:
            file.unlink(missing_ok=True)
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh = file.with_suffix(".new")
        fresh.write_text(json.dumps(deployment.to_json(wanted), indent=1))
        fresh.replace(file)

    def _pool(self, app: App, placement: StagePlacement) -> StagePool:
        control = next(node.name for node in self.running.testbed.nodes if node.role is Role.control)
        pool = spark.Pool(app.name, placement.stage, control, placement.number)
        return StagePool(self.running, self.services, require_java(), app, app.stage(placement.stage), pool)


def _check_real_time(app: App, placement: StagePlacement) -> None:
    """Refuse a real-time stage that Spark would starve or refuse."""
    stage = app.stage(placement.stage)
    if stage.mode is Mode.real_time:
        realtime.check(realtime.facts(stage, len(placement.replicas), stage.slots))


def _keeping(current: Deployment, wanted: Deployment) -> Deployment:
    """What is wanted, with the ports and shares that are there already."""
    old = {placement.stage: placement for placement in current.stages}
    taken = {placement.number for placement in current.stages}
    stages = []
    for placement in wanted.stages:
        if placement.stage in old:
            shares = {replica.node: replica.share for replica in old[placement.stage].replicas}
            replicas = tuple(Replica(r.node, shares.get(r.node, r.share)) for r in placement.replicas)
            stages.append(replace(placement, number=old[placement.stage].number, replicas=replicas))
        else:
            free = next(n for n in range(len(taken) + len(wanted.stages) + 1) if n not in taken)
            taken.add(free)
            stages.append(replace(placement, number=free))
    return replace(wanted, stages=tuple(stages))
