"""Apps on a running testbed: deployed, changed live, observed and removed. A failed change is rolled back."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fogctl.errors import FAILED, FogError
from fogctl.runtime import app as apps
from fogctl.runtime import app_copy, deployment, kafka, realtime
from fogctl.runtime import audit as audits
from fogctl.runtime.app import App, Mode
from fogctl.runtime.carry_out import Say, carry_out
from fogctl.runtime.deployment import (
    Change,
    Deployment,
    Replica,
    SetShare,
    StagePlacement,
)
from fogctl.runtime.ground import Ground, quiet
from fogctl.runtime.sent_numbers import SentNumbers
from fogctl.testbed.running import Running


@dataclass(frozen=True, slots=True)
class Apps:
    """The apps of one running testbed."""

    ground: Ground

    @classmethod
    def on(cls, running: Running) -> Apps:
        """The apps on this virtual testbed."""
        from fogctl.runtime.virtual_ground import VirtualGround

        return cls(VirtualGround.on(running))

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

    def app(self, name: str) -> App:
        """A deployed app as it was when it was deployed."""
        return apps.load(self.get(name).app_file)

    def status(self, app: str) -> dict[str, Any]:
        """What each stage of an app says of itself."""
        found = self.get(app)
        loaded = apps.load(found.app_file)
        stages = []
        for placement in found.stages:
            try:
                said = self.ground.ask(app, placement.stage, {"ask": "status"})
            except FogError as error:
                said = {"state": "no answer", "error": error.message, "executors": [], "last": None}
            options = dict(loaded.stage(placement.stage).options)
            asked = deployment.to_json(found)["stages"]
            stages.append({**said, "stage": placement.stage, "options": options, "asked": asked})
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
        with self.ground.kafka() as connection:
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
        with self.ground.kafka() as connection:
            return audits.count(
                audits.keys_of(connection, loaded.topic(stream)), self.sent_numbers(app).read()
            )

    # What changes it

    def plan(
        self, app: App, nodes_by_stage: Mapping[str, Sequence[str]], share: float | None = None
    ) -> tuple[Deployment, list[Change]]:
        """The deployment asked for, checked, and the changes that lead there; nothing is touched.

        Each replica gets this share of its node; None: what it has already, or all of it.
        """
        others = [found for found in self.deployments() if found.app != app.name]
        current = next((found for found in self.deployments() if found.app == app.name), None)
        numbers = [stage.number for other in others for stage in other.stages]
        wanted = deployment.place(app, nodes_by_stage, numbers, deployment.WHOLE if share is None else share)
        if current is not None:
            wanted = _keeping(current, wanted, shares=share is None)
        self._check(app, wanted)
        anew = app_copy.changed_stages(self.app(app.name), app) if current is not None else {}
        if moved := [name for name, what in anew.items() if {"inputs", "output"} & set(what.split(", "))]:
            raise FogError(
                f"{', '.join(moved)} would read or write other streams than its checkpoint knows",
                hint=f"fogctl app rm {app.name} first, or give the stage another name",
            )
        return wanted, self._mended(current, wanted, deployment.changes(current, wanted, anew))

    def deploy(
        self,
        app: App,
        nodes_by_stage: Mapping[str, Sequence[str]],
        say: Say = quiet,
        share: float | None = None,
    ) -> list[Change]:
        """Have the app run on exactly these nodes, at this share of each; answers what was changed."""
        with self.ground.changing(app.name):
            wanted, steps = self.plan(app, nodes_by_stage, share)
            folder = self._folder / app.name
            fresh, known = not folder.exists(), app_copy.kept(app, folder).file.exists()
            made: list[str] = []
            if steps:
                self.ground.ready(app, wanted, steps, say)
                made = kafka.ensure_topics(self.ground.kafka(), app.all_topics)
            current = next((found for found in self.deployments() if found.app == app.name), None)
            before = None if current is None else apps.load(current.app_file)
            copy = app_copy.keep(app, folder)
            wanted = replace(wanted, app_file=str(copy.file))
            try:
                self._carry_out(copy, current, wanted, steps, say, before)
                app_copy.forget_others(copy, folder)
            except FogError:
                # A topic left behind would bind the next try to this one's number of partitions.
                kafka.delete_topics(self.ground.kafka(), made)
                if fresh:
                    self._forget(app.name)
                elif not known:
                    app_copy.forget(copy, folder)
                raise
            return steps

    def become(self, wanted: Deployment, say: Say = quiet) -> list[Change]:
        """Have a deployed app run exactly so, all stages at once; replicas nobody recorded are removed."""
        with self.ground.changing(wanted.app):
            current = self.get(wanted.app)
            app = self.app(wanted.app)
            self._check(app, wanted)
            steps = self._mended(current, wanted, deployment.changes(current, wanted))
            self._carry_out(app, current, wanted, steps, say)
            return steps

    def scale(
        self, name: str, stage: str, nodes: Sequence[str], say: Say = quiet, *, dry_run: bool = False
    ) -> list[Change]:
        """Have a stage run on exactly these nodes; a dry run only answers what would be changed."""
        with self._changing(name, dry_run):
            found = self.get(name)
            old = found.stage(stage)
            shares = {replica.node: replica.share for replica in old.replicas}
            replicas = tuple(Replica(node, shares.get(node, 1.0)) for node in dict.fromkeys(nodes))
            wanted = found.with_stage(replace(old, replicas=replicas))
            app = self.app(name)
            self._check(app, wanted)
            steps = self._mended(found, wanted, deployment.changes(found, wanted))
            if not dry_run:
                self._carry_out(app, found, wanted, steps, say)
            return steps

    def share(
        self,
        name: str,
        stage: str,
        share: float,
        nodes: Sequence[str] | None = None,
        *,
        dry_run: bool = False,
    ) -> list[Change]:
        """Give a stage's replicas (all, or those on some nodes) this share of their nodes."""
        with self._changing(name, dry_run):
            found = self.get(name)
            old = found.stage(stage)
            chosen = set(nodes if nodes is not None else old.nodes)
            if unknown := chosen - set(old.nodes):
                raise FogError(
                    f"stage {stage} has no replica on {', '.join(sorted(unknown))}",
                    hint=f"it runs on {', '.join(old.nodes)}",
                )
            replicas = tuple(Replica(r.node, share) if r.node in chosen else r for r in old.replicas)
            wanted = found.with_stage(replace(old, replicas=replicas))
            others = [each for each in self.deployments() if each.app != name]
            deployment.check([*others, wanted], self.ground.testbed)
            steps = deployment.changes(found, wanted)
            if not dry_run:
                carry_out(steps, lambda wave: self._set_shares(name, wave), "fogctl app share again", quiet)
                self._record(name, wanted)
            return steps

    def remove(
        self, name: str, *, keep_state: bool = False, say: Say = quiet, dry_run: bool = False
    ) -> list[Change]:
        """Stop an app; its topics and checkpoints go too unless they are to be kept."""
        with self._changing(name, dry_run):
            if not keep_state and (left := self._left_behind(name)) is not None:
                if not dry_run:
                    kafka.delete_topics(self.ground.kafka(), list(left.all_topics))
                    self._forget(name)
                return []
            found = self.get(name)
            app = self.app(name)
            steps = deployment.changes(found, None)
            if not dry_run:
                self._carry_out(app, found, None, steps, say)
                app_copy.forget_others(app, self._folder / name, running=False)
                if not keep_state:
                    kafka.delete_topics(self.ground.kafka(), list(app.all_topics))
                    self._forget(name)
            return steps

    # Inner workings

    @property
    def _folder(self) -> Path:
        return self.ground.folder / "apps"

    def _changing(self, app: str, dry_run: bool) -> contextlib.AbstractContextManager[object]:
        """Nobody else changes the app meanwhile; a dry run needs no such promise."""
        return contextlib.nullcontext() if dry_run else self.ground.changing(app)

    def _check(self, app: App, wanted: Deployment) -> None:
        """Refuse what the testbed has no room for, or Spark no slots."""
        others = [found for found in self.deployments() if found.app != wanted.app]
        deployment.check([*others, wanted], self.ground.testbed)
        heaps = {
            (each.name, stage.name): stage.memory_bytes
            for each in (app, *(self.app(other.app) for other in others))
            for stage in each.stages
        }
        deployment.check_memory([*others, wanted], heaps, self.ground.testbed)
        for placement in wanted.stages:
            _check_real_time(app, placement)

    def _mended(
        self, current: Deployment | None, wanted: Deployment, steps: Sequence[Change]
    ) -> list[Change]:
        """The changes, and what a fogctl that was killed in the middle of one left to do.

        Replicas that nobody recorded are removed, and those are added that are recorded but not there.
        """
        there = {
            placement.stage: self.ground.executors(wanted.app, placement.stage)
            for placement in (current.stages if current is not None else ())
        }
        return [*steps, *deployment.mends(current, wanted, steps, there)]

    def _left_behind(self, name: str) -> App | None:
        """An app that is not deployed but whose state was kept."""
        copies = list((self._folder / name / app_copy.FOLDER).glob("*/**/app.yaml"))
        if (self._folder / name / "deployment.json").exists() or not copies:
            return None
        return apps.load(copies[0])

    def _set_shares(self, name: str, wave: Sequence[Change]) -> None:
        for step in wave:
            if isinstance(step, SetShare):
                self.ground.limit(name, step.stage, step.replica.node, step.replica.share)

    def _carry_out(
        self,
        app: App,
        current: Deployment | None,
        wanted: Deployment | None,
        steps: list[Change],
        say: Say,
        before: App | None = None,
    ) -> None:
        """Make the changes; if one fails, undo those made, newest first, and say so.

        `before` is the app as it runs until then, where that differs: its stages are stopped and, if the
        change fails, started again as they were.
        """
        old, new = (before or app, current), (app, wanted)
        remedy = f"fogctl app rm {app.name} removes what is left"
        carry_out(steps, self.ground.maker(old, new), remedy, say, self.ground.maker(new, old))
        self._record(app.name, wanted)

    def _forget(self, name: str) -> None:
        """Remove what an app kept, here and on its nodes."""
        self.ground.forget(name)
        shutil.rmtree(self._folder / name, ignore_errors=True)

    def _record(self, name: str, wanted: Deployment | None) -> None:
        file = self._folder / name / "deployment.json"
        if wanted is None:
            file.unlink(missing_ok=True)
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh = file.with_suffix(".new")
        fresh.write_text(json.dumps(deployment.to_json(wanted), indent=1))
        fresh.replace(file)


def _check_real_time(app: App, placement: StagePlacement) -> None:
    """Refuse a real-time stage that Spark would starve or refuse."""
    stage = app.stage(placement.stage)
    if stage.mode is Mode.real_time:
        realtime.check(realtime.facts(stage, len(placement.replicas), stage.slots))


def _keeping(current: Deployment, wanted: Deployment, *, shares: bool = True) -> Deployment:
    """What is wanted, with the ports that are there already, and the shares unless they are asked for."""
    old = {placement.stage: placement for placement in current.stages}
    taken = {placement.number for placement in current.stages}
    stages = []
    for placement in wanted.stages:
        if placement.stage in old:
            kept = (
                {replica.node: replica.share for replica in old[placement.stage].replicas} if shares else {}
            )
            replicas = tuple(Replica(r.node, kept.get(r.node, r.share)) for r in placement.replicas)
            stages.append(replace(placement, number=old[placement.stage].number, replicas=replicas))
        else:
            free = next(n for n in range(len(taken) + len(wanted.stages) + 1) if n not in taken)
            taken.add(free)
            stages.append(replace(placement, number=free))
    return replace(wanted, stages=tuple(stages))
