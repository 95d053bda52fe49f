"""`fogctl down --reset`: boards are given back only if somebody agrees, and what came of it is told."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from fogctl.cli.main import app
from fogctl.errors import BAD_INPUT, FAILED, REFUSED, FogError
from fogctl.pi.outcome import HostOutcome, Outcome
from fogctl.pi.provision import Run, Show


@dataclass
class Playbook:
    """In Ansible's place."""

    broken: bool = False
    asked: list[str] = field(default_factory=list)

    def __call__(self, wanted: Run, _: Show) -> Outcome:
        self.asked.append(" ".join([wanted.playbook, *wanted.arguments()]))
        made = {host: HostOutcome(changed=2, changes=["removed /a", "removed /b"]) for host in wanted.hosts}
        if self.broken:
            made["pi1"] = HostOutcome(failed="left behind: /usr/local/sbin/fog-netem")
        return Outcome(made)


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Playbook:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOGCTL_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("FOGCTL_KNOWN_HOSTS", str(tmp_path / "known_hosts"))
    (tmp_path / "hosts.txt").write_text("cloud 10.0.0.1\npi1 10.0.0.2\n")
    assert CliRunner().invoke(app, ["init", "shelf", "--hosts", "hosts.txt", "--no-up"]).exit_code == 0
    made = Playbook()
    monkeypatch.setattr("fogctl.cli.pi_run.run", made)
    return made


def down(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["down", "--reset", *arguments])


def test_nothing_is_taken_off_a_board_until_somebody_agrees(played: Playbook) -> None:
    error = down().exception
    assert isinstance(error, FogError)
    assert error.exit_code == REFUSED
    assert "2 machines" in str(error)
    assert played.asked == []


def test_boards_that_were_prepared_but_never_brought_up_are_given_back(played: Playbook) -> None:
    done = down("--yes", "-o", "json")
    assert done.exit_code == 0, done.output
    assert played.asked == ["reset --limit cloud,pi1"]
    assert json.loads(done.stdout)["reset"]["changed"] == 4


def test_a_dry_run_asks_nobody_and_is_ansibles_check_mode(played: Playbook) -> None:
    done = down("--dry-run")
    assert done.exit_code == 0, done.output
    assert played.asked == ["reset --limit cloud,pi1 --check"]
    assert "pi1: reset: removed /a" in done.stdout


def test_one_board_that_cannot_be_given_back_is_told_after_the_others_are(played: Playbook) -> None:
    played.broken = True
    done = down("--yes", "-o", "json")
    assert isinstance(done.exception, FogError)
    assert done.exception.exit_code == FAILED
    assert "pi1: left behind: /usr/local/sbin/fog-netem" in str(done.exception)
    assert json.loads(done.stdout)["reset"]["playbooks"]["reset"]["cloud"]["changed"] == 2


def test_a_name_of_nothing_that_is_up_says_how_to_name_the_boards(played: Playbook) -> None:
    error = down("shelf", "--yes").exception
    assert isinstance(error, FogError)
    assert "fogctl down --reset --testbed testbed.yaml" in str(error)
    assert played.asked == []


def test_a_testbed_without_machines_has_none_to_give_back(played: Playbook) -> None:
    Path("model.yaml").write_text("name: x\nkind: sim\nnodes: [{name: cloud, role: control, board: host}]\n")
    error = down("--testbed", "model.yaml", "--yes").exception
    assert isinstance(error, FogError)
    assert error.exit_code == BAD_INPUT
    assert played.asked == []
