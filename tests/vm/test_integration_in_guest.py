"""tests/integration, unchanged, inside the guest: one result here for each test there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.vm.guest import Guest
from tests.vm.guest_pytest import SUITE, GuestRun, collect, shares
from tests.vm.image import Image
from tests.vm.project import copy_project

GUESTS = int(os.environ.get("FOGCTL_VM_GUESTS", "2"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "guest_test" in metafunc.fixturenames:
        tests = collect()
        metafunc.parametrize("guest_test", tests, ids=[test.removeprefix(f"{SUITE}/") for test in tests])


@pytest.fixture(scope="module")
def guest_runs(
    guest: Guest, image: Image, request: pytest.FixtureRequest, say: Callable[[str], None]
) -> Iterator[list[GuestRun]]:
    """pytest in one guest or two, started with the tests that were selected here."""
    wanted = [
        str(item.callspec.params["guest_test"])
        for item in request.session.items
        if isinstance(item, pytest.Function) and "guest_test" in getattr(item, "fixturenames", ())
    ]
    # An emulated machine uses hardly more than one core; the second core can have a machine of its own.
    first, *others = shares(wanted, GUESTS)
    with ExitStack() as running:
        say(f"guest: running {len(first)} tests of {SUITE}")
        runs = [GuestRun(guest, first, say)]
        running.callback(runs[0].stop)
        for number, share in enumerate(others, start=2):
            other = running.enter_context(Guest(image, f"guest{number}"))
            copy_project(other)
            say(f"{other.name}: running {len(share)} tests of {SUITE}")
            runs.append(GuestRun(other, share, say))
            running.callback(runs[-1].stop)
        yield runs
        for run in runs:
            say(run.spent())


def test_in_guest(guest_test: str, guest_runs: list[GuestRun]) -> None:
    run = next(run for run in guest_runs if guest_test in run.tests)
    found = run.result(guest_test)
    if found is None:
        pytest.fail(run.lost(), pytrace=False)
    if found.outcome == "skipped":
        pytest.skip(f"in the guest: {found.text.strip()}")
    if found.outcome != "passed":
        pytest.fail(f"in the guest, after {found.seconds:.0f} s:\n{found.text}", pytrace=False)


def test_the_kernel_backend_was_tested_in_the_guest_and_not_skipped(guest_runs: list[GuestRun]) -> None:
    """The guest is there for sch_netem: a suite that skips it here would prove nothing."""
    outcomes = [outcome for run in guest_runs for outcome in run.finish()]
    assert any(each.outcome == "passed" for each in outcomes), guest_runs[0].output()[-6000:]
    kernel = [each for each in outcomes if "[kernel" in each.test]
    assert kernel, "no test of the suite that was run has the parameter `kernel`"
    # "does not work here" is what the suite says of a backend that the kernel lacks.
    skipped = [f"{each.test}: {each.text}" for each in kernel if "does not work here" in each.text]
    assert skipped == []
    assert any(each.outcome == "passed" for each in kernel)
