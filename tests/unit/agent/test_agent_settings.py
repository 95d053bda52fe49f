"""The agent's configuration file: every guard rail can be set, and mistakes get one clear sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from fogctl.agent.policy import make, names, settings, summary
from fogctl.agent.settings import AgentSettings, Guard, load
from fogctl.errors import FogError

EVERYTHING = """
every: 5s
options: {spare: 0.2}
guard:
  window: 20s
  stale_after: 40s
  stabilise: 15s
  stabilise_share: 2s
  min_replicas: 2
  max_replicas: 6
  stages: {nearest: {min_replicas: 1, max_replicas: 4}}
  most_added: 3
  most_removed: 2
  largest_share_step: 30%
  scale_in_delay: 2min
  headroom: 20%
  catch_up: 90s
  pause_while_catching_up: false
  ineffective_after: 3
  least_gain: 10%
  ineffective_pause: 5min
  excluded: ["22:00-06:30", "sun 08:00-12:00"]
  host_memory_free: 10%
  node_memory_free: 8%
  cool_off: 30s
"""


def test_every_guard_rail_can_be_set(tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text(EVERYTHING)
    found = load(file)
    assert found.every == 5.0
    assert found.guard.scale_in_delay == 120.0
    assert found.guard.largest_share_step == pytest.approx(0.3)
    for name in Guard.model_fields:
        assert f"  {name}:" in EVERYTHING, f"{name} is not in the example"
        assert getattr(found.guard, name) != getattr(Guard(), name)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("guard: {stabilize: 30s}", 'unknown key "stabilize" (did you mean "stabilise"?'),
        ("every: 10", "the unit is missing (did you mean 10s?)"),
        ("every: 0s", "must be more than 0"),
        ("guard: {min_replicas: 5, max_replicas: 2}", "at least 5 and at most 2 replicas"),
        ("guard: {min_replicas: 3, stages: {a: {max_replicas: 2}}}", "a would have at least 3 and at most 2"),
        ('guard: {excluded: ["25:00-06:00"]}', "is not a period"),
        ("guard: {headroom: 120%}", "out of range"),
        ("guard: 7", "must be a mapping"),
    ],
)
def test_a_mistake_is_one_sentence_with_file_and_line(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text(text)
    with pytest.raises(FogError) as failed:
        load(file)
    assert sentence in str(failed.value)
    assert "agent.yaml:1" in str(failed.value)


def test_an_empty_configuration_is_the_default(tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text("{}")
    assert load(file) == AgentSettings()


def test_every_policy_can_be_made_and_says_what_it_does() -> None:
    for name in names():
        made = make(name)
        assert made.name == name
        assert summary(name)
        for setting, default in settings(name).items():
            assert getattr(make(name, {setting: default}), setting) == getattr(made, setting)


def test_an_unknown_policy_or_setting_is_refused_with_what_there_is() -> None:
    with pytest.raises(FogError, match='did you mean "gesscale"'):
        make("gescale")
    with pytest.raises(FogError, match="policy thr-nlaware has no setting scale_out"):
        make("thr-nlaware", {"scale_out": 0.8})
    with pytest.raises(FogError, match="valid number"):
        make("thr-nlaware", {"scale_out_above": "much"})
    assert make("thr-nlaware", {"scale_out_above": "0.8"}).scale_out_above == 0.8
