"""`fogctl doctor` says what works here, on any system, with or without root."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fogctl.cli.testbed import app
from fogctl.testbed import doctor
from fogctl.testbed.doctor import Finding, Verdict


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FOGCTL_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


def find(findings: list[Finding], about: str) -> Finding:
    return next(finding for finding in findings if finding.about == about)


def test_without_root_it_says_so_and_what_works_anyway(monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.platform != "linux":
        pytest.skip("being root matters on Linux only")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    findings = doctor.examine()
    assert find(findings, "root").verdict is Verdict.lacking
    assert "sudo" in find(findings, "root").fix
    assert find(findings, "kinds").says.startswith("sim testbeds work here; virtual ones lack: root")


def test_off_linux_nothing_of_linux_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(doctor, "LinuxHost", lambda: pytest.fail("asked Linux"))
    findings = doctor.examine()
    assert find(findings, "system").verdict is Verdict.lacking
    assert find(findings, "kinds").says == "sim testbeds work here; virtual ones lack: system"


def test_every_finding_that_is_not_ok_says_how_to_mend_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert [f for f in doctor.examine() if f.verdict is not Verdict.ok and not f.fix] == []


def test_a_folder_of_which_nothing_is_left_is_a_problem(
    own_state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sys.platform != "linux":
        pytest.skip("looks for leftovers on Linux only")
    (own_state / "city").mkdir(parents=True)
    found = [finding for finding in doctor.leftovers(own_state) if "city" in finding.says]
    assert [(finding.verdict, finding.fix) for finding in found] == [
        (Verdict.problem, "sudo fogctl down city")
    ]


def test_a_delay_line_without_its_folder_is_a_problem(own_state: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("looks for leftovers on Linux only")
    socket = f"{own_state}/gone/net/delayline.sock"
    code = "import time; print('ready', flush=True); time.sleep(600)"
    sleep = [sys.executable, "-c", code, "fognetem.delayline", socket]
    with subprocess.Popen(sleep, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"  # before that its command line may still be empty
            found = [finding for finding in doctor.leftovers(own_state) if socket in finding.says]
        finally:
            child.kill()
    assert [finding.fix for finding in found] == [f"kill {child.pid}"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["status"], 2, "no testbed is up"),
        (["down"], 2, "no testbed is up"),
        (["status", "city"], 1, "testbed city is not up"),
        (["up"], 2, "testbed.yaml"),
        (["exec", "pi1", "--testbed", "city", "--", "true"], 1, "testbed city is not up"),
        (["down", "city", "--all"], 2, "--all"),
    ],
)
def test_without_a_testbed_each_command_says_what_to_do(
    arguments: list[str], code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, arguments)
    assert (getattr(done.exception, "exit_code", None), said in str(done.exception)) == (code, True), (
        done.exception
    )


@pytest.mark.parametrize("command", ["up", "down", "status", "exec", "doctor"])
def test_every_command_has_help_with_an_example(command: str) -> None:
    done = CliRunner().invoke(app, [command, "--help"])
    assert done.exit_code == 0
    assert "Examples:" in done.output
    assert f"fogctl {command}" in done.output
