"""`fogctl pi` as a user meets it, as far as no board is needed."""

from __future__ import annotations

import io
import json
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from rich.console import Console
from typer.testing import CliRunner

from fogctl import data
from fogctl.cli.main import app
from fogctl.cli.pi_run import chosen_playbooks, outcome_view, run_all, variables
from fogctl.config import testbed
from fogctl.errors import BAD_INPUT, FogError
from fogctl.pi.findings import Finding, Severity
from fogctl.pi.known_hosts import KnownHosts
from fogctl.pi.outcome import HostOutcome, Outcome
from fogctl.pi.preflight import Preflight
from fogctl.pi.provision import PLAYBOOKS, RESET, Run, Show

runner = CliRunner()
INIT = ["init", "shelf", "--kind", "k3s", "--hosts", "hosts.txt", "--no-up"]
COLLECTION = data.path("playbooks") / "ansible_collections" / "fogctl" / "pi"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOGCTL_KNOWN_HOSTS", str(tmp_path / "known_hosts"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "hosts.txt").write_text("cloud root@127.0.0.1:1\npi1 127.0.0.1:2\n")
    assert runner.invoke(app, INIT).exit_code == 0
    return tmp_path


def refused(*arguments: str) -> FogError:
    result = runner.invoke(app, ["pi", *arguments])
    assert isinstance(result.exception, FogError), result.output
    return result.exception


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("check", "--only", "pi9"), "there is no host pi9"),
        (("trust", "--replace", "pi9"), "there is no host pi9"),
        (("provision", "-p", "prepair"), 'did you mean "prepare"'),
        (("provision", "--artefacts", "nowhere"), "no such folder"),
        (("provision", "--vars", "nowhere.yaml"), "no such file"),
        (("provision", "-p", "images"), "images_archives"),
        (("check", "--testbed", "nowhere.yaml"), "no such file"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(arguments: tuple[str, ...], said: str, here: Path) -> None:
    error = refused(*arguments)
    assert error.exit_code == BAD_INPUT
    assert said in str(error)


def test_boards_that_are_switched_off_block(here: Path) -> None:
    result = runner.invoke(app, ["pi", "check", "-o", "json"])
    assert result.exit_code == 3
    told = json.loads(result.stdout)
    assert told["blocked"] == ["cloud", "pi1"]
    assert all("nothing listens at" in each["what"] for each in told["findings"])
    assert not (here / "known_hosts").exists()


def test_the_inventory_is_ansibles(here: Path) -> None:
    result = runner.invoke(app, ["pi", "inventory"])
    hosts = json.loads(result.stdout)["all"]["children"]
    assert hosts["control"]["hosts"]["cloud"]["ansible_port"] == 1


def test_playbooks_run_in_their_own_order() -> None:
    assert chosen_playbooks(None) == ["prepare", "netem", "k3s"]
    assert chosen_playbooks(["monitor", "prepare"]) == ["prepare", "monitor"]


def test_a_dry_run_of_fixing_says_what_would_be_done_and_checks_once(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [Finding("pi1", "swap", Severity.warn, "it swaps to /var/swap", "swap to memory", safe=True)]
    asked: list[str] = []

    def examined(*_: object) -> Preflight:
        asked.append("examined")
        return Preflight((), tuple(found))

    def played(wanted: Run, _: Show) -> Outcome:
        asked.append(" ".join(wanted.arguments()))
        return Outcome({"pi1": HostOutcome(changed=1, changes=["Stop using them"])})

    monkeypatch.setattr("fogctl.cli.pi.make_known", lambda *_: [])
    monkeypatch.setattr("fogctl.cli.pi.examine", examined)
    monkeypatch.setattr("fogctl.cli.pi_run.run", played)
    told = json.loads(runner.invoke(app, ["pi", "check", "--fix", "--dry-run", "-o", "json"]).stdout)
    assert asked == ["examined", "--limit pi1 --check --tags swap"]
    assert told["fix"]["playbooks"]["prepare"]["pi1"]["changes"] == ["Stop using them"]
    asked.clear()
    assert runner.invoke(app, ["pi", "check", "--fix"]).exit_code == 0
    assert asked == ["examined", "--limit pi1 --tags swap", "examined"]


def test_what_is_json_anyway_has_a_table_for_people(here: Path) -> None:
    assert "root │ 127.0.0.1" in runner.invoke(app, ["pi", "inventory", "-o", "table"]).stdout
    assert "node_memory_" in runner.invoke(app, ["pi", "dashboard", "-o", "table"]).stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "prepare_swap: off\nprepare_swop: off",
            'vars.yaml:2: no role has a variable "prepare_swop" (did you mean',
        ),
        ("- prepare_swap", "must be a mapping"),
        ("images_archives: stage.tar", "must name an archive for each processor"),
        ("images_archives: {aarch64: stage.tar}", 'unknown processor "aarch64"'),
        ("images_archives: {arm64: stage.tar}", "stage.tar is not there"),
    ],
)
def test_a_wrong_file_of_variables_is_refused_before_a_board_is_asked(
    text: str, said: str, here: Path
) -> None:
    (here / "vars.yaml").write_text(text)
    error = refused("provision", "--vars", "vars.yaml", "-p", "images")
    assert error.exit_code == BAD_INPUT
    assert said in str(error)


