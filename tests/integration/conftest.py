"""What tests on the real kernel share: root or a reason to skip, a fogctl to run, a picture of the host."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))
from live_testbed import Fogctl, SharedTestbed, described, ok

from fogctl.testbed.running import Running

FOGCTL = [sys.executable, "-c", "from fogctl.cli import main; main()"]
TOLD = "measured"
_numbers = itertools.count()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "alone: measures time or the whole host; nothing may run beside it")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Files that may take long come first: of two processes, neither then waits long for the other at the end.
    items.sort(key=lambda item: -_allowed_s(item))
    reason = None
    if sys.platform != "linux":
        reason = "needs Linux: namespaces and control groups"
    elif os.geteuid() != 0:
        reason = "needs root: namespaces and control groups"
    if reason:
        here = Path(__file__).parent
        for item in items:
            if here in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=reason))


def _allowed_s(item: pytest.Item) -> float:
    """The time limit that a file sets for its tests; 0 if it sets none."""
    marks = getattr(item.getparent(pytest.Module), "own_markers", [])
    return max((float(mark.args[0]) for mark in marks if mark.name == "timeout"), default=0.0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Figures that tests measured; they travel with the reports, because tests may run in other processes."""
    reports = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    told = [
        (report.nodeid, text)
        for report in reports
        for key, text in getattr(report, "user_properties", ())
        if key == TOLD
    ]
    if told:
        terminalreporter.section("measured, not judged")
    for nodeid, text in told:
        terminalreporter.write_line(f"{Path(nodeid.split('::')[0]).stem}: {text}")


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Have a figure shown at the end of the test run."""
    return lambda text: request.node.user_properties.append((TOLD, text))


@contextlib.contextmanager
def own_state(folder: Path) -> Iterator[None]:
    """In the body fogctl keeps its state there; every testbed still remembered there is taken down after."""
    from fogctl.testbed import state
    from fogctl.testbed.host import LinuxHost
    from fogctl.testbed.virtual import take_down

    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("FOGCTL_STATE_DIR", str(folder))
        try:
            yield
        finally:
            for left in state.remembered(folder):
                take_down(left, LinuxHost())


def fogctl_in(folder: Path) -> Fogctl:
    """The real command line, run in a folder; answers the finished process."""

    def run(*arguments: str, timeout: float = 250) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*FOGCTL, *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=timeout
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return run


def new_name() -> str:
    """A testbed name no other test and no other test run uses."""
    return f"t{os.getpid()}n{next(_numbers)}"


@pytest.fixture
def state_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A state directory of this test's own; every testbed still remembered there is taken down afterwards."""
    folder = tmp_path_factory.mktemp("s") / "state"  # sockets in it have names of up to 107 bytes
    with own_state(folder):
        yield folder


@pytest.fixture
def name() -> str:
    """A testbed name no other test and no other test run uses."""
    return new_name()


@pytest.fixture
def fogctl_argv() -> list[str]:
    """The command line, for tests that start it themselves."""
    return FOGCTL


@pytest.fixture
def fogctl(state_dir: Path, tmp_path: Path) -> Fogctl:
    """Run the real command line in an empty folder; answers the finished process."""
    return fogctl_in(tmp_path)


@pytest.fixture
def bring_up(fogctl: Fogctl, tmp_path: Path, name: str) -> Callable[..., Running]:
    """Write testbed.yaml, with the nodes and settings given, and bring it up; again to change it."""

    def up(*nodes: str, **settings: str | None) -> Running:
        (tmp_path / "testbed.yaml").write_text(described(name, *nodes, **settings))
        ok(fogctl("up"))
        return Running.load(name)

    return up


@pytest.fixture(scope="module")
def shared_testbed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedTestbed]:
    """A testbed that is up while the tests of a file run, with the nodes that the file names as NODES."""
    folder, name = tmp_path_factory.mktemp("shared"), new_name()
    with own_state(folder / "state"):
        (folder / "testbed.yaml").write_text(described(name, *request.module.NODES))
        fogctl = fogctl_in(folder)
        ok(fogctl("up"))
        yield SharedTestbed(Running.load(name), fogctl, folder)


