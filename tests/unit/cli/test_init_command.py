"""`fogctl init`: what it writes, what it refuses, how it says to go on; bringing up is tested with root."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from fogctl.cli import init as init_module
from fogctl.cli.main import app
from fogctl.config import testbed
from fogctl.config.shares import Capacity
from fogctl.errors import BAD_INPUT, FAILED, FogError
from fogctl.testbed.model import Kind


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test in a folder of its own, with a state folder of its own, and not as root."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("FOGCTL_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    return work


def init(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["init", *arguments])


def refused(*arguments: str) -> FogError:
    result = init(*arguments)
    assert isinstance(result.exception, FogError), result.output
    return result.exception


def test_it_writes_a_testbed_that_loads_on_this_host(here: Path) -> None:
    assert init("--no-up").exit_code == 0
    made = testbed.load(here / "testbed.yaml")
    assert made.name == "gesscale"
    assert len(made.nodes) == 12
    assert made.cpu_cores <= Capacity.of_this_host().cores * 0.8 + 1e-9


def test_the_scale_is_a_concrete_number(here: Path) -> None:
    init("--no-up")
    scale = next(
        line for line in (here / "testbed.yaml").read_text().splitlines() if line.startswith("scale:")
    )
    assert scale.startswith("scale: {cpu: ")
    assert "%" in scale


def test_name_nodes_and_example_are_as_asked(here: Path) -> None:
    assert init("mine", "--example", "city", "--nodes", "3", "--no-up").exit_code == 0
    made = testbed.load(here / "testbed.yaml")
    assert made.name == "mine"
    assert [node.name for node in made.nodes][2:] == ["north1", "north2", "harbour1"]


def test_without_root_it_writes_and_says_how_to_go_on(here: Path) -> None:
    result = init()
    assert result.exit_code == 0
    assert (here / "testbed.yaml").exists()
    assert "sudo fogctl up" in result.stdout


def test_a_sim_is_ready_at_once(here: Path) -> None:
    result = init("--kind", "sim")
    assert "nothing to bring up" in result.stdout
    assert testbed.load(here / "testbed.yaml").kind is Kind.sim


def test_it_never_overwrites_without_force(here: Path) -> None:
    (here / "testbed.yaml").write_text("mine\n")
    error = refused("--no-up")
    assert error.exit_code == BAD_INPUT
    assert "testbed.yaml exists already" in str(error)
    assert "--force" in str(error)
    assert (here / "testbed.yaml").read_text() == "mine\n"
    assert sorted(path.name for path in here.iterdir()) == ["testbed.yaml"]


def test_a_matrix_in_the_way_is_not_overwritten_either(here: Path) -> None:
    (here / "latencies.csv").write_text("mine\n")
    assert "latencies.csv exists already" in str(refused("--no-up"))
    assert sorted(path.name for path in here.iterdir()) == ["latencies.csv"]


def test_force_overwrites(here: Path) -> None:
    (here / "testbed.yaml").write_text("mine\n")
    assert init("--no-up", "--force").exit_code == 0
    testbed.load(here / "testbed.yaml")


def test_force_does_not_orphan_a_testbed_that_is_up(here: Path, tmp_path: Path) -> None:
    assert init("old", "--no-up").exit_code == 0
    (tmp_path / "state" / "old").mkdir(parents=True)
    (tmp_path / "state" / "old" / "ledger.jsonl").touch()
    error = refused("new", "--no-up", "--force")
    assert 'describes the testbed "old", which is up' in str(error)
    assert "fogctl down" in str(error)
    assert testbed.load(here / "testbed.yaml").name == "old"


def test_dry_run_writes_nothing_and_shows_everything(here: Path) -> None:
    result = init("--dry-run", "--nodes", "2")
    assert result.exit_code == 0
    assert list(here.iterdir()) == []
    assert '"pi[1-2]"' in result.stdout
    assert "nothing was written" in result.stdout


def test_real_boards_are_refused_without_a_list_of_them(here: Path) -> None:
    error = refused("--kind", "k3s")
    assert error.exit_code == BAD_INPUT
    assert "--hosts" in str(error)
    assert list(here.iterdir()) == []


def test_a_list_of_boards_becomes_a_testbed_file(here: Path) -> None:
    (here / "hosts.txt").write_text("cloud pi@192.168.1.10\npi1 fog@pi1.local:2222 site=north\n")
    assert init("shelf", "--hosts", "hosts.txt", "--no-up").exit_code == 0
    made = testbed.load(here / "testbed.yaml")
    assert (made.name, [node.name for node in made.nodes]) == ("shelf", ["cloud", "pi1"])
    assert [host.address for host in made.hosts] == ["192.168.1.10", "pi1.local"]


def test_the_same_list_again_goes_on_and_another_one_is_refused(here: Path) -> None:
    arguments = ("shelf", "--kind", "k3s", "--hosts", "hosts.txt", "--no-up")
    (here / "hosts.txt").write_text("cloud pi@192.168.1.10\n")
    assert init(*arguments).exit_code == 0
    assert init(*arguments).exit_code == 0
    (here / "hosts.txt").write_text("cloud pi@192.168.1.11\n")
    assert "exists already" in str(refused(*arguments))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("My-City",), 'did you mean "mycity"?'),
        (("--nodes", "100000"), "--nodes"),
        (("--kind", "virtual", "--hosts", "hosts.txt"), "--kind k3s"),
        (("--hosts", "hosts.txt", "--nodes", "3"), "--nodes"),
        (("--testbed", "nowhere/testbed.yaml"), "no such folder"),
        (("--example", "city", "--nodes", "1"), "--nodes must be 2 to"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence_and_nothing_is_written(
    arguments: tuple[str, ...], said: str, here: Path
) -> None:
    error = refused(*arguments)
    assert error.exit_code == BAD_INPUT
    assert said in str(error)
    assert list(here.iterdir()) == []


def test_another_file_gets_a_matrix_of_its_own(here: Path) -> None:
    assert init("--no-up").exit_code == 0
    result = init("second", "--no-up", "--testbed", "second.yaml")
    assert "sudo fogctl up --testbed second.yaml" in result.stdout
    assert testbed.load(here / "second.yaml").name == "second"
    assert (here / "second-latencies.csv").exists()


def test_json_says_what_was_written(here: Path) -> None:
    told = json.loads(init("--no-up", "--nodes", "2", "-o", "json").stdout)
    assert told["nodes"] == ["cloud", "broker", "pi1", "pi2"]
    assert told["files"] == ["testbed.yaml", "latencies.csv"]
    assert told["up"] is False


@pytest.mark.skipif(sys.platform != "linux", reason="virtual nodes need Linux")
def test_when_up_fails_the_file_stays_and_the_sentence_says_what_to_do(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fogctl.testbed import virtual

    monkeypatch.setattr(os, "geteuid", lambda: 0)

    def fail(self: virtual.Virtual, progress: object) -> None:
        raise FogError("no bridge for you", exit_code=FAILED)

    monkeypatch.setattr(virtual.Virtual, "up", fail)
    error = refused()
    assert error.exit_code == FAILED
    assert "no bridge for you" in str(error)
    assert "then run: fogctl up" in str(error)
    testbed.load(here / "testbed.yaml")


def test_a_folder_that_cannot_be_written_gets_a_sentence(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Path, target: Path) -> Path:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(init_module.Path, "replace", fail)
    error = refused("--no-up")
    assert "cannot be written: Permission denied" in str(error)
    assert list(here.iterdir()) == []
