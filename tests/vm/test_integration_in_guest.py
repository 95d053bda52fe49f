"""tests/integration, unchanged, inside the guest: one result here for each test there."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.vm.guest import Guest
from tests.vm.guest_pytest import SUITE, GuestRun, collect


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "guest_test" in metafunc.fixturenames:
        tests = collect()
        metafunc.parametrize("guest_test", tests, ids=[test.removeprefix(f"{SUITE}/") for test in tests])


@pytest.fixture(scope="module")
def guest_run(guest: Guest, request: pytest.FixtureRequest, say: Callable[[str], None]) -> Iterator[GuestRun]:
    """The guest's pytest, started with the tests that were selected here."""
    wanted = [
        str(item.callspec.params["guest_test"])
        for item in request.session.items
        if isinstance(item, pytest.Function) and "guest_test" in getattr(item, "fixturenames", ())
    ]
    say(f"guest: running {len(wanted)} tests of {SUITE}")
    run = GuestRun(guest, wanted)
    yield run
    run.stop()


def test_in_guest(guest_test: str, guest_run: GuestRun) -> None:
    found = guest_run.result(guest_test)
    if found is None:
        pytest.fail(
            f"the guest's pytest ended without a result:\n{guest_run.output()[-6000:]}", pytrace=False
        )
    if found.outcome == "skipped":
        pytest.skip(f"in the guest: {found.text.strip()}")
    if found.outcome != "passed":
        pytest.fail(f"in the guest, after {found.seconds:.0f} s:\n{found.text}", pytrace=False)


def test_the_kernel_backend_was_tested_in_the_guest_and_not_skipped(guest_run: GuestRun) -> None:
    """The guest is there for sch_netem: a suite that skips it here would prove nothing."""
    outcomes = guest_run.finish()
    assert any(each.outcome == "passed" for each in outcomes), guest_run.output()[-6000:]
    kernel = [each for each in outcomes if "kernel" in each.test.lower()]
    assert kernel, "no test of the suite that was run has `kernel` in its name"
    assert [f"{each.test}: {each.text}" for each in kernel if each.outcome == "skipped"] == []
