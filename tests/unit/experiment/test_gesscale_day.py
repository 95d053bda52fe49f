"""The gesscale day in the simulator, as a live day taught it: what ours gain over thresholds, how surely."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fogctl.experiment import experiment as experiments
from fogctl.experiment import like, runner
from fogctl.experiment.experiment import Experiment, Part
from fogctl.experiment.folder import RunFolder
from fogctl.experiment.load import Load
from fogctl.experiment.score import score
from fogctl.experiment.series import finished, series
from fogctl.experiment.sim_plant import SimPlant
from fogctl.sim.compare import AGREEMENT, agreement
from fogctl.sim.parameters import StageParameters, Stalls
from fogctl.testbed.model import Kind

LIVE_DAY = StageParameters(
    tau_s=0.2305,
    mu_per_s=85.0,
    beta=0.99,
    k0=3.518,
    k1=2.683,
    theta=1.27,
    reference_cores=0.16,
    noise=0.09,
    cold=0.78,
    warm_cpu_s=9.9,
    driver_s=0.09,
    stalls=Stalls(add_takes_s=20.0, remove_takes_s=2.864),
)
"""As docs/simulator.md tells of the fit, and such that n nodes sustain what docs/results.md says."""
OURS = ("gesscale-spark", "hybrid")
SEED = 1


class Silent:
    """Tells nobody."""

    def say(self, line: str) -> None:
        """Nothing."""

    def part(self, *_: object) -> None:
        """Nothing."""

    def at(self, seconds: float) -> None:
        """Nothing."""


class OtherChance(SimPlant):
    """The same load, but single batches take longer and shorter at other times."""

    def open(self, part: Part, load: Load) -> contextlib.AbstractContextManager[Any]:
        """As if another repetition had the load of this one."""
        return super().open(replace(part, seed=part.seed + 1000), load)


def run(folder: Path, policies: tuple[str, ...], kind: type[SimPlant] = SimPlant) -> RunFolder:
    """One day of it."""
    day: Experiment = experiments.load("gesscale-day", kind=Kind.sim, policies=policies, seed=SEED)
    kept = RunFolder(folder)
    with kept.held():
        runner.run(day, kind(day, {"nearest": LIVE_DAY}), kept, Silent())
    return kept


def scored(folder: RunFolder, manifest: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Scores by policy."""
    parts = score(manifest, folder.metrics(), folder.events())["parts"]
    return {part["policy"]: part for part in parts}


def told(folder: RunFolder) -> tuple[dict[str, Any], dict[str, list[tuple[float, float]]]]:
    """Scores by policy, and when each had how many replicas."""
    manifest, metrics = folder.manifest(), folder.metrics()
    steps = {}
    for entry in finished(manifest):
        nearest = series(manifest, entry, metrics)["nearest"]
        steps[str(entry["policy"])] = list(zip(nearest.at_s, nearest.replicas, strict=True))
    return scored(folder, manifest), steps


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return run(tmp_path_factory.mktemp("day") / "first", ("thr-nlunaware", *OURS))


@pytest.fixture(scope="module")
def first(kept: RunFolder) -> Any:
    return told(kept)


@pytest.mark.parametrize("name", OURS)
def test_ours_need_fewer_nodes_and_changes_than_thresholds_and_lack_nothing(first, name) -> None:
    scores, _ = first
    ours, base = scores[name], scores["thr-nlunaware"]
    assert ours["node_minutes"] <= 0.83 * base["node_minutes"]
    assert ours["reconfigurations"] <= 0.48 * base["reconfigurations"]
    assert ours["accuracy_o"] < base["accuracy_o"]
    assert ours["accuracy_u"] <= base["accuracy_u"]
    assert ours["waiting"] == 0


def test_hybrid_needs_less_cpu_than_gesscale_spark(first) -> None:
    scores, _ = first
    assert scores["hybrid"]["weighted_node_minutes"] < scores["gesscale-spark"]["weighted_node_minutes"]
    assert scores["hybrid"]["accuracy_o_cpu"] < scores["gesscale-spark"]["accuracy_o_cpu"]


def test_what_single_batches_take_by_chance_decides_nothing(first, tmp_path) -> None:
    _, other = told(run(tmp_path / "other", OURS, OtherChance))
    for name in OURS:
        same, _, _ = agreement(first[1][name], other[name], 0.0, 360.0)
        assert same >= AGREEMENT, name


def test_the_ideal_that_a_live_run_learns_judges_as_the_truth_does(kept: RunFolder) -> None:
    """Ten tasks are whole and replicas cold for a minute and more: both must be known of its batches."""
    manifest = kept.manifest()
    day = experiments.of_manifest(manifest)
    learned = like.sustained_like(day, manifest, kept.metrics(), kept.events()).facts()
    for found, truth in zip(learned["mst"]["nearest"], manifest["mst"]["nearest"], strict=True):
        assert found == pytest.approx(truth, rel=0.15)
    exact, judged = scored(kept, manifest), scored(kept, {**manifest, **learned})
    for name in ("thr-nlunaware", *OURS):
        for key in ("accuracy_u", "accuracy_u_cpu"):
            assert judged[name][key] == pytest.approx(exact[name][key], abs=0.05), (name, key)
        for key in ("accuracy_o", "accuracy_o_cpu"):
            assert judged[name][key] == pytest.approx(exact[name][key], abs=0.25), (name, key)
