"""Two changes of one app at once: the second is told who holds the lock."""

from __future__ import annotations

from pathlib import Path

import pytest

from fogctl.errors import REFUSED, FogError
from fogctl.testbed import lock


def test_a_second_change_is_told_who_holds_the_lock_and_what_it_stands_for(tmp_path: Path) -> None:
    with lock.held(tmp_path / "taxi", "app taxi", command="the supervisor"):
        assert "the supervisor" in (lock.holder(tmp_path / "taxi") or "")
        with (
            pytest.raises(FogError, match="app taxi is being changed by `the supervisor`") as refused,
            lock.held(tmp_path / "taxi", "app taxi", patience_s=0.1),
        ):
            pass
    assert refused.value.exit_code == REFUSED
    assert lock.holder(tmp_path / "taxi") is None


def test_a_lock_of_one_app_does_not_hold_up_another(tmp_path: Path) -> None:
    with lock.held(tmp_path / "taxi", "app taxi"), lock.held(tmp_path / "logs", "app logs"):
        assert lock.holder(tmp_path / "taxi") is not None
