"""Each guard rail stops what it is there for, lets the rest through, and says which and why."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from fogctl.agent import guards
from fogctl.agent.evaluate import evaluate
from fogctl.agent.observation import HostMetrics
from fogctl.agent.plan import Plan, Scale, Share
from fogctl.agent.settings import Guard
from fogctl.agent.wish import Record, StageRecord

OPEN = Guard(scale_in_delay="0s", stabilise="0s", stabilise_share="0s")
OUT = Plan((Scale("work", ("pi1", "pi2")),), "more")
IN = Plan((Scale("work", ("pi1",)),), "less")


def checked(world, plan: Plan, guard: Guard = OPEN, **record):
    return guards.check(plan, world.seen, world.known, guard, Record({"work": StageRecord(**record)}))


def nodes(guarded) -> tuple[str, ...] | None:
    return next((a.nodes for a in guarded.plan.actions if isinstance(a, Scale)), None)


def by(guarded) -> list[str]:
    return [note.guard for note in guarded.notes]


def test_a_plan_that_nothing_speaks_against_passes_unchanged(make) -> None:
    found = checked(make.scene(), OUT)
    assert found.plan == OUT
    assert found.notes == ()


# Stale or missing metrics


@pytest.mark.parametrize("plan", [OUT, Plan((Share("work", None, 0.5),), "share")])
def test_nothing_is_changed_on_old_metrics(make, plan) -> None:
    found = checked(make.scene(at_s=make.now - 61.0), plan)
    assert found.plan.actions == ()
    assert by(found) == ["stale metrics"]
    assert "61 s ago" in found.notes[0].why
    assert checked(make.scene(at_s=make.now - 59.0), plan).notes == ()


def test_a_stage_without_input_is_not_stale(make) -> None:
    idle = make.scene(("pi1", "pi2"), at_s=make.now - 600.0, lag=0, input_rate=0.0)
    assert nodes(checked(idle, IN)) == ("pi1",)


def test_nothing_is_changed_when_a_stage_does_not_answer(make) -> None:
    world = make.scene()
    world = replace(world, seen=replace(world.seen, stages=()))
    found = checked(world, OUT)
    assert found.plan.actions == ()
    assert found.notes[0].why == "stage work does not answer"


def test_nothing_is_changed_on_impossible_numbers(make) -> None:
    assert by(checked(make.scene(input_rate=float("nan")), OUT)) == ["stale metrics"]


def test_no_replica_is_moved_when_no_node_answers(make) -> None:
    world = make.scene()
    found = checked(replace(world, seen=replace(world.seen, nodes=())), OUT)
    assert found.plan.actions == ()
    assert found.notes[0].why == "no node answers"


# Excluded periods


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("period", "moment", "inside"),
    [
        ("08:00-12:00", "2026-03-02T08:00:00", True),
        ("08:00-12:00", "2026-03-02T11:59:59", True),
        ("08:00-12:00", "2026-03-02T12:00:00", False),
        ("22:00-06:30", "2026-03-02T23:10:00", True),
        ("22:00-06:30", "2026-03-03T06:29:00", True),
        ("22:00-06:30", "2026-03-03T12:00:00", False),
        ("mon 22:00-06:30", "2026-03-03T05:00:00", True),  # the night that began on Monday
        ("mon 22:00-06:30", "2026-03-02T05:00:00", False),
        ("sun 08:00-12:00", "2026-03-01T09:00:00", True),
        ("sun 08:00-12:00", "2026-03-02T09:00:00", False),
    ],
)
def test_nothing_is_changed_in_an_excluded_period(make, period, moment, inside) -> None:
    world = make.scene(at_s=at(moment) - 1.0)
    world = replace(world, seen=replace(world.seen, at_s=at(moment)))
    found = checked(world, OUT, OPEN.model_copy(update={"excluded": [period]}))
    assert (found.plan.actions == ()) is inside
    assert by(found) == (["excluded period"] if inside else [])


# Cool-off


def test_after_failures_the_stage_rests_twice_as_long_each_time(make) -> None:
    guard = OPEN.model_copy(update={"cool_off": 60.0})
    for failures, rest in ((1, 60.0), (2, 120.0), (3, 240.0), (9, 600.0)):
        tired = checked(make.scene(), OUT, guard, failures=failures, failed_at_s=make.now - rest + 1.0)
        assert by(tired) == ["cool-off"]
        assert tired.plan.actions == ()
        rested = checked(make.scene(), OUT, guard, failures=failures, failed_at_s=make.now - rest)
        assert rested.plan == OUT


# Stabilisation


def test_replicas_and_shares_rest_separately_after_a_change(make) -> None:
    guard = OPEN.model_copy(update={"stabilise": 30.0, "stabilise_share": 5.0})
    both = Plan((Share("work", "pi1", 0.8), *OUT.actions), "both")
    scaled = checked(make.scene(), both, guard, scaled_at_s=make.now - 29.0)
    assert scaled.plan.actions == (Share("work", "pi1", 0.8),)
    assert by(scaled) == ["stabilisation"]
    shared = checked(make.scene(), both, guard, shared_at_s=make.now - 4.0)
    assert shared.plan.actions == OUT.actions
    assert checked(make.scene(), both, guard, scaled_at_s=make.now - 30.0).plan.actions == both.actions


# Limits


def test_replicas_stay_within_the_users_limits(make) -> None:
    many = Plan((Scale("work", ("pi1", "pi2", "pi3", "pi4")),), "many")
    most = checked(make.scene(known={"max_replicas": 3}), many)
    assert nodes(most) == ("pi1", "pi2", "pi3")
    assert "at most 3 replicas, not 4" in most.notes[0].why
    least = checked(make.scene(("pi1", "pi3", "pi2"), known={"min_replicas": 2}), IN)
    assert nodes(least) == ("pi1", "pi2")
    assert "at least 2 replicas, not 1" in least.notes[0].why
    assert checked(make.scene(known={"max_replicas": 1}), OUT).plan.actions == ()


def test_limits_come_from_the_stage_then_from_all() -> None:
    guard = Guard.model_validate(
        {"min_replicas": 2, "max_replicas": 6, "stages": {"parse": {"max_replicas": 3}}}
    )
    assert guard.limits("parse") == (2, 3)
    assert guard.limits("count") == (2, 6)


def test_a_step_is_no_larger_than_allowed(make) -> None:
    guard = OPEN.model_copy(update={"most_added": 2, "most_removed": 1, "largest_share_step": 0.25})
    out = checked(make.scene(), Plan((Scale("work", ("pi1", "pi2", "pi3", "pi4")),), "out"), guard)
    assert nodes(out) == ("pi1", "pi2", "pi3")
    assert by(out) == ["largest step"]
    less = checked(make.scene(("pi4", "pi1", "pi2")), IN, guard)
    assert nodes(less) == ("pi1", "pi2")  # the farthest goes
    share = checked(make.scene({"pi1": 0.4}), Plan((Share("work", "pi1", 1.0),), "share"), guard)
    assert share.plan.actions == (Share("work", "pi1", 0.65),)
    assert "from 40% to 100%" in share.notes[0].why


def test_a_set_cut_down_gets_the_whole_cpu_instead_of_the_share_meant_for_more(make) -> None:
    guard = OPEN.model_copy(update={"most_added": 1})
    plan = Plan((Scale("work", ("pi1", "pi2", "pi3"), 0.5, keep_shares=False),), "out")
    (scale,) = checked(make.scene(), plan, guard).plan.actions
    assert (scale.nodes, scale.share) == (("pi1", "pi2"), 1.0)


@pytest.mark.parametrize(
    ("node", "given", "why"),
    [
        ("cloud", {}, "is no edge node"),
        ("pi9", {}, "is no edge node"),
        ("pi2", {"down": ("pi2",)}, "does not answer"),
        ("pi2", {"others": {"pi2": 0.5}}, "has 50% of its CPU free"),
    ],
)
def test_replicas_go_only_where_they_can(make, node, given, why) -> None:
    found = checked(make.scene(**given), Plan((Scale("work", ("pi1", node, "pi3")),), "out"))
    assert nodes(found) == ("pi1", "pi3")
    assert by(found) == ["unknown node"]
    assert why in found.notes[0].why


# Memory


def test_nothing_is_added_to_a_host_without_memory(make) -> None:
    def host(free_gib: float) -> HostMetrics:
        return HostMetrics(int(free_gib * 2**30), 20 << 30)

    facts = replace(make.scene().known.stage("work").facts, replica_bytes=1 << 30)
    three = Plan((Scale("work", ("pi1", "pi2", "pi3", "pi4")),), "out")
    world = make.scene(host=host(3.5), known={"facts": facts})  # a twentieth stays free: 2.5 GiB to give
    world = replace(world, seen=replace(world.seen, nodes=tuple(roomy(world.seen.nodes))))
    found = checked(world, three)
    assert nodes(found) == ("pi1", "pi2", "pi3")
    assert by(found) == ["memory"]
    none = replace(world, seen=replace(world.seen, host=host(0.5)))
    assert checked(none, three).plan.actions == ()


def roomy(found):
    return [replace(metrics, memory_limit_bytes=8 << 30) for metrics in found]


def test_no_replica_goes_to_a_node_without_memory(make) -> None:
    world = make.scene()
    full = [replace(m, memory_bytes=1020 << 20) if m.node == "pi2" else m for m in world.seen.nodes]
    world = replace(world, seen=replace(world.seen, nodes=tuple(full)))
    found = checked(world, Plan((Scale("work", ("pi1", "pi2", "pi3")),), "out"))
    assert nodes(found) == ("pi1", "pi3")
    assert "pi2 has 4 MiB free" in found.notes[0].why


# Ineffective scaling


def test_after_additions_without_gain_no_more_are_made_for_a_while(make) -> None:
    useless = {"useless": 2, "useless_from": 1, "useless_at_s": make.now - 599.0}
    found = checked(make.scene(), OUT, **useless)
    assert found.plan.actions == ()
    assert by(found) == ["ineffective scaling"]
    assert checked(make.scene(), OUT, **{**useless, "useless": 1}).plan == OUT
    assert checked(make.scene(), OUT, **{**useless, "useless_at_s": make.now - 600.0}).plan == OUT
    assert checked(make.scene(), OUT, **{**useless, "useless_from": 2}).plan == OUT  # that was with more
    assert nodes(checked(make.scene(("pi1", "pi2")), IN, **useless)) == ("pi1",)


# Catching up


def test_replicas_stay_while_a_backlog_shrinks_fast_enough(make) -> None:
    quick = make.scene(("pi1", "pi2"), input_rate=100.0, lag=3000, lag_trend=-100.0)  # 20 s left
    quick = replace(quick, known=evaluate(quick.seen, quick.known, OPEN))
    more = Plan((Scale("work", ("pi1", "pi2", "pi3")),), "more")
    for plan in (more, IN):
        found = checked(quick, plan)
        assert found.plan.actions == ()
        assert by(found) == ["catching up"]
    slow = make.scene(("pi1", "pi2"), input_rate=100.0, lag=30000, lag_trend=-5.0)
    slow = replace(slow, known=evaluate(slow.seen, slow.known, OPEN))
    assert checked(slow, IN).plan.actions == ()
    assert checked(quick, IN, OPEN.model_copy(update={"pause_while_catching_up": False})).plan == IN


# Delayed and merged scale-ins


def test_a_scale_in_waits_and_takes_the_least_that_was_asked_for_meanwhile(make) -> None:
    guard = OPEN.model_copy(update={"scale_in_delay": 60.0})
    world = make.scene(("pi1", "pi2", "pi3", "pi4"))
    record = Record()
    asked = {0: 2, 20: 3, 40: 1, 60: 1}
    found = None
    for later, count in asked.items():
        seen = replace(world.seen, at_s=make.now + later)
        seen = replace(
            seen, stages=(make.metrics(nodes=("pi1", "pi2", "pi3", "pi4"), at_s=make.now + later),)
        )
        plan = Plan((Scale("work", ("pi1", "pi2", "pi3")[:count]),), "in")
        found = guards.check(plan, seen, world.known, guard, record)
        record = found.record
        if later < 60:
            assert found.plan.actions == ()
            assert by(found) == ["delayed scale-in"]
    assert nodes(found) == ("pi1", "pi2", "pi3")
    assert "3 replicas were needed" in found.notes[0].why


def test_a_decision_that_needs_the_replicas_ends_the_wait(make) -> None:
    guard = OPEN.model_copy(update={"scale_in_delay": 60.0})
    world = make.scene(("pi1", "pi2"))
    record = Record()
    for later, plan in ((0, IN), (50, Plan.keep("needed")), (59, IN), (60, IN)):
        seen = replace(world.seen, at_s=make.now + later)
        found = guards.check(plan, seen, world.known, guard, record)
        record = found.record
        assert found.plan.actions == ()


def test_a_move_to_other_nodes_is_no_scale_in(make) -> None:
    guard = OPEN.model_copy(update={"scale_in_delay": 60.0})
    move = Plan((Scale("work", ("pi1", "pi3")),), "move")
    assert checked(make.scene(("pi1", "pi2")), move, guard).plan == move


def test_shares_still_change_while_a_scale_in_waits(make) -> None:
    guard = OPEN.model_copy(update={"scale_in_delay": 60.0})
    plan = Plan((Share("work", "pi2", 0.6), *IN.actions), "both")
    assert checked(make.scene(("pi1", "pi2")), plan, guard).plan.actions == (Share("work", "pi2", 0.6),)


def test_stages_are_judged_one_by_one(make) -> None:
    world = make.scene(stages={"parse": ("pi1",), "count": ("pi2",)})
    plan = Plan((Scale("parse", ("pi1", "pi3")), Scale("count", ("pi2", "pi4"))), "both")
    record = Record({"parse": StageRecord(failures=1, failed_at_s=make.now)})
    found = guards.check(plan, world.seen, world.known, OPEN, record)
    assert [action.stage for action in found.plan.actions] == ["count"]
    assert [(note.guard, note.stage) for note in found.notes] == [("cool-off", "parse")]
