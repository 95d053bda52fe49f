"""A new app's own test passes as written, and fails when the app is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from fogctl.runtime.new_app import new_app


def test_a_new_app_s_test_runs_and_judges(tmp_path: Path) -> None:
    """Both in one Spark, which takes most of the time."""
    new_app(tmp_path / "right", "right")
    new_app(tmp_path / "wrong", "wrong")
    code = tmp_path / "wrong" / "app.py"
    spoilt = code.read_text().replace(">= least", "> least")
    assert spoilt != code.read_text()
    code.write_text(spoilt)
    argv = [sys.executable, "-m", "pytest", "-q", "--import-mode=importlib", "-rA", "right", "wrong"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=250, check=False)
    told = done.stdout + done.stderr
    assert told.count("PASSED right/test_app.py::") == 3, told
    assert told.count("FAILED wrong/test_app.py::") == 2, told
