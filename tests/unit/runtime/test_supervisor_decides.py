"""What the supervisor starts again, when, which replicas it helps: decided without process or clock."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from fogctl.runtime import supervision
from fogctl.runtime.supervision import (
    CALM_S,
    LEAST_AGE_S,
    LONGEST_PAUSE_S,
    History,
    Lift,
    Limit,
    ReplicaSeen,
    ServiceSeen,
    StageSeen,
)

NOBODY: frozenset[str] = frozenset()


def service(name: str, pid: int | None = None, node: str = "pi1", restart: bool = True) -> ServiceSeen:
    return ServiceSeen(name, node, restart, pid)


def test_only_services_that_should_run_and_do_not_are_missing() -> None:
    seen = [
        service("broker", pid=7),
        service("taxi.nearest.master"),
        service("once", restart=False),
        service("mqtt.bridge", node="pi2"),
        service("taxi.nearest.driver"),
    ]
    found = supervision.missing(seen, held=frozenset({"taxi.nearest.driver"}), down=frozenset({"pi2"}))
    assert [each.name for each in found] == ["taxi.nearest.master"]


def test_the_broker_starts_before_masters_drivers_and_executors() -> None:
    names = ["a.s.driver", "a.s.executor.pi1", "a.s.master", "metrics.nodes", "broker"]
    found = supervision.missing([service(name) for name in names], NOBODY, NOBODY)
    expected = ["broker", "a.s.master", "a.s.driver", "a.s.executor.pi1", "metrics.nodes"]
    assert [each.name for each in found] == expected


def test_the_first_restart_does_not_wait_and_says_why() -> None:
    (start,) = supervision.starts([service("broker")], {}, {"broker": "its disk is full"}, now_s=1000.0)
    assert start.history == History(attempts=1, started_s=1000.0, reason="its disk is full", total=1)


def restart_times(lives_s: float, until_s: float) -> list[float]:
    """When a service is started that ends `lives_s` after each start, looked at every quarter second."""
    known: dict[str, History] = {}
    times: list[float] = []
    now_s = 0.0
    while now_s < until_s:
        if not times or now_s - times[-1] >= lives_s:
            for start in supervision.starts([service("x")], known, {}, now_s):
                known["x"] = start.history
                times.append(now_s)
        now_s += 0.25
    return times


def test_a_service_that_dies_at_once_is_started_less_and_less_often() -> None:
    times = restart_times(lives_s=0.25, until_s=300.0)
    gaps = [b - a for a, b in itertools.pairwise(times)]
    assert gaps[:5] == [1.0, 2.0, 4.0, 8.0, 16.0]
    assert set(gaps[5:]) == {LONGEST_PAUSE_S}


def test_a_service_that_ran_for_long_is_started_at_once_again() -> None:
    times = restart_times(lives_s=CALM_S, until_s=CALM_S * 5)
    assert times == [CALM_S * number for number in range(5)]


@given(st.integers(0, 2000))
def test_no_pause_is_longer_than_the_bound(attempts: int) -> None:
    assert 0 <= supervision.pause_s(attempts) <= LONGEST_PAUSE_S


def stage(**changes: object) -> StageSeen:
    replica = ReplicaSeen("pi1", 0.5, executor_pid=12, executor_age_s=LEAST_AGE_S)
    made = {"app": "taxi", "stage": "nearest", "driver_pid": 10, "replicas": (replica,), **changes}
    return StageSeen(**made)  # type: ignore[arg-type]


KEY = ("taxi", "nearest", "pi1")


def test_a_replica_whose_processes_are_the_known_ones_is_left_alone() -> None:
    assert supervision.unsettled([stage()], {KEY: (10, 12)}, NOBODY) == []


def test_a_replica_on_a_node_without_power_is_left_alone() -> None:
    assert supervision.unsettled([stage()], {}, frozenset({"pi1"})) == []


def test_another_driver_or_executor_makes_a_replica_start_anew() -> None:
    for known in ((9, 12), (10, 9)):
        assert supervision.unsettled([stage()], {KEY: known}, NOBODY) == [stage()]


def test_a_replica_is_limited_when_its_executor_works_and_lifted_until_then() -> None:
    assert supervision.settle(stage(), ready=["pi1"]) == [Limit("taxi", "nearest", "pi1", (10, 12))]
    assert supervision.settle(stage(), ready=[]) == [Lift("taxi", "nearest", "pi1")]


def test_an_executor_younger_than_its_registration_can_be_is_not_believed() -> None:
    young = ReplicaSeen("pi1", 0.5, 12, executor_age_s=LEAST_AGE_S / 2)
    gone = ReplicaSeen("pi1", 0.5, None)
    for replica in (young, gone):
        seen = stage(replicas=(replica,))
        assert supervision.settle(seen, ready=["pi1"]) == [Lift("taxi", "nearest", "pi1")]


def test_the_end_of_a_log_becomes_one_sentence() -> None:
    full = "INFO fine\njava.io.IOException: No space left on device\n\tat x\n"
    assert supervision.why_ended(full) == "its disk is full (No space left on device)"
    assert "ERROR boom" in supervision.why_ended("ok\nERROR boom\nbye\n")
    assert supervision.why_ended("") == "ended by itself"
