"""`up` mends what is missing and only that, beside other testbeds, with changed files, after reboots."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fogctl.testbed import state
from fogctl.testbed.cgroups import detect
from fogctl.testbed.host import LinuxHost
from fogctl.testbed.running import Running
from fogctl.testbed.steps import AddGroup, EnableController

Fogctl = Callable[..., subprocess.CompletedProcess[str]]
Write = Callable[..., Path]
Snapshot = Callable[[], dict[str, object]]

pytestmark = pytest.mark.alone


def told(done: subprocess.CompletedProcess[str]) -> dict[str, list[str]]:
    assert done.returncode == 0, done.stderr
    answer: dict[str, list[str]] = json.loads(done.stdout)
    return answer


def delete_namespace(name: str) -> None:
    subprocess.run(["ip", "netns", "del", name], check=True)


def test_up_twice_changes_nothing(fogctl: Fogctl, testbed_file: Write, snapshot: Snapshot) -> None:
    testbed_file()
    before = snapshot()
    assert told(fogctl("up", "-o", "json"))["made"]
    between = snapshot()
    assert told(fogctl("up", "-o", "json"))["made"] == []
    assert snapshot() == between
    assert fogctl("down").returncode == 0
    assert snapshot() == before
    again = fogctl("down")
    assert (again.returncode, "was not up" in again.stdout) == (0, True)


def test_up_mends_exactly_what_was_taken_away(fogctl: Fogctl, testbed_file: Write, name: str) -> None:
    testbed_file()
    assert fogctl("up").returncode == 0
    running = Running.load(name)
    subprocess.run(["ip", "-n", f"fog-{name}-pi1", "link", "del", "mgmt0"], check=True)
    Path(f"/etc/netns/fog-{name}-pi2/hosts").unlink()
    group = running.groups("pi2")[0]
    running.host.remove_group(group)
    seen = fogctl("status", "-o", "json")
    assert (seen.returncode, json.loads(seen.stdout)["state"]) == (1, "half-built")
    missing = json.loads(seen.stdout)["missing"]
    dry = told(fogctl("up", "--dry-run", "-o", "json"))
    assert dry["made"] == missing
    assert told(fogctl("up", "-o", "json"))["made"] == missing
    assert [text.split()[0] for text in missing[:3]] == ["interface", "file", "control"]
    assert all(group in text or "pi1" in text or "pi2/hosts" in text for text in missing)
    assert fogctl("status").returncode == 0


def test_a_namespace_made_anew_has_its_latencies_again(
    fogctl: Fogctl, testbed_file: Write, name: str
) -> None:
    testbed_file(rtt="60ms")
    assert fogctl("up").returncode == 0
    delete_namespace(f"fog-{name}-pi1")
    assert f"network namespace fog-{name}-pi1" in told(fogctl("up", "-o", "json"))["made"]
    assert fogctl("status").returncode == 0
    serve = "import socket; s = socket.create_server(('pi1', 5)); print('ready', flush=True); s.accept()"
    connect = (
        "import socket, time; t = time.monotonic(); socket.create_connection(('pi1', 5), 30);"
        "print((time.monotonic() - t) * 1000)"
    )
    running = Running.load(name)
    with subprocess.Popen(
        running.exec_argv("pi1", [sys.executable, "-c", serve]), stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == "ready\n"
            done = fogctl("exec", "cloud", "--", sys.executable, "-c", connect)
        finally:
            server.kill()
    assert float(done.stdout) > 58, done.stderr


def test_up_follows_a_changed_file(
    fogctl: Fogctl, testbed_file: Write, name: str, snapshot: Snapshot
) -> None:
    before = snapshot()
    testbed_file(pis=3)
    assert fogctl("up").returncode == 0
    testbed_file(pis=2, cpu="10%")
    answer = told(fogctl("up", "-o", "json"))
    assert f"network namespace fog-{name}-pi3" in answer["removed"]
    assert sum("CPU quota 10.0%" in text for text in answer["made"]) == 2
    assert not any("network namespace" in text for text in answer["made"])
    assert fogctl("status").returncode == 0
    assert not Path(f"/run/netns/fog-{name}-pi3").exists()
    assert fogctl("down").returncode == 0
    assert snapshot() == before


def test_down_ends_what_runs_on_the_nodes(
    fogctl: Fogctl, testbed_file: Write, name: str, snapshot: Snapshot
) -> None:
    testbed_file()
    before = snapshot()
    assert fogctl("up").returncode == 0
    running = Running.load(name)
    # One that ignores signals, one that forks on and on, one that is in no control group of ours.
    # The last command takes the shell's place: a shell that outlived its killed child would answer 137.
    stubborn = "trap '' TERM HUP INT; echo ready; while :; do sleep 0.01; done"
    forking = "echo ready; f() { sleep 0.01; f & }; f; exec sleep 600"
    children = [
        subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        for argv in (
            running.exec_argv("pi1", ["sh", "-c", stubborn]),
            running.exec_argv("pi2", ["sh", "-c", forking]),
            ["ip", "netns", "exec", f"fog-{name}-pi1", "sh", "-c", "echo ready; exec sleep 600"],
        )
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    done = fogctl("down")
    assert done.returncode == 0, done.stderr
    assert [child.wait(30) for child in children] == [-9, -9, -9]
    for child in children:
        assert child.stdout is not None
        child.stdout.close()
    assert snapshot() == before


def test_down_still_works_when_the_file_became_nonsense(
    fogctl: Fogctl, testbed_file: Write, name: str, snapshot: Snapshot
) -> None:
    file = testbed_file()
    before = snapshot()
    assert fogctl("up").returncode == 0
    file.write_text(f"name: {name}\nnodes: nonsense\n")
    assert fogctl("up").returncode == 2
    assert fogctl("down").returncode == 0
    assert snapshot() == before


def test_the_last_of_two_testbeds_removes_what_they_share(
    fogctl: Fogctl, testbed_file: Write, name: str, state_dir: Path, snapshot: Snapshot
) -> None:
    file = testbed_file(pis=1)
    before = snapshot()
    other = file.with_name("other.yaml")
    other.write_text(file.read_text().replace(f"name: {name}", f"name: {name}b"))
    assert fogctl("up").returncode == 0
    assert fogctl("up", "--testbed", str(other)).returncode == 0
    assert fogctl("down").returncode == 0
    assert fogctl("status", f"{name}b").returncode == 0
    assert Path(f"/run/netns/fog-{name}b-pi1").exists()
    assert fogctl("down", "--all").returncode == 0
    assert snapshot() == before
    assert not state_dir.exists()


def test_folders_and_mounts_others_could_use_are_as_before(fogctl: Fogctl, testbed_file: Write) -> None:
    def look() -> tuple[bool, bool, bool]:
        return Path("/run/netns").exists(), LinuxHost().mounted("/run/netns"), Path("/etc/netns").exists()

    def others() -> bool:
        return any(Path("/run/netns").glob("*")) or any(Path("/etc/netns").glob("*"))

    if others():
        pytest.skip("others use /run/netns or /etc/netns at this moment")
    testbed_file(pis=1)
    before = look()
    assert fogctl("up").returncode == 0
    assert look() == (True, True, True)
    assert fogctl("down").returncode == 0
    if others():
        pytest.skip("others use /run/netns or /etc/netns by now")
    assert look() == before


def test_down_from_inside_a_node_is_refused(
    fogctl: Fogctl, fogctl_argv: list[str], testbed_file: Write
) -> None:
    testbed_file(pis=1)
    assert fogctl("up").returncode == 0
    done = fogctl("exec", "cloud", "--", *fogctl_argv, "down")
    assert (done.returncode, "runs inside the testbed" in done.stderr) == (3, True)
    assert fogctl("status").returncode == 0


def test_up_and_down_work_after_a_reboot(
    fogctl: Fogctl, testbed_file: Write, name: str, state_dir: Path, snapshot: Snapshot
) -> None:
    testbed_file()
    before = snapshot()
    assert fogctl("up").returncode == 0
    folder = state.StateFolder.of(name, state_dir)
    remembered = folder.ledger.read_text(), folder.record.read_text()
    saved = {path: path.read_text() for path in Path("/etc/netns").glob(f"fog-{name}-switch/hosts")}

    def reboot() -> None:
        """What a reboot leaves: the files on the disk, and a ledger of another boot."""
        assert fogctl("down").returncode == 0
        folder.folder.mkdir(parents=True)
        boot = LinuxHost().boot_id()
        assert boot in remembered[0]
        folder.ledger.write_text(remembered[0].replace(boot, "an-earlier-boot"))
        folder.record.write_text(remembered[1])
        for node in ("switch", "cloud", "pi1", "pi2"):
            Path(f"/etc/netns/fog-{name}-{node}").mkdir(parents=True)
        for path, text in saved.items():
            path.write_text(text)

    reboot()
    assert fogctl("down").returncode == 0
    assert snapshot() == before
    assert fogctl("up").returncode == 0
    reboot()
    assert fogctl("status").returncode == 1
    assert fogctl("up").returncode == 0
    assert fogctl("status").returncode == 0
    assert fogctl("down").returncode == 0


def test_controllers_of_a_version_2_root_are_handed_on_and_taken_back(
    fogctl: Fogctl, testbed_file: Write, name: str
) -> None:
    hierarchies = detect(
        Path("/proc/self/mountinfo").read_text(), lambda root: Path(root, "cgroup.controllers").read_text()
    )
    testbed_file(pis=1)
    assert fogctl("up").returncode == 0
    running = Running.load(name)
    held = [step for step in _steps(running) if isinstance(step, EnableController)]
    for hierarchy in hierarchies.used:
        group = hierarchy.group(f"fog-{name}")
        assert AddGroup(group, hierarchies.controllers(hierarchy) if hierarchy.version == 2 else ()).present(
            LinuxHost()
        )
    assert fogctl("down").returncode == 0
    for step in held:
        assert not step.present(LinuxHost())


def _steps(running: Running) -> tuple[object, ...]:
    from fogctl.testbed.latency import ALL_STEP_TYPES
    from fogctl.testbed.ledger import Ledger

    return Ledger(running.state.ledger, ALL_STEP_TYPES, LinuxHost().boot_id()).steps