@pytest.fixture
def testbed_file(tmp_path: Path, name: str) -> Callable[..., Path]:
    """Write testbed.yaml: a control node without limits and some Pis, 10 ms away from it."""

    def write(pis: int = 2, cpu: str = "20%", memory: str = "64MiB", rtt: str = "10ms") -> Path:
        file = tmp_path / "testbed.yaml"
        limits = f"cpu: {cpu}, memory: {memory}"
        file.write_text(
            f"name: {name}\nkind: virtual\nnodes:\n"
            "  - {name: cloud, role: control, site: dc, board: host}\n"
            f'  - {{name: "pi[1-{pis}]", role: edge, site: north, board: rpi4-4g, {limits}}}\n'
            f"latency:\n  sites: [{{between: [north, dc], rtt: {rtt}}}]\n"
        )
        return file

    return write


@pytest.fixture
def snapshot(state_dir: Path, name: str) -> Callable[[], dict[str, object]]:
    """A picture of everything on this host that a testbed could leave a trace in.

    Testbeds of other test runs may come and go beside it, so fog-… objects count only if they carry this
    test's name; everything else counts.
    """

    def ours(text: str) -> bool:
        return "fog-" not in text or f"fog-{name}" in text

    def take() -> dict[str, object]:
        return {
            "namespaces": [text for text in _listing("/run/netns") if ours(text)],
            "mounts": [text for text in _mounts() if ours(text) and text != "/run/netns"],
            "links": _listing("/sys/class/net"),
            "addresses": _untimed(_output("ip", "-o", "addr")),
            "routes": _untimed(_output("ip", "route", "show", "table", "all")),
            "control groups": [text for text in _control_groups() if ours(text)],
            "subtree control": _subtree_control(),
            "rules": [_output("nft", "list", "ruleset"), _without_comments(_output("iptables-save"))],
            "etc": [text for text in _etc() if ours(text) and text != "/etc/netns"],
            "processes": _processes(str(state_dir)),
            "state": state_dir.exists(),
            "hostname": os.uname().nodename,
        }

    return take


def _listing(folder: str) -> list[str]:
    return sorted(path.name for path in Path(folder).glob("*"))


def _mounts() -> list[str]:
    """Mount points where a testbed could leave one; other programs mount elsewhere as they like."""
    points = (line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines())
    return sorted(point for point in points if point.startswith(("/run", "/sys", "/etc", "/var")))


def _control_groups() -> list[str]:
    """The top of every hierarchy, and whatever is called fog-… below it."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if " - cgroup" in line:
            root = Path(line.split()[4])
            found += [str(path) for path in root.iterdir() if path.is_dir()]
            for top in root.glob("fog-*"):
                # Not by glob, which fails if what others made is removed meanwhile.
                found += [str(Path(at, name)) for at, names, _ in os.walk(top) for name in names]
    return sorted(found)


def _subtree_control() -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    roots = [Path(line.split()[4]) for line in lines if " - cgroup2 " in line]
    return [(root / "cgroup.subtree_control").read_text() for root in roots]


def _etc() -> list[str]:
    """Every name in /etc, with a hash of the content where a testbed writes."""
    found = []
    for folder, folders, files in os.walk("/etc"):
        for entry in folders + files:
            path = Path(folder, entry)
            text = str(path)
            if text.startswith(("/etc/netns/", "/etc/hosts", "/etc/resolv")) and path.is_file():
                with contextlib.suppress(OSError):
                    text += " " + hashlib.sha256(path.read_bytes()).hexdigest()
            found.append(text)
    return sorted(found)


def _processes(state_dir: str) -> list[str]:
    """Every process that was started, at whatever remove, by a fogctl of this test."""
    wanted = f"FOGCTL_STATE_DIR={state_dir}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (path / "environ").read_bytes().split(b"\0"):
                found.append(f"{path.name} {(path / 'cmdline').read_bytes()!r}")
    return found


def _output(*argv: str) -> str:
    if shutil.which(argv[0]) is None:
        return ""
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout


def _untimed(text: str) -> list[str]:
    """Addresses and routes without the seconds they are still valid for."""
    return [re.sub(r"\S+_lft \S+|expires \S+|\d+sec", "", line) for line in text.splitlines()]


def _without_comments(text: str) -> str:
    """Rules only: iptables-save prints the time and counters with them."""
    return "\n".join(line.split(" [")[0] for line in text.splitlines() if not line.startswith("#"))
