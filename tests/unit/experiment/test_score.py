"""Scores are made from the folder alone, and are what a hand would reckon."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fogmodels import elasticity

from fogctl.errors import FogError
from fogctl.experiment import folder as folders
from fogctl.experiment import score as scores
from fogctl.experiment import series
from fogctl.experiment.folder import RunFolder

sys.path.append(str(Path(__file__).parent))
import recorded_run as story


def scored(folder: RunFolder) -> dict[str, dict[str, Any]]:
    made = scores.score(folder.manifest(), folder.metrics(), folder.events())
    json.dumps(made, allow_nan=False)
    return {entry["policy"]: entry for entry in made["policies"]}


def test_who_reacts_later_is_scored_worse_by_exactly_that_much(tmp_path: Path) -> None:
    by_policy = scored(story.recorded(tmp_path / "run"))
    slow, quick = by_policy["slow"], by_policy["quick"]
    # Two replicas too few (too many) from the step up (down) until the policy reacts, of 120 s; the ideal
    # curve is smoothed, so the step itself is a few seconds wide.
    assert slow["accuracy_u"] == pytest.approx(2 * 20 / 120, rel=0.25)
    assert slow["timeshare_o"] == pytest.approx(20 / 120, rel=0.4)
    assert quick["accuracy_u"] < 0.4 * slow["accuracy_u"]
    assert slow["reconfigurations"] == quick["reconfigurations"] == 2
    assert slow["excess_time"] == pytest.approx(3 / 120)
    # One replica always, two more during the 39 s between the steps; paid until the last record is done.
    assert quick["node_minutes"] == pytest.approx((123 + 2 * 39) / 60, abs=0.05)
    assert quick["core_minutes"] == pytest.approx(0.16 * quick["node_minutes"])
    assert slow["largest_lag"] > quick["largest_lag"] > 0


def test_the_elasticity_is_the_models(tmp_path: Path) -> None:
    folder = story.recorded(tmp_path / "run", {"late": 11})
    manifest = folder.manifest()
    [stage] = series.series(manifest, manifest["parts"][0], folder.metrics()).values()
    assert stage.ideal is not None
    expected = elasticity.score(stage.at_s, stage.replicas, stage.ideal, end_s=120.0)
    [late] = scored(folder).values()
    for name in ("accuracy_u", "accuracy_o", "timeshare_u", "timeshare_o"):
        assert late[name] == pytest.approx(getattr(expected, name))


def test_shares_count_half_a_node_costs_half_and_the_least_cpu_is_the_judge(tmp_path: Path) -> None:
    folder = story.recorded(tmp_path / "run", {"quick": 0})
    manifest = folder.manifest()
    # Half the share sustains half: 50 records/s need half a node, and 200 three nodes at three quarters.
    by_share = [[share, [share * mst for mst in story.MST]] for share in (0.25, 0.5, 0.75, 1.0)]
    folder.save_manifest({**manifest, "mst_shares": {"nearest": by_share}})
    [whole] = scored(folder).values()
    assert whole["weighted_node_minutes"] == pytest.approx(whole["node_minutes"])
    # Half a node too much for 80 of 120 s; 0.75 of a node for the 40 s between.
    assert whole["accuracy_o_cpu"] == pytest.approx((0.5 * 80 + 0.75 * 40) / 120, rel=0.1)
    assert whole["accuracy_u_cpu"] == pytest.approx(0.0, abs=0.05)
    table = folder.metrics()
    at = table.schema.names.index("share")
    folders.metrics.save(table.set_column(at, "share", pa.array([0.5] * table.num_rows)), folder.metrics_file)
    [half] = scored(folder).values()
    assert half["node_minutes"] == whole["node_minutes"]
    assert half["weighted_node_minutes"] == pytest.approx(whole["node_minutes"] / 2)
    assert half["accuracy_o_cpu"] == pytest.approx(0.0, abs=0.05)
    assert half["accuracy_u_cpu"] == pytest.approx(0.75 * 40 / 120, rel=0.25)


def test_medians_are_over_repetitions_and_losses_add_up(tmp_path: Path) -> None:
    folder = story.recorded(tmp_path / "run", repetitions=3)
    manifest = folder.manifest()
    for lost, entry in enumerate(manifest["parts"][:3]):
        entry["finished_s"] = 120.0 + 12 * lost
        entry["audit"]["lost"] = lost
    folder.save_manifest(manifest)
    made = scores.score(folder.manifest(), folder.metrics(), folder.events())
    slow = made["policies"][0]
    assert slow["repetitions"] == 3
    assert slow["excess_time"] == pytest.approx(0.1)
    assert slow["lost"] == 3
    assert any("2 of 1000 records are lost" in warning for warning in made["warnings"])


def test_a_part_that_was_not_finished_is_not_scored_and_events_of_a_lost_attempt_do_not_count(
    tmp_path: Path,
) -> None:
    folder = story.recorded(tmp_path / "run")
    before = scored(folder)["quick"]["decisions"]
    folder.log().write({"at_s": 1.0, "what": "decision", "part": "quick.1", "attempt": 0, "reason": "lost"})
    manifest = folder.manifest()
    manifest["parts"][0]["state"] = "lost"
    folder.save_manifest(manifest)
    assert list(scored(folder)) == ["quick"]
    assert scored(folder)["quick"]["decisions"] == before == 2


def test_a_saturated_host_and_a_late_replay_are_said(tmp_path: Path) -> None:
    folder = story.recorded(tmp_path / "run")
    manifest = folder.manifest()
    manifest["tolerances"]["host_busy"] = 0.4
    manifest["parts"][0]["replay"]["error_ms_p99"] = 900.0
    folder.save_manifest(manifest)
    warnings = scores.score(manifest, folder.metrics(), folder.events())["warnings"]
    assert any("the host was saturated in 100% of the seconds" in warning for warning in warnings)
    assert any("the replay was late (p99 900 ms)" in warning for warning in warnings)


def test_without_an_ideal_curve_accuracy_is_unknown_and_cost_is_not(tmp_path: Path) -> None:
    folder = story.recorded(tmp_path / "run")
    folder.save_manifest({**folder.manifest(), "mst": {}})
    quick = scored(folder)["quick"]
    assert quick["accuracy_o"] is None
    assert quick["accuracy_o_cpu"] is None
    assert quick["node_minutes"] > 0


def test_the_goal_is_met_only_if_every_limit_holds(tmp_path: Path) -> None:
    folder = story.recorded(tmp_path / "run")
    assert scored(folder)["quick"]["goal_met"] is False  # p95 0.9 s, asked 0.8 s
    manifest = folder.manifest()
    manifest["parts"][1]["goal"] = {"mean_s": 0.5}
    folder.save_manifest(manifest)
    assert scored(folder)["quick"]["goal_met"] is True


def test_smoothing_keeps_the_mean_and_follows_a_step() -> None:
    at_s = np.arange(200.0)
    rate = np.where(at_s < 100, 10.0, 50.0)
    smooth = series.smoothed(at_s, rate)
    assert smooth[20] == 10.0
    assert smooth[180] == 50.0
    assert smooth.mean() == pytest.approx(rate.mean(), rel=0.01)


def test_a_folder_that_is_written_is_refused_to_a_second_writer(tmp_path: Path) -> None:
    folder = story.recorded(tmp_path / "run")
    assert not folder.in_use()
    with folder.held():
        assert folder.in_use()
        with pytest.raises(FogError, match="run run is being written by process") as refused, folder.held():
            pass
    assert refused.value.exit_code == 3
    assert not folder.in_use()


def test_a_run_is_found_by_folder_name_or_beginning(tmp_path: Path) -> None:
    story.recorded(tmp_path / "story-1")
    folder = story.recorded(tmp_path / "story-2")
    assert folders.find(folder.path, tmp_path).name == "story-2"
    assert folders.find("story-1", tmp_path).name == "story-1"
    assert folders.find("story", tmp_path).name == "story-2"
    with pytest.raises(FogError, match='there is no run "nothing"'):
        folders.find("nothing", tmp_path)
