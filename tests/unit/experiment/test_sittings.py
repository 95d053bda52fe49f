"""One experiment run in several sittings: what is kept of each, and the medians over all of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fogctl.cli.experiment import app
from fogctl.errors import FogError
from fogctl.experiment import compare, score
from fogctl.experiment.folder import RunFolder
from tests.unit.experiment.recorded_run import recorded


def sitting(path: Path, seed: int, late: dict[str, int]) -> RunFolder:
    """A scored run of one repetition with this seed."""
    folder = recorded(path, late)
    manifest = folder.manifest()
    manifest["parts"] = [{**entry, "seed": seed} for entry in manifest["parts"]]
    manifest["source"] = "/somewhere/on/this/machine/story.yaml"
    folder.save_manifest(manifest)
    folder.save_scores(score.score(manifest, folder.metrics(), folder.events()))
    return folder


def test_sittings_count_as_repetitions_of_one_run(tmp_path: Path) -> None:
    late = {101: (20, 2), 102: (30, 4), 103: (10, 6)}
    for seed, (slow, quick) in late.items():
        sitting(tmp_path / "runs" / f"story-{seed}", seed, {"slow": slow, "quick": quick}).keep(
            tmp_path / "kept"
        )
    kept = [str(path) for path in sorted((tmp_path / "kept").iterdir())]
    ran = CliRunner().invoke(app, ["compare", "--together", *kept, "-o", "json"])
    assert ran.exit_code == 0, ran.output
    slow, quick = json.loads(ran.stdout)["policies"]
    assert (slow["policy"], slow["seeds"], quick["seeds"]) == ("slow", [101, 102, 103], [101, 102, 103])
    middle = sitting(tmp_path / "alone", 101, {"slow": 20, "quick": 4}).scores()["parts"]
    for row, part in zip((slow, quick), middle, strict=True):
        assert row["scores"]["node_minutes"] == pytest.approx(part["node_minutes"])
        assert row["scores"]["accuracy_u"] == pytest.approx(part["accuracy_u"])
    assert slow["change"] == {}
    assert quick["change"]["accuracy_u"].startswith("−")


def test_changes_are_over_the_seeds_that_both_policies_have(tmp_path: Path) -> None:
    both = sitting(tmp_path / "both", 101, {"slow": 20, "quick": 4})
    more = sitting(tmp_path / "more", 102, {"quick": 30})
    rows = compare.together([(f.name, f.manifest(), f.scores()) for f in (both, more)])
    alone = compare.together([(both.name, both.manifest(), both.scores())])
    assert [row["seeds"] for row in rows] == [[101], [101, 102]]
    assert rows[1]["change"] == alone[1]["change"]
    assert rows[1]["scores"] != alone[1]["scores"]


def test_a_kept_run_is_small_says_nothing_of_its_machine_and_keeps_every_event(tmp_path: Path) -> None:
    folder = sitting(tmp_path / "runs" / "story-1", 1, {"slow": 20, "quick": 2})
    record = folder.keep(tmp_path / "kept")
    assert {file.name for file in record.path.iterdir()} == {
        "manifest.json",
        "scores.json",
        "events.jsonl.gz",
    }
    assert record.events() == folder.events()
    assert record.scores() == folder.scores()
    assert record.manifest()["source"] == "story.yaml"
    assert compare.replicas(folder, record) == []  # without metrics nothing is said about replicas
    with pytest.raises(FogError, match="there already"):
        folder.keep(tmp_path / "kept")


@pytest.mark.parametrize("command", [["report"], ["run", "--like"]])
def test_what_needs_metrics_is_refused_to_a_copy_and_leaves_it_as_it_is(
    tmp_path: Path, command: list[str]
) -> None:
    record = sitting(tmp_path / "runs" / "story-1", 1, {"slow": 20, "quick": 2}).keep(tmp_path / "kept")
    before = {file.name: file.read_bytes() for file in record.path.iterdir()}
    with pytest.raises(FogError, match="is a small copy of a run, without the metrics that this needs"):
        CliRunner().invoke(app, [*command, str(record.path)], catch_exceptions=False)
    assert {file.name: file.read_bytes() for file in record.path.iterdir()} == before


def test_runs_of_different_experiments_have_no_medians(tmp_path: Path) -> None:
    one, other = (sitting(tmp_path / name, 1, {"slow": 20}) for name in ("one", "other"))
    other.save_manifest({**other.manifest(), "kind": "sim"})
    with pytest.raises(FogError, match="story on sim and story on virtual have no common medians"):
        compare.together([(f.name, f.manifest(), f.scores()) for f in (one, other)])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"config": "name: story\napp: {use: taxi, partitions: 8}\n"}, "differ in app"),
        ({"config": "name: story\nguard: {max_replicas: 4}\n"}, "differ in app and guard"),
        ({"testbed": {"nodes": [{"name": "pi1", "role": "edge", "cores": 0.4}]}}, "differ in the nodes' CPU"),
    ],
)
def test_runs_of_different_settings_have_no_medians(
    tmp_path: Path, changed: dict[str, object], said: str
) -> None:
    one, other = (sitting(tmp_path / name, 1, {"slow": 20}) for name in ("one", "other"))
    same = "# only words\nseed: 7\nname: story\napp: {use: taxi, partitions: 10}\n"
    one.save_manifest({**one.manifest(), "config": same})
    other.save_manifest({**other.manifest(), "config": same.replace("7", "8"), **changed})
    with pytest.raises(FogError, match=f"runs one and other {said}, so they have no common medians"):
        compare.together([(f.name, f.manifest(), f.scores()) for f in (one, other)])
    other.save_manifest({**one.manifest(), "config": same.replace("7", "8").replace("words", "other words")})
    [row] = compare.together([(f.name, f.manifest(), f.scores()) for f in (one, other)])
    assert row["seeds"] == [1, 1]


def test_a_policy_with_other_options_is_another_policy(tmp_path: Path) -> None:
    one, other = (sitting(tmp_path / name, 1, {"slow": 20}) for name in ("one", "other"))
    manifest = other.manifest()
    manifest["parts"] = [{**entry, "options": {"spare": 0.5}} for entry in manifest["parts"]]
    other.save_manifest(manifest)
    with pytest.raises(FogError, match="differ in the options of slow"):
        compare.together([(f.name, f.manifest(), f.scores()) for f in (one, other)])
