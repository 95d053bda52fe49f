"""`fogctl init --hosts` after the file is written: who is provisioned, who is not, and how it ends."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from fogctl.cli.main import app
from fogctl.errors import FAILED, REFUSED, FogError
from fogctl.pi.findings import Finding, Severity
from fogctl.pi.outcome import HostOutcome, Outcome
from fogctl.pi.preflight import Preflight
from fogctl.pi.provision import Run, Show


@dataclass
class Shelf:
    """In place of the boards, of Ansible and of the cluster; remembers what was asked."""

    unfit: tuple[str, ...] = ()
    mendable: bool = False
    broken: tuple[str, ...] = ()
    asked: list[str] = field(default_factory=list)
    reboots: list[object] = field(default_factory=list)

    def examine(self, *_: object) -> Preflight:
        self.asked.append("check")
        found = [
            Finding(name, "clock", Severity.block, "it is wrong", "set it", self.mendable)
            for name in self.unfit
        ]
        return Preflight((), tuple(found))

    def run(self, wanted: Run, _: Show) -> Outcome:
        self.asked.append(" ".join([wanted.playbook, *wanted.arguments()]))
        self.reboots.append(wanted.variables.get("prepare_reboot"))
        if wanted.tags:
            self.unfit = ()
        made = {
            host: HostOutcome(changed=1, failed="no room" if host in self.broken else None)
            for host in wanted.hosts
        }
        return Outcome(made)

    def bring_up(self, *_: object) -> str:
        self.asked.append("up")
        return "it is up"


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOGCTL_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "hosts.txt").write_text("cloud 10.0.0.1\npi1 10.0.0.2\npi2 10.0.0.3\n")
    made = Shelf()
    monkeypatch.setattr("fogctl.cli.pi.make_known", lambda *_: [])
    monkeypatch.setattr("fogctl.cli.pi.examine", made.examine)
    monkeypatch.setattr("fogctl.cli.pi_run.run", made.run)
    monkeypatch.setattr("fogctl.cli.cluster_init.bring_up", made.bring_up)
    return made


def init(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["init", "shelf", "--hosts", "hosts.txt", "-o", "json", *arguments])


def on(hosts: str, *playbooks: str) -> list[str]:
    return [f"{playbook} --limit {hosts}" for playbook in playbooks]


ALL = ("prepare", "netem", "k3s")


def test_fit_boards_are_provisioned_and_their_cluster_is_brought_up(shelf: Shelf) -> None:
    done = init()
    assert done.exit_code == 0, done.output
    assert shelf.asked == ["check", *on("cloud,pi1,pi2", *ALL), "up"]
    told = json.loads(done.stdout)
    assert (told["up"], told["blocked"], told["provisioned"]["changed"]) == (True, [], 9)


def test_an_unfit_board_stops_all_before_one_is_changed(shelf: Shelf) -> None:
    shelf.unfit = ("pi1",)
    done = init()
    assert done.exit_code == REFUSED
    assert shelf.asked == ["check"]
    assert json.loads(done.stdout)["blocked"] == ["pi1"]


def test_the_others_go_on_if_that_is_wished_and_it_still_is_no_success(shelf: Shelf) -> None:
    shelf.unfit = ("pi1",)
    assert init("--keep-going").exit_code == REFUSED
    assert shelf.asked == ["check", *on("cloud,pi2", *ALL)]


def test_without_a_control_node_nobody_goes_on(shelf: Shelf) -> None:
    shelf.unfit = ("cloud",)
    assert init("--keep-going").exit_code == REFUSED
    assert shelf.asked == ["check"]


def test_what_is_safe_to_mend_is_mended_with_the_users_variables_and_checked_again(shelf: Shelf) -> None:
    shelf.unfit, shelf.mendable = ("pi1", "pi2"), True
    Path("vars.yaml").write_text("prepare_reboot: false\n")
    assert init("--fix", "--vars", "vars.yaml").exit_code == 0
    assert shelf.asked[:3] == ["check", "prepare --limit pi1,pi2 --tags time", "check"]
    assert set(shelf.reboots) == {False}


def test_a_board_that_fails_ends_the_run_at_its_playbook(shelf: Shelf) -> None:
    shelf.broken = ("pi2",)
    done = init()
    assert isinstance(done.exception, FogError)
    assert done.exception.exit_code == FAILED
    assert "pi2: no room" in str(done.exception)
    assert shelf.asked == ["check", *on("cloud,pi1,pi2", "prepare")]
    shelf.broken, shelf.asked = (), []
    assert init().exit_code == 0  # the same command goes on


def test_with_keep_going_a_board_that_failed_is_left_out_of_what_follows(shelf: Shelf) -> None:
    shelf.broken = ("pi2",)
    done = init("--keep-going")
    assert isinstance(done.exception, FogError)
    assert shelf.asked == ["check", *on("cloud,pi1,pi2", "prepare"), *on("cloud,pi1", "netem", "k3s")]


def test_wrong_wishes_are_refused_before_a_board_is_asked(shelf: Shelf) -> None:
    assert isinstance(init("--artefacts", "nowhere").exception, FogError)
    assert shelf.asked == []


def test_a_dry_run_says_how_to_see_what_would_be_changed_on_the_boards(shelf: Shelf) -> None:
    done = CliRunner().invoke(app, ["init", "shelf", "--hosts", "hosts.txt", "--dry-run"])
    assert done.exit_code == 0, done.output
    assert "fogctl pi provision --testbed testbed.yaml --dry-run" in " ".join(done.stdout.split())
    assert (shelf.asked, Path("testbed.yaml").exists()) == ([], False)
