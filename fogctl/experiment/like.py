"""What a run teaches of its stages: parameters to simulate it with, and what n nodes would sustain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import pyarrow as pa

from fogctl.errors import FogError
from fogctl.experiment import experiment as experiments
from fogctl.experiment.experiment import Experiment
from fogctl.experiment.folder import Manifest, RunFolder
from fogctl.experiment.ideal import SHARES, Sustained, distances_by_node
from fogctl.experiment.series import finished, part_events
from fogctl.experiment.sim_plant import parameters_of, sustained_by
from fogctl.experiment.watched import Watched
from fogctl.runtime.app import Mode, Stage
from fogctl.sim.fit_batches import FEWEST, SeenBatch, fit_batches
from fogctl.sim.parameters import StageParameters

LEAST_SETS = 3
"""Parameters learned on fewer node sets than this say nothing about others."""


def parameters_like(folder: RunFolder) -> dict[str, StageParameters]:
    """By stage what all finished parts of a run teach; FogError if they do not teach enough."""
    lesson = Lesson(folder.manifest(), folder.metrics(), folder.events())
    found = {}
    for stage in experiments.of_manifest(lesson.manifest).app.stages:
        try:
            found[stage.name] = lesson.parameters(stage)
        except ValueError as error:
            raise FogError(
                f"run {folder.name} does not teach how stage {stage.name} behaves: {error}",
                hint="simulate it with the usual parameters: fogctl experiment run NAME --kind sim",
            ) from error
    return found


def with_ideal(experiment: Experiment, folder: RunFolder) -> Manifest:
    """The manifest of a run with what n nodes sustain: as it has that already, or as its batches show."""
    manifest = folder.manifest()
    if "mst" not in manifest:
        manifest |= sustained_like(experiment, manifest, folder.metrics(), folder.events()).facts()
        folder.save_manifest(manifest)
    return manifest


def sustained_like(
    experiment: Experiment,
    manifest: Mapping[str, Any],
    table: pa.Table,
    events: Sequence[Mapping[str, Any]],
) -> Sustained:
    """What the best 1, 2, … nodes sustain once they are warm, as the run itself showed: its ideal curve.

    Policies are judged by the same parameters that the run is simulated with (`parameters_like`).
    """
    lesson = Lesson(manifest, table, events)
    found, counts = {}, []
    for stage in experiment.app.stages:
        try:
            parameters = lesson.parameters(stage, LEAST_SETS)
        except ValueError as error:
            counts.append(f"{stage.name}: {error}")
            continue
        found[stage.name] = {
            share: sustained_by(stage, parameters, experiment.testbed, share) for share in SHARES
        }
        batches = len(lesson.batches(lesson.parts(stage)))
        counts.append(f"{stage.name}: {batches} batches, noise {parameters.noise:.0%}")
    said = "; ".join(counts)
    return Sustained(found, f"this run's batches ({said})" if found else f"not known ({said})")


@dataclass(frozen=True, slots=True)
class Lesson:
    """A run as something to learn from."""

    manifest: Mapping[str, Any]
    table: pa.Table
    events: Sequence[Mapping[str, Any]]

    def parameters(self, stage: Stage, least_sets: int = 1) -> StageParameters:
        """How a stage behaves; ValueError if too little is to be seen, or it ran on too few sets of nodes."""
        if stage.mode is Mode.real_time:
            raise ValueError("in real-time mode there are no batches to learn from")
        parts = self.parts(stage)
        batches = self.batches(parts)
        sets = {tuple(rtt_ms for rtt_ms, _ in batch.replicas) for batch in batches if not batch.change}
        if 0 < len(sets) < least_sets:
            raise ValueError("too few node sets were seen")
        nodes = self.manifest["testbed"]["nodes"]
        quotas = [float(node["cores"]) for node in nodes if node["role"] == "edge" and node["cores"]]
        known = parameters_of(
            stage, replace(StageParameters(), reference_cores=quotas[0]) if quotas else StageParameters()
        )
        takes = _takes(part_events(self.events, entry) for entry in finished(self.manifest))
        registers = [seconds for part in parts for seconds in part.registering_s()]
        stalls = replace(
            known.stalls,
            registers_s=median(registers) if registers else known.stalls.registers_s,
            add_takes_s=median(takes["out"]) if takes.get("out") else known.stalls.add_takes_s,
            remove_takes_s=median(takes["in"]) if takes.get("in") else known.stalls.remove_takes_s,
        )
        return fit_batches(batches, stage.partitions, stage.slots, replace(known, stalls=stalls))

    def parts(self, stage: Stage) -> list[Watched]:
        """The stage in every finished part."""
        edge = [node for node in self.manifest["testbed"]["nodes"] if node["role"] == "edge"]
        quotas = {node["name"]: node["cores"] for node in edge}
        return [Watched.of(self.table, entry, stage.name, quotas) for entry in finished(self.manifest)]

    def batches(self, parts: Iterable[Watched]) -> list[SeenBatch]:
        """Their batches, without those of a host that was too busy, as long as enough are left.

        What a batch takes on a host that has no CPU left says more about the host.
        """
        far = distances_by_node(self.manifest)
        limit = float(self.manifest["tolerances"]["host_busy"])
        batches = [batch for part in parts for batch in part.batches(far)]
        quiet = [seen for seen, busy in batches if not busy > limit]
        return quiet if len(quiet) >= FEWEST else [seen for seen, _ in batches]


def _takes(parts: Iterable[Sequence[Mapping[str, Any]]]) -> dict[str, list[float]]:
    """Seconds that changes took, by their direction; replicas that go together take as long as one."""
    found: dict[str, list[float]] = {}
    for part in parts:
        asked = {}
        for event in part:
            if event.get("what") == "decision" and event.get("direction") in ("out", "in"):
                asked[event.get("decision")] = event
            elif event.get("what") == "applied" and (decision := asked.get(event.get("decision"))):
                found.setdefault(str(decision["direction"]), []).append(float(event["seconds"]))
    return found
