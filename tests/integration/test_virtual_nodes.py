"""A virtual node is what it claims: CPU, memory, names, networks, and commands that run inside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fognetem import LatencyMatrix
from fognetem import Path as NetworkPath

from fogctl.errors import FogError
from fogctl.testbed import model
from fogctl.testbed.model import Kind, Node, Role
from fogctl.testbed.running import Running
from fogctl.testbed.virtual import Virtual

PYTHON = sys.executable
QUOTA_CORES = 0.10
MEMORY_BYTES = 96 << 20


@pytest.fixture(scope="module")
def virtual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Virtual]:
    nodes = (
        Node("cloud", Role.control, "dc", "host", None, None),
        Node("pi1", Role.edge, "north", "rpi4-4g", QUOTA_CORES, MEMORY_BYTES),
        Node("pi2", Role.edge, "north", "rpi4-4g", QUOTA_CORES, MEMORY_BYTES),
    )
    latencies = LatencyMatrix(
        ("cloud", "pi1", "pi2"), (("pi1", "pi2", NetworkPath(40)), ("cloud", "pi2", NetworkPath(200)))
    )
    testbed = model.Testbed(f"t{os.getpid()}nodes", Kind.virtual, nodes, latencies)
    made = Virtual(testbed, tmp_path_factory.mktemp("state") / "fogctl")
    made.up()
    yield made
    made.down()


@pytest.fixture
def running(virtual: Virtual) -> Running:
    return virtual.running


def on(running: Running, node: str, *argv: str) -> subprocess.CompletedProcess[str]:
    command = running.exec_argv(node, argv)
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def start(running: Running, node: str, *argv: str) -> subprocess.Popen[str]:
    """Start a command on a node that says a line once it runs there."""
    command = running.exec_argv(node, argv)
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    return child


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def used_share(pid: int, seconds: float) -> float:
    """The cores a process uses, over some seconds of its quota's periods."""
    before, started = cpu_s(pid), time.monotonic()
    time.sleep(seconds)
    return (cpu_s(pid) - before) / (time.monotonic() - started)


BUSY = "print('ready', flush=True)\nwhile True: pass"


def test_busy_loop_uses_no_more_than_the_quota(running: Running) -> None:
    child = start(running, "pi1", PYTHON, "-c", BUSY)
    try:
        used = used_share(child.pid, 4)
    finally:
        child.kill()
        child.wait()
    assert used < QUOTA_CORES * 1.3
    assert used > QUOTA_CORES * 0.1  # the host may be busy, but it did run


def test_a_share_changes_the_quota_of_a_running_process(running: Running) -> None:
    child = start(running, "pi1", PYTHON, "-c", BUSY)
    try:
        running.set_share("pi1", 0.2)
        time.sleep(0.2)
        assert used_share(child.pid, 4) < QUOTA_CORES * 0.2 * 1.5
    finally:
        child.kill()
        child.wait()
        running.set_share("pi1", 1)


def test_a_lifted_share_has_no_quota_until_it_is_set_again(virtual: Virtual, running: Running) -> None:
    running.set_share("pi2", None)
    assert {node.name: node.cpu_quota_cores for node in virtual.observe()}["pi2"] is None
    running.set_share("pi2", 0.5)
    assert {node.name: node.cpu_quota_cores for node in virtual.observe()}["pi2"] == QUOTA_CORES / 2
    running.set_share("pi2", 1)
    assert virtual.status().state == "up"


@pytest.mark.parametrize("fraction", [0, -0.1, 1.01, float("nan")])
def test_an_impossible_share_is_refused(running: Running, fraction: float) -> None:
    with pytest.raises(FogError):
        running.set_share("pi1", fraction)


def test_a_process_beyond_the_memory_limit_is_killed_and_its_neighbour_is_not(running: Running) -> None:
    neighbour = start(
        running, "pi2", PYTHON, "-c", "import time; print('ready', flush=True); time.sleep(600)"
    )
    hog = on(running, "pi1", PYTHON, "-c", f"bytearray({MEMORY_BYTES} * 2)[::4096].count(1); print('lived')")
    small = on(running, "pi1", PYTHON, "-c", "bytearray(8 << 20); print('lived')")
    try:
        assert hog.returncode == -signal.SIGKILL
        assert "lived" not in hog.stdout
        assert small.stdout == "lived\n"
        assert neighbour.poll() is None
    finally:
        neighbour.kill()
        neighbour.wait()


def test_names_lead_to_the_impaired_and_to_the_management_address(running: Running) -> None:
    ask = "import socket, sys; print(*[socket.gethostbyname(n) for n in sys.argv[1:]], socket.gethostname())"
    done = on(running, "pi1", PYTHON, "-c", ask, "cloud", "cloud-mgmt", "pi2", "pi2-mgmt", "localhost")
    assert done.stdout.split() == ["10.77.0.1", "10.78.0.1", "10.77.0.3", "10.78.0.3", "127.0.0.1", "pi1"]


SERVE = """
import socket, sys
server = socket.create_server((sys.argv[1], 5000))
print("ready", flush=True)
while True:
    client, _ = server.accept()
    client.sendall(client.recv(100))
    client.close()
"""
ROUND_TRIP = """
import socket, sys, time
client = socket.create_connection((sys.argv[1], 5000), timeout=30)
started = time.monotonic()
client.sendall(b"x")
assert client.recv(100) == b"x"
print((time.monotonic() - started) * 1000)
"""


