"""The guides to the agent and its policies are true: examples run, defaults and names are all there."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest
import yaml

from fogctl.agent import guards, policy
from fogctl.agent.events import MemoryLog
from fogctl.agent.loop import Agent
from fogctl.agent.settings import AgentSettings, Guard
from fogctl.agent.store import MemoryStore

DOCS = Path(__file__).parents[3] / "docs"


def block(page: str, language: str) -> str:
    found = re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    assert len(found) == 1
    return found[0]


def test_the_new_policy_of_the_guide_is_found_by_its_entry_point_and_scales_an_app(
    make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "my_policies"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "keep_fresh.py").write_text(block("policies.md", "python"))
    import tomllib

    points = tomllib.loads(block("policies.md", "toml"))["project"]["entry-points"]
    about = tmp_path / "my_policies-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-policies\nVersion: 1\n")
    lines = [
        f"[{group}]\n" + "\n".join(f"{k} = {v}" for k, v in named.items()) for group, named in points.items()
    ]
    (about / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    try:
        assert "keep-fresh" in policy.names()
        assert policy.summary("keep-fresh").startswith("One node more when batches are long")
        made = policy.make("keep-fresh", {"out_above": 0.7})
        plant = make.plant(rate=lambda at_s: 110.0 if at_s < 200 else 10.0)
        guard = Guard(window="10s", stabilise="10s", scale_in_delay="10s")
        agent = Agent(plant, "toy", made, AgentSettings(every="5s", guard=guard), MemoryStore(), MemoryLog())
        agent.run(180.0)
        assert len(plant.placed.stage("work").replicas) >= 2
        agent.run(600.0)
        assert len(plant.placed.stage("work").replicas) == 1
    finally:
        for name in [name for name in sys.modules if name.startswith("my_policies")]:
            del sys.modules[name]


def test_the_guide_shows_every_guard_rail_with_its_default() -> None:
    text = block("agent.md", "yaml")
    written = yaml.safe_load(text)
    assert AgentSettings.model_validate(written) == AgentSettings()
    missing = set(Guard.model_fields) - set(written["guard"]) - {"max_replicas"}
    assert not missing
    assert "max_replicas" in text


def test_the_guide_counts_the_guard_rails_right() -> None:
    assert len(guards.RAILS) == 11
    assert "eleven guard rails" in (DOCS / "agent.md").read_text()


def test_every_shipped_policy_is_in_the_guide() -> None:
    text = (DOCS / "policies.md").read_text()
    assert [name for name in policy.BUILT_IN if f"`{name}`" not in text] == []
