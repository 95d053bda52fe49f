"""What docs/apps.md shows is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fogctl.errors import FogError
from fogctl.runtime.app import load, shipped_apps
from fogctl.runtime.app_file import AppFile, StageEntry

GUIDE = (Path(__file__).resolve().parents[3] / "docs" / "apps.md").read_text(encoding="utf-8")
CODE = "def clean(readings, options): ...\ndef mean_by_hour(cleaned, options): ...\n"


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    found = re.search(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)
    assert found is not None
    (tmp_path / "app.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    return found[1]


def test_every_key_is_explained() -> None:
    for model in (AppFile, StageEntry):
        for key in model.model_fields:
            assert f"| `{key}` |" in GUIDE, key


def test_the_app_of_the_guide_loads(example: str) -> None:
    Path("app.yaml").write_text(example)
    app = load(Path("app.yaml"))
    assert [stage.name for stage in app.stages] == ["clean", "hourly"]
    assert app.numbered == ("readings", "cleaned")


def test_the_sentence_of_the_guide_is_what_is_said(example: str) -> None:
    Path("app.yaml").write_text(example.replace("mean_by_hour", "mean_by_our"))
    with pytest.raises(FogError) as caught:
        load(Path("app.yaml"))
    assert f"```\n{caught.value}\n```" in GUIDE


def test_every_shipped_app_and_stage_and_stream_is_named() -> None:
    for name in shipped_apps():
        app = load(name)
        assert f"| `{name}` |" in GUIDE
        for stage in app.stages:
            assert f"`{stage.name}`" in GUIDE
            assert {f"`{stream}`" in GUIDE for stream in (*stage.inputs, stage.output)} == {True}
