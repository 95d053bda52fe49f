from __future__ import annotations

import json
from pathlib import Path

import pytest

from fogctl.runtime import app as apps
from fogctl.runtime import app_copy
from fogctl.runtime.app_options import with_options

YAML = """name: heat
code: {code}
stages:
  - {{name: mean, inputs: [readings], output: means, options: {{window_s: 10}}}}
  - {{name: alarm, inputs: [means], output: alarms}}
"""
CODE = "def mean(readings, options): ...\ndef alarm(means, options): ...\n"


@pytest.fixture(params=["app.py", "code/app.py", "../shared/app.py"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    made = tmp_path / "heat"
    made.mkdir()
    (made / "app.yaml").write_text(YAML.format(code=request.param))
    code = (made / request.param).resolve()
    code.parent.mkdir(exist_ok=True)
    code.write_text(CODE)
    return made


def test_a_copy_loads_as_the_same_app_and_knows_where_it_comes_from(folder: Path, tmp_path: Path) -> None:
    app = apps.load(folder)
    copy = app_copy.keep(app, tmp_path / "state")
    loaded = apps.load(copy.file)
    assert loaded.stages == app.stages
    assert loaded.code == copy.code
    assert (tmp_path / "state") in loaded.code.parents
    assert app_copy.origin(loaded.code) == str(app.code)
    assert app_copy.changed_stages(loaded, app) == {}


def test_later_edits_are_seen_as_changes_and_leave_the_copy_alone(folder: Path, tmp_path: Path) -> None:
    copy = app_copy.keep(apps.load(folder), tmp_path / "state")
    yaml = folder / "app.yaml"
    yaml.write_text(yaml.read_text().replace("window_s: 10", "window_s: 20"))
    assert app_copy.changed_stages(apps.load(copy.file), apps.load(folder)) == {"mean": "options"}
    code = apps.load(folder).code
    code.write_text(CODE + "# better\n")
    changed = app_copy.changed_stages(apps.load(copy.file), apps.load(folder))
    assert changed == {"mean": "options, app.py", "alarm": "app.py"}
    newer = app_copy.keep(apps.load(folder), tmp_path / "state")
    assert newer.file != copy.file
    app_copy.forget_others(newer, tmp_path / "state")
    assert newer.code.exists()
    assert not copy.file.exists()


def test_the_copy_a_stage_still_runs_from_is_kept(folder: Path, tmp_path: Path) -> None:
    """A stage that did not change was not started anew, and loads its function again when its query does."""
    state = tmp_path / "state"
    first = app_copy.keep(apps.load(folder), state)
    for stage in ("mean", "alarm"):
        (state / stage).mkdir()
        (state / stage / "spec.json").write_text(json.dumps({"code": str(first.code)}))
    yaml = folder / "app.yaml"
    yaml.write_text(yaml.read_text().replace("window_s: 10", "window_s: 20"))
    second = app_copy.keep(apps.load(folder), state)
    (state / "mean" / "spec.json").write_text(json.dumps({"code": str(second.code)}))
    app_copy.forget_others(second, state)
    assert first.code.exists()
    app_copy.forget(second, state)
    assert not second.code.exists()
    assert first.code.exists()
    app_copy.forget_others(second, state, running=False)
    assert not first.code.exists()


def test_options_given_at_the_command_are_part_of_the_copy(folder: Path, tmp_path: Path) -> None:
    app, state = apps.load(folder), tmp_path / "state"
    plain = app_copy.keep(app, state)
    given = with_options(app, ["mean.window_s=30"])
    copy = app_copy.keep(given, state)
    assert copy.file != plain.file
    assert apps.load(copy.file).stages == given.stages
    assert apps.load(copy.file).code == copy.code
    assert app_copy.changed_stages(apps.load(plain.file), given) == {"mean": "options"}
    assert app_copy.changed_stages(apps.load(copy.file), app) == {"mean": "options"}
    assert folder.joinpath("app.yaml").read_text().count("30") == 0