def test_the_data_network_is_delayed_and_the_management_network_is_not(running: Running) -> None:
    servers = [start(running, "pi2", PYTHON, "-c", SERVE, name) for name in ("pi2", "pi2-mgmt")]
    try:
        data = [on(running, "cloud", PYTHON, "-c", ROUND_TRIP, "pi2") for _ in range(3)]
        management = [on(running, "cloud", PYTHON, "-c", ROUND_TRIP, "pi2-mgmt") for _ in range(3)]
    finally:
        for server in servers:
            server.kill()
            server.wait()
    assert min(float(done.stdout) for done in data) > 198
    assert min(float(done.stdout) for done in management) < 198


def test_nodes_have_no_ipv6_and_no_way_out(running: Running) -> None:
    seen = on(
        running,
        "pi1",
        PYTHON,
        "-c",
        "print(open('/proc/net/if_inet6').read(), open('/proc/net/route').read())",
    )
    assert seen.returncode == 0 or "No such file" in seen.stderr
    lines = seen.stdout.strip().splitlines()
    assert [line.split()[0] for line in lines if "\t" in line][1:] == ["data0", "mgmt0"]
    assert not any(line.split()[1] == "00000000" for line in lines if "\t" in line)


def test_the_node_shows_its_own_interfaces_and_the_control_groups_in_sys(running: Running) -> None:
    done = on(
        running,
        "pi1",
        PYTHON,
        "-c",
        "import os; print(os.listdir('/sys/class/net'), os.listdir('/sys/fs/cgroup'))",
    )
    interfaces, _, groups = done.stdout.partition("] [")
    assert "data0" in interfaces
    assert "mgmt0" in interfaces
    assert groups


def test_a_process_started_on_a_node_is_seen_and_can_be_stopped(virtual: Virtual, tmp_path: Path) -> None:
    pid = virtual.start(
        "pi1", [PYTHON, "-c", "import time; print('started', flush=True); time.sleep(600)"], tmp_path / "log"
    )
    while "started" not in (tmp_path / "log").read_text():
        time.sleep(0.01)
    assert {node.name: node.processes for node in virtual.observe()}["pi1"] == 1
    with pytest.raises(FogError, match="does not run on node pi2"):
        virtual.stop("pi2", pid)
    virtual.stop("pi1", pid)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert {node.name: node.processes for node in virtual.observe()}["pi1"] == 0


def test_a_live_latency_change_is_remembered(virtual: Virtual) -> None:
    virtual.set_latency("pi1", "pi2", NetworkPath(55))
    assert virtual.running.latencies.rtt_ms("pi1", "pi2") == 55
    assert virtual.status().state == "up"
    mended = virtual.up()
    assert mended.removed or mended.made
    assert virtual.running.latencies.rtt_ms("pi1", "pi2") == 40
    assert virtual.status().state == "up"


class TestExec:
    """The command line's own `exec`."""

    @pytest.fixture
    def exec_argv(
        self, virtual: Virtual, fogctl_argv: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> list[str]:
        monkeypatch.setenv("FOGCTL_STATE_DIR", str(virtual.running.state.folder.parent))
        return [*fogctl_argv, "exec", "--testbed", virtual.testbed.name]

    @pytest.mark.parametrize("code", [0, 7, 255])
    def test_exit_code_passes_through(self, exec_argv: list[str], code: int) -> None:
        assert (
            subprocess.run([*exec_argv, "pi1", "--", "sh", "-c", f"exit {code}"], check=False).returncode
            == code
        )

    def test_input_and_output_pass_through(self, exec_argv: list[str]) -> None:
        done = subprocess.run(
            [*exec_argv, "pi1", "--", "cat"], input="hello", capture_output=True, text=True, check=False
        )
        assert done.stdout == "hello"

    def test_signals_reach_the_command_itself(self, exec_argv: list[str]) -> None:
        script = "trap 'echo got it; exit 5' TERM; echo ready; while :; do sleep 0.05; done"
        child = subprocess.Popen(
            [*exec_argv, "pi1", "--", "sh", "-c", script], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.terminate()
        assert child.wait(60) == 5
        assert child.stdout.read() == "got it\n"

    def test_a_missing_command_is_said_in_a_sentence(self, exec_argv: list[str]) -> None:
        done = subprocess.run(
            [*exec_argv, "pi1", "--", "no-such"], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (127, "no-such: No such file or directory\n")

    def test_an_unknown_node_is_said_in_a_sentence(self, exec_argv: list[str]) -> None:
        done = subprocess.run([*exec_argv, "pi9", "--", "true"], capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert "has no node pi9 (its nodes: cloud, pi1, pi2)" in done.stderr

    @pytest.mark.usefixtures("exec_argv")
    def test_status_tells_every_node_as_json(self, virtual: Virtual, fogctl_argv: list[str]) -> None:
        argv = [*fogctl_argv, "status", virtual.testbed.name, "-o", "json"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        told = json.loads(done.stdout)
        assert (done.returncode, told["state"], told["missing"]) == (0, "up", [])
        pi1 = told["nodes"][1]
        assert pi1["cpu_quota_cores"] == QUOTA_CORES
        assert pi1["memory_limit_bytes"] == MEMORY_BYTES
        assert (pi1["address"], pi1["management_address"]) == ("10.77.0.2", "10.78.0.2")


def test_nodes_know_each_other_for_good_so_that_many_do_not_fill_the_table(virtual: Virtual) -> None:
    running = virtual.running
    addresses = {endpoint.node: endpoint.address for endpoint in running.endpoints}
    for node in addresses:
        known = running.host.neighbours(running.namespace(node), "data0")
        others = {address for other, address in addresses.items() if other != node}
        assert set(known) == others
