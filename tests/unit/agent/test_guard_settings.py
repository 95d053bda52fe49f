"""Every setting of the guard rails is obeyed: with another value than the default another thing happens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fogctl.agent import effects, guards
from fogctl.agent.evaluate import evaluate
from fogctl.agent.events import MemoryLog
from fogctl.agent.loop import Agent
from fogctl.agent.observation import HostMetrics
from fogctl.agent.plan import Plan, Scale, Share
from fogctl.agent.policy import make as policy
from fogctl.agent.settings import AgentSettings, Guard
from fogctl.agent.state import Effect
from fogctl.agent.store import MemoryStore
from fogctl.agent.wish import Record, StageRecord

OPEN = {"scale_in_delay": "0s", "stabilise": "0s", "stabilise_share": "0s"}
OUT = Plan((Scale("work", ("pi1", "pi2")),), "more")
FIVE = Plan((Scale("work", ("pi1", "pi2", "pi3", "pi4", "pi5")),), "all")
IN = Plan((Scale("work", ("pi1",)),), "less")


def passes(world: Any, plan: Plan, settings: dict[str, Any], **record: Any) -> bool:
    """Whether a plan gets through unchanged."""
    guard = Guard(**{**OPEN, **settings})
    held = guards.check(plan, world.seen, world.known, guard, Record({"work": StageRecord(**record)}))
    return held.plan == plan


def full(world: Any, node: str, free_mib: int) -> Any:
    """The same with so much memory free on one node of 1 GiB."""
    used = (1024 - free_mib) << 20
    nodes = tuple(replace(m, memory_bytes=used) if m.node == node else m for m in world.seen.nodes)
    return replace(world, seen=replace(world.seen, nodes=nodes))


def test_how_old_metrics_may_be(make) -> None:
    old = make.scene(at_s=make.now - 45.0)
    assert passes(old, OUT, {"stale_after": "45s"})
    assert not passes(old, OUT, {"stale_after": "44s"})


def test_how_long_replicas_rest_after_a_change(make) -> None:
    changed = {"scaled_at_s": make.now - 20.0}
    assert passes(make.scene(), OUT, {"stabilise": "20s"}, **changed)
    assert not passes(make.scene(), OUT, {"stabilise": "21s"}, **changed)


def test_how_long_shares_rest_after_a_change(make) -> None:
    share = Plan((Share("work", None, 0.8),), "less CPU")
    changed = {"shared_at_s": make.now - 8.0}
    assert passes(make.scene(), share, {"stabilise_share": "8s"}, **changed)
    assert not passes(make.scene(), share, {"stabilise_share": "9s"}, **changed)


def test_how_long_a_stage_rests_after_a_failure(make) -> None:
    failed = {"failures": 1, "failed_at_s": make.now - 90.0}
    assert passes(make.scene(), OUT, {"cool_off": "90s"}, **failed)
    assert not passes(make.scene(), OUT, {"cool_off": "91s"}, **failed)


def test_how_many_additions_without_gain_are_enough(make) -> None:
    useless = {"useless": 2, "useless_from": 1, "useless_at_s": make.now - 1.0}
    assert passes(make.scene(), OUT, {"ineffective_after": 3}, **useless)
    assert not passes(make.scene(), OUT, {"ineffective_after": 1}, **{**useless, "useless": 1})


def test_how_long_no_more_are_made_then(make) -> None:
    useless = {"useless": 2, "useless_from": 1, "useless_at_s": make.now - 60.0}
    assert passes(make.scene(), OUT, {"ineffective_pause": "60s"}, **useless)
    assert not passes(make.scene(), OUT, {"ineffective_pause": "61s"}, **useless)


def test_how_much_an_addition_must_gain(make) -> None:
    """From 100 to 110 records a second, still overloaded: 10 % is a gain or none, by what is asked for."""
    effect = Effect(1, "work", "out", 1, 0.0, 1.0, 0.0, 0.0, 200.0, 100.0, True)
    world = make.scene(processed_rate=110.0, known={"overloaded": True})

    def useless(least: str) -> bool:
        seen = effects.look((effect,), world.seen, world.known, Record(), Guard(least_gain=least))
        (event,) = seen.events
        assert seen.record.of("work").useless == int(event["useless"])
        return bool(event["useless"])

    assert not useless("9%")
    assert useless("11%")


@pytest.mark.parametrize(("setting", "plan"), [("most_added", FIVE), ("most_removed", IN)])
def test_how_many_replicas_come_or_go_at_once(make, setting, plan) -> None:
    world = make.scene(("pi1",) if plan is FIVE else ("pi1", "pi2", "pi3", "pi4", "pi5"))
    assert passes(world, plan, {"most_added": 9, "most_removed": 9})
    assert not passes(world, plan, {"most_added": 9, "most_removed": 9, setting: 3})


def test_by_how_much_a_share_changes_at_once(make) -> None:
    share = Plan((Share("work", None, 0.4),), "less CPU")
    assert passes(make.scene(), share, {"largest_share_step": "60%"})
    assert not passes(make.scene(), share, {"largest_share_step": "59%"})


def test_how_long_removals_wait(make) -> None:
    world = make.scene(("pi1", "pi2"))
    asked = {"in_since_s": make.now - 30.0, "in_nodes": ("pi1",)}
    assert passes(world, IN, {"scale_in_delay": "30s"}, **asked)
    assert not passes(world, IN, {"scale_in_delay": "31s"}, **asked)


def test_how_much_memory_a_host_and_a_node_keep_free(make) -> None:
    host = HostMetrics(3 << 30, 20 << 30)
    assert passes(make.scene(host=host), OUT, {"host_memory_free": "14%"})
    assert not passes(make.scene(host=host), OUT, {"host_memory_free": "16%"})
    tight = full(make.scene(), "pi2", 100)
    assert passes(tight, OUT, {"node_memory_free": "9%"})
    assert not passes(tight, OUT, {"node_memory_free": "10%"})


def test_in_which_periods_nothing_is_changed(make) -> None:
    assert passes(make.scene(), OUT, {"excluded": ["12:00-13:00"]})
    assert not passes(make.scene(), OUT, {"excluded": ["00:00-01:00"]}), "the scene is at 00:16:40 UTC"


def test_whether_replicas_stay_while_a_backlog_shrinks_and_how_fast_that_must_be(make) -> None:
    world = make.scene(("pi1", "pi2"), input_rate=100.0, lag=3000, lag_trend=-20.0)  # 100 s left
    world = replace(world, known=evaluate(world.seen, world.known, Guard()))
    more = Plan((Scale("work", ("pi1", "pi2", "pi3")),), "more")
    assert not passes(world, more, {"catch_up": "110s"})
    assert passes(world, more, {"catch_up": "90s"}), "too slow: additions are let through"
    assert passes(world, IN, {"pause_while_catching_up": False})
    assert not passes(world, IN, {"pause_while_catching_up": True})


def test_headroom_and_catch_up_size_the_rate_that_is_needed(make) -> None:
    world = make.scene(input_rate=100.0)

    def needed(**settings: Any) -> tuple[float, float]:
        stage = evaluate(world.seen, world.known, Guard(**settings)).stage("work")
        return stage.needed_rate, stage.sized_rate

    assert needed(headroom="0%")[0] == pytest.approx(100.0)
    assert needed(headroom="30%")[0] == pytest.approx(130.0)
    quick, slow = needed(catch_up="10s")[1], needed(catch_up="100s")[1]
    assert quick > slow, "what piles up during a change is worked off within that time"


def test_how_far_back_lags_and_rates_are_looked_at(make) -> None:
    old = tuple((make.now - ago, 10.0) for ago in (25.0, 15.0, 5.0))
    world = make.scene(known={"lags": old, "rates": old})

    def kept(window: str) -> int:
        return len(evaluate(world.seen, world.known, Guard(window=window)).stage("work").lags)

    assert (kept("10s"), kept("20s"), kept("40s")) == (2, 3, 4)


def test_how_many_replicas_a_stage_has_at_least_and_at_most(make) -> None:
    """By way of the agent, which gives every stage its limits before it asks the policy."""

    def after(**guard: Any) -> int:
        plant = make.plant(rate=lambda _: 150.0)
        settings = AgentSettings(every="5s", guard=Guard(window="10s", **OPEN, **guard))
        Agent(plant, "toy", policy("gesscale"), settings, MemoryStore(), MemoryLog()).run(300.0)
        return len(plant.placed.stage("work").nodes)

    assert after() == 3
    assert after(max_replicas=2) == 2
    assert after(max_replicas=2, stages={"work": {"max_replicas": 1}}) == 1
    assert after(stages={"other": {"max_replicas": 1}}) == 3


def test_fewer_replicas_than_the_least_are_never_left(make) -> None:
    plant = make.plant(rate=lambda at_s: 150.0 if at_s < 200.0 else 20.0)
    settings = AgentSettings(every="5s", guard=Guard(window="10s", **OPEN, min_replicas=2))
    Agent(plant, "toy", policy("gesscale"), settings, MemoryStore(), MemoryLog()).run(600.0)
    assert len(plant.placed.stage("work").nodes) == 2
