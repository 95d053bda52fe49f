"""A run of ansible-runner, as fogctl tells it: what it reports, and what it must not take for success."""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ansible_runner
import pytest

from fogctl.errors import FAILED, FogError
from fogctl.pi.provision import Run, run


@dataclass
class Played:
    """In ansible-runner's place: plays events, ends as it is told, and remembers what it was given."""

    events: Sequence[Mapping[str, Any]] = ()
    rc: int = 0
    printed: str = ""
    given: dict[str, Any] = field(default_factory=dict)

    def __call__(self, event_handler: Callable[[Mapping[str, Any]], bool], **given: Any) -> Any:
        self.given = given
        for event in self.events:
            event_handler(event)
        return type("Done", (), {"rc": self.rc, "status": "", "stdout": io.StringIO(self.printed)})


def told(kind: str, host: str, **res: Any) -> dict[str, Any]:
    return {"event": kind, "event_data": {"host": host, "task": "Do it", "res": res}}


def stats(**counts: Any) -> dict[str, Any]:
    return {"event": "playbook_on_stats", "event_data": counts}


def playing(monkeypatch: pytest.MonkeyPatch, played: Played) -> Played:
    monkeypatch.setattr(ansible_runner, "run", played)
    return played


def quiet(_: str) -> None:
    pass


def test_a_run_that_breaks_off_after_some_tasks_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    playing(
        monkeypatch, Played([told("runner_on_ok", "pi1")], rc=250, printed="ERROR! Unexpected Exception\n")
    )
    with pytest.raises(
        FogError, match="did not come to the end of the playbook netem: ERROR! Unex"
    ) as caught:
        run(Run("netem", {}, {}, ["pi1"]), quiet)
    assert caught.value.exit_code == FAILED


def test_what_failed_before_a_run_broke_off_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    playing(monkeypatch, Played([told("runner_on_failed", "pi1", msg="no room")], rc=250))
    assert run(Run("netem", {}, {}, ["pi1"]), quiet).failures == {"pi1": "Do it: no room"}


def test_what_was_rescued_has_not_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    playing(monkeypatch, Played([told("runner_on_failed", "pi1", msg="not yet"), stats(ok={"pi1": 2})]))
    assert run(Run("netem", {}, {}, ["pi1"]), quiet).failures == {}


def test_variables_are_nobody_elses_to_see(monkeypatch: pytest.MonkeyPatch) -> None:
    played = playing(monkeypatch, Played())
    seen: list[tuple[dict[str, Any], int]] = []

    def looked(event_handler: Callable[[Mapping[str, Any]], bool], **given: Any) -> Any:
        words = shlex.split(given["cmdline"])
        file = Path(words[words.index("--extra-vars") + 1].removeprefix("@"))
        seen.append((json.loads(file.read_text()), file.parent.stat().st_mode & 0o777))
        return played(event_handler, **given)

    monkeypatch.setattr(ansible_runner, "run", looked)
    run(Run("k3s", {}, {"k3s_server_settings": {"datastore-endpoint": "secret"}}, ["pi1"]), quiet)
    assert seen == [({"k3s_server_settings": {"datastore-endpoint": "secret"}}, 0o700)]
    assert "secret" not in str(played.given)
