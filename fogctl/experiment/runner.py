"""A run, step by step: check, bring up, verify, replay each part under its policy, drain, audit."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol

from fogctl.agent import policy as policies
from fogctl.agent.loop import Agent
from fogctl.agent.settings import AgentSettings
from fogctl.agent.store import FileStore, MemoryStore, Store
from fogctl.errors import FAILED, REFUSED, FogError
from fogctl.experiment import host, ideal
from fogctl.experiment.experiment import Experiment, Part
from fogctl.experiment.folder import FORMAT, RunFolder
from fogctl.experiment.metrics import RowWriter, read_lines
from fogctl.experiment.plant import Plant, Session
from fogctl.experiment.recorder import PartLog, Recorder, append


class Watcher(Protocol):
    """Who is told how far a run is."""

    def say(self, line: str) -> None:
        """Something begins."""
        ...

    def part(self, number: int, total: int, part: Part, whole_s: float) -> None:
        """A part begins, which takes about so long."""
        ...

    def at(self, seconds: float) -> None:
        """So far into the part."""
        ...


def run(experiment: Experiment, plant: Plant, folder: RunFolder, watcher: Watcher) -> dict[str, Any]:
    """Run what is not done yet of an experiment; answers the manifest. The folder must be held.

    Whatever happens, the testbed is taken down and what was measured is kept.
    """
    for use in experiment.policies:  # before anything is touched
        policies.make(use.name, dict(use.options))
    manifest = _begin(experiment, plant, folder)
    try:
        manifest["warnings"] = plant.check()
        try:
            plant.up(watcher.say)
            watcher.say("measuring the network")
            _verify(experiment, plant, folder, manifest)
            known = plant.sustained()
            if known is not None:
                manifest["mst"], manifest["mst_from"] = dict(known[0]), known[1]
            todo = [part for part in experiment.parts if _state(manifest, part) != "done"]
            for number, part in enumerate(todo, 1):
                _part(experiment, plant, folder, manifest, part, watcher, (number, len(todo)))
        finally:
            plant.down(watcher.say)
    except OSError as error:
        manifest["state"] = "failed"
        raise FogError(
            f"the run stopped: {error.strerror}",
            file=error.filename or folder.path,
            hint=f"mend it, then: fogctl experiment run --resume {folder.path}",
            exit_code=FAILED,
        ) from error
    except BaseException:
        manifest["state"] = "failed"
        _try_to_save(folder, manifest)
        raise
    if "mst" not in manifest:
        manifest["mst"], manifest["mst_from"] = ideal.from_metrics(manifest, folder.metrics())
    manifest["state"], manifest["ended"] = "done", _now()
    folder.save_manifest(manifest)
    return manifest


def _begin(experiment: Experiment, plant: Plant, folder: RunFolder) -> dict[str, Any]:
    """A new manifest, or the old one with what was lost said and marked."""
    if folder.manifest_file.is_file():
        manifest = folder.manifest()
        for part in experiment.parts:
            entry = _entry(manifest, part)
            if entry["state"] in ("running", "failed"):
                rows = read_lines(folder.part_lines(part))
                reached = max(rows["at_s"].to_pylist(), default=0.0)
                sentence = (
                    f"{part}: lost when the run ended after {reached:.0f} s of it; run again from its start"
                )
                manifest["lost"].append(sentence)
                entry["state"] = "lost"
                append(
                    folder.events_file, {"at_s": reached, "what": "lost", "part": part.key, "said": sentence}
                )
        manifest["state"] = "running"
        manifest["resumed"] = [*manifest.get("resumed", []), _now()]
        folder.save_manifest(manifest)
        return manifest
    config = experiment.config
    manifest = {
        "format": FORMAT,
        "run": folder.name,
        "experiment": experiment.name,
        "kind": plant.kind,
        "state": "running",
        "began": _now(),
        "command": " ".join(["fogctl", *sys.argv[1:]]),
        "source": str(experiment.source),
        "config": experiment.text,
        "overrides": {
            "kind": experiment.testbed.kind.value,
            "policies": [use.label for use in experiment.policies],
            "repetitions": config.repetitions,
            "seed": config.seed,
        },
        "seed": config.seed,
        "versions": host.versions(),
        "host": host.facts(),
        "app": experiment.app.name,
        "stages": [stage.name for stage in experiment.app.stages],
        "stage_facts": {
            stage.name: {"partitions": stage.partitions, "freshness_s": stage.freshness_ms / 1e3}
            for stage in experiment.app.stages
        },
        "testbed": {
            "name": experiment.testbed.name,
            "nodes": [
                {"name": node.name, "role": node.role.value, "cores": node.cpu_cores}
                for node in experiment.testbed.nodes
            ],
        },
        "tolerances": {
            "rtt_ms": experiment.tolerance_ms,
            "host_busy": config.tolerances.host_busy,
            "saturated": config.tolerances.saturated,
            "schedule_ms": config.tolerances.schedule,
        },
        "parts": [
            {
                "key": part.key,
                "policy": part.policy.label,
                "name": part.policy.name,
                "options": dict(part.policy.options),
                "repetition": part.repetition,
                "seed": part.seed,
                "goal": _goal(part),
                "state": "waiting",
                "attempt": 0,
            }
            for part in experiment.parts
        ],
        "lost": [],
    }
    folder.save_manifest(manifest)
    return manifest


def _verify(experiment: Experiment, plant: Plant, folder: RunFolder, manifest: dict[str, Any]) -> None:
    check = plant.verify(lambda _: None)
    manifest["network"] = {
        "ok": check.ok,
        "sentence": check.sentence,
        "nodes": list(check.nodes),
        "asked_ms": [list(row) for row in check.asked_ms],
        "measured_ms": None if check.measured_ms is None else [list(row) for row in check.measured_ms],
    }
    folder.save_manifest(manifest)
    if not check.ok:
        raise FogError(
            f"the run is refused: {check.sentence}",
            hint=f"the tolerance is {experiment.tolerance_ms:g} ms; fogctl net verify shows every pair",
            exit_code=REFUSED,
        )


def _part(
    experiment: Experiment,
    plant: Plant,
    folder: RunFolder,
    manifest: dict[str, Any],
    part: Part,
    watcher: Watcher,
    place: tuple[int, int],
) -> None:
    """One policy in one repetition, from deployment to audit."""
    load = experiment.load(part)
    entry = _entry(manifest, part)
    entry.update(state="running", began=_now(), attempt=int(entry["attempt"]) + 1)
    entry.update(trace_s=load.duration_s, records=load.records)
    folder.save_manifest(manifest)
    watcher.part(*place, part, load.duration_s)
    writer = RowWriter(folder.part_lines(part))
    try:
        with plant.open(part, load) as session:
            log = PartLog(
                folder.events_file,
                part,
                int(entry["attempt"]),
                experiment.app.name,
                session.target,
                session.log,
            )
            recorder = _replay(experiment, folder, part, session, log, writer, load.duration_s, watcher)
            log.start_s = recorder.start_s
            audit = dict(session.audit())
            for event in session.events():
                log.note(event)
            entry.update(finished_s=recorder.finished_s, audit=audit, replay=_plain(session.replay()))
    finally:
        writer.close()
    folder.keep_part(part)
    entry.update(state="done", ended=_now())
    folder.save_manifest(manifest)


def _replay(
    experiment: Experiment,
    folder: RunFolder,
    part: Part,
    session: Session,
    log: PartLog,
    writer: RowWriter,
    trace_s: float,
    watcher: Watcher,
) -> Recorder:
    """Send the load while the agent works, then wait until nothing waits any more."""
    config = experiment.config
    settings = AgentSettings().model_copy(  # its fields are validated already
        update={"every": config.every, "options": dict(part.policy.options), "guard": config.guard}
    )
    store: Store = MemoryStore()
    if experiment.testbed.kind.value != "sim":
        store = FileStore(folder.path / "parts" / f"{part.key}.agent.json")
    agent = Agent(
        session.target,
        experiment.app.name,
        policies.make(part.policy.name, dict(part.policy.options)),
        settings,
        store,
        log,
    )
    recorder = Recorder(experiment, part, session, writer)

    def second() -> None:
        recorder.look(trace_s)
        watcher.at(recorder.at_s)

    recorder.start_s = log.start_s = session.start()
    with session.watched(second):
        agent.run(
            until_s=recorder.start_s + trace_s + config.drain,
            stop=lambda: recorder.finished_s is not None,
        )
    return recorder


def _entry(manifest: Mapping[str, Any], part: Part) -> dict[str, Any]:
    for entry in manifest["parts"]:
        if entry["key"] == part.key:
            found: dict[str, Any] = entry
            return found
    raise FogError(f"the run has no part {part.key}", hint="it was begun with another experiment.yaml")


def _state(manifest: Mapping[str, Any], part: Part) -> str:
    return str(_entry(manifest, part)["state"])


def _goal(part: Part) -> dict[str, float | None]:
    goal = part.policy.goal
    return {
        "mean_s": None if goal.mean is None else goal.mean / 1e3,
        "p95_s": None if goal.p95 is None else goal.p95 / 1e3,
    }


def _plain(facts: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if facts is None else dict(facts)


def _try_to_save(folder: RunFolder, manifest: Mapping[str, Any]) -> None:
    try:
        folder.save_manifest(manifest)
    except FogError:
        return  # the disk may be what stopped the run; what was written before stays


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")
