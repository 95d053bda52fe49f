"""The manifest of a run: what it was begun with, and the state of each part; resumed, what was lost."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fogctl.errors import FogError
from fogctl.experiment import host
from fogctl.experiment.experiment import Experiment, Part
from fogctl.experiment.folder import FORMAT, RunFolder
from fogctl.experiment.metrics import read_lines
from fogctl.experiment.plant import Plant
from fogctl.experiment.recorder import append
from fogctl.testbed import state as state_folder


def begin(experiment: Experiment, plant: Plant, folder: RunFolder) -> dict[str, Any]:
    """A new manifest, or the old one with what was lost said and marked."""
    if folder.manifest_file.is_file():
        manifest = folder.manifest()
        for part in experiment.parts:
            found = entry(manifest, part)
            if found["state"] in ("running", "failed"):
                rows = read_lines(folder.part_lines(part))
                reached = max(rows["at_s"].to_pylist(), default=0.0)
                sentence = (
                    f"{part}: lost when the run ended after {reached:.0f} s of it; run again from its start"
                )
                manifest["lost"].append(sentence)
                found["state"] = "lost"
                append(
                    folder.events_file, {"at_s": reached, "what": "lost", "part": part.key, "said": sentence}
                )
        manifest["state"] = "running"
        manifest["resumed"] = [*manifest.get("resumed", []), now()]
        folder.save_manifest(manifest)
        return manifest
    config = experiment.config
    manifest = {
        "format": FORMAT,
        "run": folder.name,
        "experiment": experiment.name,
        "kind": plant.kind,
        "state": "running",
        "began": now(),
        "command": " ".join(["fogctl", *sys.argv[1:]]),
        "source": str(experiment.source),
        "config": experiment.text,
        "overrides": {
            "kind": experiment.testbed.kind.value,
            "policies": [use.label for use in experiment.policies],
            "repetitions": config.repetitions,
            "seed": config.seed,
            "testbed": _bed(experiment),
        },
        "seed": config.seed,
        "window_s": config.guard.window,
        **plant.facts(),
        "versions": host.versions(),
        "host": host.facts(),
        "app": experiment.app.name,
        "stages": [stage.name for stage in experiment.app.stages],
        "stage_facts": {
            stage.name: {
                "partitions": stage.partitions,
                "slots": stage.slots,
                "freshness_s": stage.freshness_ms / 1e3,
            }
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


def entry(manifest: Mapping[str, Any], part: Part) -> dict[str, Any]:
    """What the manifest says of a part."""
    for each in manifest["parts"]:
        if each["key"] == part.key:
            found: dict[str, Any] = each
            return found
    raise FogError(f"the run has no part {part.key}", hint="it was begun with another experiment.yaml")


def state(manifest: Mapping[str, Any], part: Part) -> str:
    """waiting, running, done, lost or failed."""
    return str(entry(manifest, part)["state"])


def _bed(experiment: Experiment) -> dict[str, Any] | None:
    """The testbed as it was, if it is not the one that the file names: the run can be read without it."""
    if not experiment.bed_given:
        return None
    return state_folder.to_json(state_folder.Record(experiment.testbed, experiment.testbed.latencies, None))


def _goal(part: Part) -> dict[str, float | None]:
    goal = part.policy.goal
    return {
        "mean_s": None if goal.mean is None else goal.mean / 1e3,
        "p95_s": None if goal.p95 is None else goal.p95 / 1e3,
    }


def try_to_save(folder: RunFolder, manifest: Mapping[str, Any]) -> None:
    """Save the manifest if the disk takes it."""
    try:
        folder.save_manifest(manifest)
    except FogError:
        return  # the disk may be what stopped the run; what was written before stays


def now() -> str:
    """The time with its zone, as the manifest has it."""
    return datetime.now().astimezone().isoformat(timespec="seconds")