def test_files_are_looked_for_beside_the_file_that_names_them(here: Path) -> None:
    """Ansible runs in a folder of its own, where a relative name means nothing."""
    (here / "settings").mkdir()
    (here / "settings/stage.tar").write_text("")
    file = here / "settings/vars.yaml"
    file.write_text(
        "images_archives: {arm64: stage.tar}\nk3s_artefacts: release\nansible_become_timeout: 9\n"
    )
    given = variables(testbed.load(here / "testbed.yaml"), Path("settings/vars.yaml"), None, images=True)
    assert given["images_archives"] == {"arm64": str(here / "settings/stage.tar")}
    assert given["k3s_artefacts"] == str(here / "settings/release")


@dataclass
class Playbooks:
    """In Ansible's place: a run ends with the first host that is broken, as it does one by one."""

    broken: tuple[str, ...]
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def __call__(self, wanted: Run, show: Show) -> Outcome:  # noqa: ARG002
        self.asked.append(tuple(wanted.hosts))
        stop = next((host for host in wanted.hosts if host in self.broken), None)
        made = {host: HostOutcome(changed=1, cut_off=stop is not None) for host in wanted.hosts}
        if stop is not None:
            made[stop] = HostOutcome(failed="it is broken")
        return Outcome(made)


@pytest.mark.parametrize(
    ("keep_going", "broken", "asked", "words"),
    [
        (
            True,
            ("pi1", "pi2"),
            [("cloud", "pi1", "pi2", "pi3"), ("cloud", "pi2", "pi3"), ("cloud", "pi3")],
            "dffd",
        ),
        (False, ("pi1",), [("cloud", "pi1", "pi2", "pi3")], "sfss"),
        (True, ("cloud",), [("cloud", "pi1", "pi2", "pi3")], "fsss"),  # without a server nobody can join
    ],
)
def test_one_agent_that_fails_does_not_keep_the_next_from_joining(
    keep_going: bool,
    broken: tuple[str, ...],
    asked: list[tuple[str, ...]],
    words: str,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (here / "hosts.txt").write_text("cloud 10.0.0.1\npi1 10.0.0.2\npi2 10.0.0.3\npi3 10.0.0.4\n")
    assert runner.invoke(app, [*INIT, "--force"]).exit_code == 0
    played = Playbooks(broken)
    monkeypatch.setattr("fogctl.cli.pi_run.run", played)
    bed = testbed.load(here / "testbed.yaml")
    nodes = [node.name for node in bed.nodes]
    known = KnownHosts(here / "known_hosts")
    done = run_all(bed, known, ["k3s"], nodes, {}, dry_run=False, keep_going=keep_going)
    assert played.asked == asked
    assert list(done.failures) == list(broken)
    console = Console(file=io.StringIO(), width=100)
    console.print(*outcome_view(done, dry_run=False))
    assert "".join(re.findall(r"(\w)\w+ +│\n", console.file.getvalue())) == words  # type: ignore[attr-defined]


def test_the_dashboard_asks_only_for_what_is_collected() -> None:
    shown = json.loads(runner.invoke(app, ["pi", "dashboard"]).stdout)
    asked = [target["expr"] for panel in shown["panels"] for target in panel["targets"]]
    settings = (COLLECTION / "roles/monitor/tasks/main.yml").read_text()
    collectors = {
        "node_cpu_": "cpu",
        "node_memory_": "meminfo",
        "node_thermal_zone_": "thermal_zone",
        "node_pressure_": "pressure",
        "node_network_": "netdev",
        "node_filesystem_": "filesystem",
        "node_timex_": "timex",
    }
    for text in asked:
        known = [name for prefix, name in collectors.items() if prefix in text]
        assert known or "fogctl_stage_" in text, text
        assert all(f"--collector.{name}" in settings for name in known)


def test_the_dashboard_is_laid_out_as_grafana_wants_it() -> None:
    shown = json.loads(runner.invoke(app, ["pi", "dashboard"]).stdout)
    assert {"uid", "title", "schemaVersion", "time", "templating", "panels"} <= set(shown)
    assert [each["type"] for each in shown["templating"]["list"]] == ["datasource"]
    panels = shown["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        assert panel["datasource"] == {"type": "prometheus", "uid": "${source}"}
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (place["x"] + column, place["y"] + row)
            for column in range(place["w"])
            for row in range(place["h"])
        }
        assert not cells & taken
        taken |= cells


@pytest.mark.parametrize("role", [*PLAYBOOKS, RESET])
def test_each_role_says_what_it_takes_and_gives_it_a_default(role: str) -> None:
    folder = COLLECTION / "roles" / role
    specs = yaml.safe_load((folder / "meta/argument_specs.yml").read_text())["argument_specs"]
    defaults = yaml.safe_load((folder / "defaults/main.yml").read_text())
    assert set(specs["main"]["options"]) == set(defaults)
    assert (COLLECTION / "playbooks" / f"{role}.yml").is_file()


def test_k3s_is_pinned_by_checksum_for_both_architectures() -> None:
    pinned = yaml.safe_load((COLLECTION / "roles/k3s/defaults/main.yml").read_text())["k3s_sha256"]
    assert {arch: sorted(files) for arch, files in pinned.items()} == {
        "amd64": ["binary", "images"],
        "arm64": ["binary", "images"],
    }
    assert all(len(text) == 64 for files in pinned.values() for text in files.values())


def test_tasks_that_touch_the_token_are_never_logged() -> None:
    for file in (COLLECTION / "roles/k3s/tasks").glob("*.yml"):
        for task in _tasks(yaml.safe_load(file.read_text())):
            text = json.dumps({key: value for key, value in task.items() if key not in ("name", "block")})
            if (
                "k3s_token_file" in text
                or ("k3s/token" in text and "token-file" not in text)
                or "k3s.yaml" in text
                or "kubeconfig_file" in text
            ):
                assert task.get("no_log") is True, task["name"]


@pytest.mark.parametrize("role", [*PLAYBOOKS, RESET])
def test_what_only_asks_is_asked_in_a_dry_run_too_or_left_out_on_purpose(role: str) -> None:
    """A command that is skipped only because of check mode is told as a change."""
    for file in (COLLECTION / "roles" / role / "tasks").glob("*.yml"):
        for task in _unguarded(yaml.safe_load(file.read_text())):
            programs = {"ansible.builtin.command", "ansible.builtin.script", "ansible.builtin.raw"}
            if programs & set(task) and task.get("changed_when") is False:
                assert task.get("check_mode") is False, f"{file.name}: {task['name']}"


def _unguarded(found: list[dict[str, object]]) -> list[dict[str, object]]:
    """The tasks that a dry run comes to."""
    every = []
    for task in found:
        if "not ansible_check_mode" not in str(task.get("when")):
            every.append(task)
            for part in ("block", "rescue", "always"):
                nested = task.get(part)
                if isinstance(nested, list):
                    every += _unguarded(nested)
    return every


def _tasks(found: list[dict[str, object]]) -> list[dict[str, object]]:
    every = []
    for task in found:
        every.append(task)
        for part in ("block", "rescue", "always"):
            nested = task.get(part)
            if isinstance(nested, list):
                every += _tasks(nested)
    return every
