"""One guest for all tests here, with the current tree in it; a reason to skip where it cannot run."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.vm.debian import NoDebianError  # noqa: E402  (the path above makes it importable)
from tests.vm.guest import Guest  # noqa: E402
from tests.vm.image import Image, get_image  # noqa: E402
from tests.vm.machine import AMD64  # noqa: E402
from tests.vm.project import copy_project  # noqa: E402
from tests.vm.shelf import Shelf, set_up  # noqa: E402

COMMANDS = (AMD64.emulator, "qemu-img", "mmdebstrap", "mke2fs", "ssh")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip everything here, saying what to install, where the tools are missing."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = [command for command in COMMANDS if not shutil.which(command, path=path)]
    for item in items:
        if HERE in item.path.parents:
            # A guest takes its time to build and boot; the guest's own pytest limits each test.
            item.add_marker(pytest.mark.timeout(1800))
            if missing:
                packages = "tests/vm/packages.txt (`make test-vm` as root installs them)"
                item.add_marker(pytest.mark.skip(reason=f"no {', '.join(missing)}: install {packages}"))


@pytest.fixture(scope="session")
def say(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Print progress past pytest's capture: building and booting take minutes."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")

    def say(text: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"\n{text}", end="", file=sys.stderr, flush=True)

    return say


@pytest.fixture(scope="session")
def image(say: Callable[[str], None]) -> Image:
    try:
        return get_image(say=say)
    except NoDebianError as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def guest(image: Image, say: Callable[[str], None]) -> Iterator[Guest]:
    say("guest: booting")
    with Guest(image) as guest:
        say(f"guest: up after {guest.boot_seconds:.0f} s")
        copy_project(guest)
        yield guest


@pytest.fixture(scope="session")
def shelf(
    image: Image, say: Callable[[str], None], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shelf]:
    """Two boards with seeded faults, for all of `test_boards_*.py` in their order."""
    with set_up(image, tmp_path_factory.mktemp("shelf"), say) as shelf:
        yield shelf
