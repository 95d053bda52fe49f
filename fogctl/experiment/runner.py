"""A run, step by step: check, bring up, verify, replay each part under its policy, drain, audit."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from fogctl.agent import policy as policies
from fogctl.agent.loop import Agent
from fogctl.agent.policy import Policy
from fogctl.agent.settings import AgentSettings
from fogctl.agent.store import MemoryStore, Store
from fogctl.errors import FAILED, REFUSED, FogError
from fogctl.experiment import agent_store, calibrate, like
from fogctl.experiment import manifest as manifests
from fogctl.experiment.experiment import Experiment, Part, PolicyUse
from fogctl.experiment.folder import RunFolder
from fogctl.experiment.load import Load
from fogctl.experiment.metrics import RowWriter
from fogctl.experiment.plant import Plant, Session
from fogctl.experiment.recorder import PartLog, Recorder


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
        _policy(use, 0)
    loaded = experiment.parts[0].seed
    load = experiment.load(loaded)
    manifest = manifests.begin(experiment, plant, folder)
    try:
        _warn(manifest, plant.check(), watcher)
        try:
            plant.up(watcher.say)
            watcher.say("measuring the network")
            _verify(experiment, plant, folder, manifest)
            known = plant.sustained()
            if known is not None:
                manifest |= known.facts()
            if experiment.config.calibrate and "calibration" not in manifest:
                watcher.say(f"calibrating for {calibrate.duration_s(experiment):.0f} s")
                manifest["calibration"] = _calibrated(experiment, plant, folder)
                folder.save_manifest(manifest)
            todo = [part for part in experiment.parts if manifests.state(manifest, part) != "done"]
            for seed, parts in itertools.groupby(enumerate(todo, 1), key=lambda each: each[1].seed):
                if seed != loaded:
                    loaded, load = seed, experiment.load(seed)
                _warn(manifest, load.notes, watcher)
                for number, part in parts:
                    _part(experiment, plant, folder, manifest, part, load, watcher, (number, len(todo)))
        finally:
            plant.down(watcher.say)
    except OSError as error:
        manifest["state"] = "failed"
        manifests.try_to_save(folder, manifest)
        raise FogError(
            f"the run stopped: {error.strerror}",
            file=error.filename or folder.path,
            hint=f"mend it, then: fogctl experiment run --resume {folder.path}",
            exit_code=FAILED,
        ) from error
    except BaseException:
        manifest["state"] = "failed"
        manifests.try_to_save(folder, manifest)
        raise
    manifest["state"], manifest["ended"] = "done", manifests.now()
    folder.save_manifest(manifest)
    return like.with_ideal(experiment, folder)


def _policy(use: PolicyUse, seed: int) -> Policy:
    """The policy with its options; one that chooses at random gets the repetition's seed."""
    options = dict(use.options)
    kind: Any = policies.load(use.name)
    if "seed" in getattr(kind, "__dataclass_fields__", {}):
        options.setdefault("seed", seed)
    return policies.make(use.name, options)


def _warn(manifest: dict[str, Any], lines: Iterable[str], watcher: Watcher) -> None:
    """Say what may spoil the run, at once and in its report; once, however often it is found."""
    known = manifest.setdefault("warnings", [])
    for line in lines:
        if line not in known:
            known.append(line)
            watcher.say(f"warning: {line}")


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


def _calibrated(experiment: Experiment, plant: Plant, folder: RunFolder) -> dict[str, Any]:
    """Walk over node sets under overload; answers what the agent learned of each stage."""
    part, load = calibrate.part(experiment), calibrate.load(experiment)
    config = experiment.config
    settings = AgentSettings().model_copy(
        update={"every": config.every, "guard": calibrate.guard_of(experiment)}
    )
    with plant.open(part, load) as session:
        log = PartLog(folder.events_file, part, 1, experiment.app.name, session.target)
        policy = calibrate.Walk(calibrate.WINDOWS * config.guard.window)
        agent = Agent(session.target, experiment.app.name, policy, settings, MemoryStore(), log)
        log.start_s = session.start()
        agent.run(until_s=log.start_s + load.duration_s)
        return calibrate.learned(agent.known)


def _part(
    experiment: Experiment,
    plant: Plant,
    folder: RunFolder,
    manifest: dict[str, Any],
    part: Part,
    load: Load,
    watcher: Watcher,
    place: tuple[int, int],
) -> None:
    """One policy in one repetition, from deployment to audit."""
    entry = manifests.entry(manifest, part)
    entry.update(state="running", began=manifests.now(), attempt=int(entry["attempt"]) + 1)
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
            begin = calibrate.state(manifest["calibration"]) if "calibration" in manifest else None
            store = agent_store.of_part(experiment, folder, part, begin)
            recorder = _replay(experiment, part, session, log, writer, load.duration_s, watcher, store)
            log.start_s = recorder.start_s
            recorder.keep_batches()
            audit = dict(session.audit())
            for event in session.events():
                log.note(event)
            entry.update(finished_s=recorder.finished_s, audit=audit, replay=_plain(session.replay()))
    finally:
        writer.close()
    folder.keep_part(part)
    entry.update(state="done", ended=manifests.now())
    folder.save_manifest(manifest)


def _replay(
    experiment: Experiment,
    part: Part,
    session: Session,
    log: PartLog,
    writer: RowWriter,
    trace_s: float,
    watcher: Watcher,
    store: Store,
) -> Recorder:
    """Send the load while the agent works, then wait until nothing waits any more."""
    config = experiment.config
    settings = AgentSettings().model_copy(  # its fields are validated already
        update={"every": config.every, "options": dict(part.policy.options), "guard": config.guard}
    )
    agent = Agent(
        session.target,
        experiment.app.name,
        _policy(part.policy, part.seed),
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


def _plain(facts: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if facts is None else dict(facts)
