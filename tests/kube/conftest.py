"""A real control plane for all tests here, nodes to order, real kubelets; or a reason to skip."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.kube.control_plane import ControlPlane  # noqa: E402  (the path above makes it importable)
from tests.kube.fake_nodes import FakeNodes  # noqa: E402
from tests.kube.kubelet import PLUGINS  # noqa: E402
from tests.kube.kubelets import Kubelets, Programs  # noqa: E402
from tests.kube.programs import KWOK, SERVER, TINY, NoGoError, Program, get_program  # noqa: E402
from tests.kube.stage_image import StageImage, why_no_image  # noqa: E402

TOLD = "measured"
COMMANDS = ("containerd", "ctr", "runc", "unshare", "ip")
Tell = Callable[[str], None]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "kubelet: needs a real kubelet; the others run with played nodes")
    config.addinivalue_line("markers", "image: needs the image that runs stages")


@pytest.hookimpl(tryfirst=True)  # whoever chooses tests looks at the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks say which tests need kubelets or the image; kubelets come last: they slow the rest down."""
    for item in items:
        if HERE in item.path.parents:
            if _needs(item, "kubelet_programs"):
                item.add_marker(pytest.mark.kubelet)
            if _needs(item, "stage_image"):
                item.add_marker(pytest.mark.image)
            if item.get_closest_marker("timeout") is None:  # fixtures may wait for a build: they do not count
                item.add_marker(pytest.mark.timeout(900, func_only=True))
    items.sort(key=lambda item: HERE in item.path.parents and _needs(item, "kubelets"))


def _needs(item: pytest.Item, fixture: str) -> bool:
    return fixture in getattr(item, "fixturenames", ())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Figures that tests measured."""
    reports = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    told = [
        (report.nodeid, text)
        for report in reports
        for key, text in getattr(report, "user_properties", ())
        if key == TOLD and HERE.name in Path(report.nodeid.split("::")[0]).parts
    ]
    if told:
        terminalreporter.section("measured, not judged")
    for nodeid, text in told:
        terminalreporter.write_line(f"{Path(nodeid.split('::')[0]).stem}: {text}")


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Tell:
    """Have a figure shown at the end of the test run."""
    return lambda text: request.node.user_properties.append((TOLD, text))


@pytest.fixture(scope="session")
def say(pytestconfig: pytest.Config) -> Tell:
    """Print progress past pytest's capture: building takes minutes."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")

    def say(text: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"\n{text}", end="", file=sys.stderr, flush=True)

    return say


@pytest.fixture(scope="session")
def program(say: Tell) -> Callable[[Program], Path]:
    """A binary of ours, or the reason why there is none."""

    def get(wanted: Program) -> Path:
        try:
            return get_program(wanted, say)
        except NoGoError as reason:
            pytest.skip(str(reason))

    return get


@pytest.fixture(scope="session")
def control_plane(
    program: Callable[[Program], Path], tmp_path_factory: pytest.TempPathFactory, say: Tell
) -> Iterator[ControlPlane]:
    """etcd, API server, scheduler and controllers on loopback."""
    binary = program(SERVER)
    started = time.monotonic()
    with ControlPlane(binary, tmp_path_factory.mktemp("plane")) as plane:
        say(f"control plane: up after {time.monotonic() - started:.1f} s at {plane.url}")
        yield plane


@pytest.fixture(scope="session")
def fake_nodes(
    program: Callable[[Program], Path], control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FakeNodes]:
    """kwok beside the control plane."""
    with FakeNodes(program(KWOK), control_plane, tmp_path_factory.mktemp("kwok")) as nodes:
        yield nodes


@pytest.fixture(scope="session")
def kubelet_programs(program: Callable[[Program], Path]) -> Programs:
    """What clusters with real kubelets are made of, or the reason why none can run here."""
    if reason := _no_kubelet():
        pytest.skip(reason)
    return Programs(program(SERVER), program(TINY))


@pytest.fixture(scope="session")
def kubelets(kubelet_programs: Programs, say: Tell) -> Iterator[Kubelets]:
    """Real kubelets on the nodes of a virtual testbed: cloud, broker, pi1, pi2."""
    started = time.monotonic()
    with Kubelets(kubelet_programs, f"k{os.getpid()}") as kubelets:
        say(f"kubelets: {', '.join(kubelets.nodes)} ready after {time.monotonic() - started:.1f} s")
        yield kubelets


@pytest.fixture(scope="session")
def stage_image(say: Tell) -> StageImage:
    """The image that runs stages, built of this tree for this machine's processor; cached."""
    if reason := why_no_image():
        pytest.skip(reason)
    return StageImage.get(say)


def _no_kubelet() -> str | None:
    """Why no kubelet can run here; None if one can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "kubelets need root on Linux"
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = [command for command in COMMANDS if not shutil.which(command, path=path)]
    missing += [PLUGINS] if not Path(PLUGINS).is_dir() else []
    if missing:
        return f"no {', '.join(missing)}: install tests/kube/packages.txt (`make test-kube` as root does)"
    return None


@pytest.fixture
def kwok_nodes(fake_nodes: FakeNodes) -> Iterator[Callable[..., list[str]]]:
    """Have nodes of these names; they and the pods on them go with the test."""
    made: list[str] = []

    def add(
        names: Iterable[str], *, cpu: str = "4", memory: str = "4Gi", labels: Mapping[str, str] = {}
    ) -> list[str]:
        wanted = list(names)
        made.extend(wanted)
        return fake_nodes.add(wanted, cpu=cpu, memory=memory, labels=labels)

    try:
        yield add
    finally:
        fake_nodes.remove(made)


@pytest.fixture
def lose_node(fake_nodes: FakeNodes) -> Callable[[str], None]:
    """Let a played node fall silent."""
    return fake_nodes.lose


@pytest.fixture
def find_node(fake_nodes: FakeNodes) -> Callable[[str], None]:
    """Let a lost node speak again."""
    return fake_nodes.find
