"""experiment.yaml: what is accepted, what is refused and in which words, and the files that ship."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import numpy as np
import pytest

from fogctl.config import schema, source
from fogctl.config.schema import Schema
from fogctl.errors import FogError
from fogctl.experiment import experiment
from fogctl.experiment.load import map_of
from fogctl.testbed.model import Kind

GOOD = """\
name: mine
testbed: {use: gesscale, kind: sim, nodes: 4}
app: taxi
trace:
  make: {days: 0.05, rides_per_day: 20000}
  speed: 60
policies: [thr-nlaware, {name: gesscale, label: paper}]
"""


def loaded(tmp_path: Path, text: str) -> experiment.Experiment:
    file = tmp_path / "experiment.yaml"
    file.write_text(text)
    return experiment.load(file)


@pytest.mark.parametrize("name", ["gesscale", "gesscale-day", "mead", "mead-bc", "mead-quick", "smoke"])
def test_a_shipped_experiment_loads_and_is_valid_by_its_schema(name: str) -> None:
    found = experiment.load(name)
    assert found.name == name
    file = experiment.shipped()[name]
    jsonschema.Draft202012Validator(schema.json_schema(Schema.experiment)).validate(source.read(file).data)
    marker, _, where = file.read_text().splitlines()[0].partition("$schema=")
    assert marker == "# yaml-language-server: "
    assert (file.parent / where).is_file()


def test_shipped_gesscale_has_the_rate_of_the_paper_and_fits_in_fifteen_minutes() -> None:
    found = experiment.load("gesscale")
    load = found.load(found.parts[0].seed)
    assert load.duration_s <= 900
    # About a million rides in two days, ten times faster, three records each.
    assert load.records / load.duration_s == pytest.approx(1_000_000 * 3 * 10 / 172_800, rel=0.05)
    assert {"thr-nlunaware", "thr-nlaware", "mdl-nlunaware", "gesscale"} <= {p.label for p in found.policies}


def test_a_file_is_loaded_with_its_short_forms(tmp_path: Path) -> None:
    found = loaded(tmp_path, GOOD)
    assert [policy.label for policy in found.policies] == ["thr-nlaware", "paper"]
    assert found.testbed.kind is Kind.sim
    assert found.start == (("nearest", ("pi1",)),)
    assert [str(part) for part in found.parts] == ["thr-nlaware, repetition 1", "paper, repetition 1"]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("policies:", "polices:", 'unknown key "polices" (did you mean "policies"?'),
        ("use: gesscale", "use: gescale", 'there is no testbed "gescale" (did you mean "gesscale"?'),
        ("app: taxi", "app: taxy", 'there is no app "taxy" (did you mean "taxi"?'),
        ("speed: 60", "speed: -1", "trace.speed: must be a number above 0"),
        ("label: paper", "label: thr-nlaware", '"thr-nlaware" is there twice'),
        ("  make: {days: 0.05, rides_per_day: 20000}\n", "", "exactly one of make, file, bursts, recorded"),
        ("app: taxi", "app: {use: taxi, start: {near: [pi1]}}", 'the app has no stage "near"'),
        ("app: taxi", "app: {use: taxi, start: {nearest: [pi9]}}", "there is no edge node pi9"),
        ("name: mine", "name: My run", "cannot name an experiment"),
        ("name: mine", "name: mine\nrepetitions: 0", "repetitions"),
        ("name: mine", "name: mine\nfaults: [{at: 50%, kill: pi9}]", "there is no edge node pi9"),
        ("name: mine", "name: mine\nfaults: [{at: 50%}]", "give kill or cut, and a node"),
        ("name: mine", "name: mine\nfaults: [{at: 50%, kill: pi1, cut: pi2}]", "give kill or cut"),
        ("name: mine", "name: mine\nfaults: [{at: 50%, kill: pi1, lasts: 0s}]", "lasts must be more than 0"),
        ("name: mine", "name: mine\ndrain: 5", "the unit is missing (did you mean 5s?)"),
    ],
)
def test_a_mistake_is_named_with_file_line_key_and_fix(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert old in GOOD
    with pytest.raises(FogError) as refused:
        loaded(tmp_path, GOOD.replace(old, new))
    assert says in str(refused.value)
    assert str(refused.value).startswith(f"{tmp_path}/experiment.yaml:")
    assert refused.value.exit_code == 2


def test_repetitions_differ_in_their_trace_and_policies_do_not(tmp_path: Path) -> None:
    found = loaded(tmp_path, GOOD + "repetitions: 2\n")
    first, second, third, _ = (found.load(part.seed).due_s for part in found.parts)
    assert np.array_equal(first, second)
    assert not np.array_equal(first[:100], third[:100])


@pytest.mark.parametrize(("rate", "scv", "decay"), [(12.0, 1.0, 0.0), (5.0, 4.0, 0.9), (30.0, 8.0, 0.97)])
def test_a_burst_has_the_rate_variability_and_correlation_asked_for(
    rate: float, scv: float, decay: float
) -> None:
    process = map_of(rate, scv, decay)
    assert process.rate == pytest.approx(rate)
    assert process.scv == pytest.approx(scv)
    one, two = process.acf([1, 2])
    assert one == pytest.approx(decay * (1 - 1 / scv) / 2)
    assert two == pytest.approx(decay * one)


def test_recorded_arrivals_are_played_at_the_rate_asked_for(tmp_path: Path) -> None:
    np.save(tmp_path / "times.npy", np.cumsum(np.random.default_rng(1).exponential(3.0, 500)))
    trace = "trace:\n  recorded: {file: times.npy, rate: 20}\n"
    found = loaded(tmp_path, GOOD[: GOOD.index("trace:")] + trace + "policies: [mead]\n")
    load = found.load(found.parts[0].seed)
    assert load.records / load.duration_s == pytest.approx(20, rel=0.02)


def test_recorded_arrivals_of_a_shipped_experiment_are_looked_for_where_the_command_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = experiment.load("mead-bc")
    with pytest.raises(FogError, match=r"bc_paug89.npz"):
        found.load(1)
    np.savez(tmp_path / "bc_paug89.npz", iats=np.random.default_rng(1).exponential(0.003, 10_000))
    load = found.load(1)
    assert load.records == 8400
    assert load.records / load.duration_s == pytest.approx(14.0, rel=0.01)
    assert {policy.goal.mean for policy in found.policies} == {None, 300.0}
    assert {policy.goal.p95 for policy in found.policies} == {None, 500.0}


def test_options_of_the_command_line_replace_what_the_file_says(tmp_path: Path) -> None:
    file = tmp_path / "experiment.yaml"
    file.write_text(GOOD)
    found = experiment.load(file, policies=["paper"], repetitions=3, seed=7)
    assert [(part.policy.label, part.seed) for part in found.parts] == [
        ("paper", 7),
        ("paper", 8),
        ("paper", 9),
    ]
    with pytest.raises(FogError, match='no policy "papr"'):
        experiment.load(file, policies=["papr"])
