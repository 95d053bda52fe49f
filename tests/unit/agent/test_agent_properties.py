"""What no policy may do, whatever it sees and whatever it was told."""

from __future__ import annotations

import math
import random

import pytest
from fogmodels.throughput import Sample
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fogctl.agent import guards
from fogctl.agent.plan import Scale, Share
from fogctl.agent.policy import make as policy
from fogctl.agent.recovery import wanted
from fogctl.agent.settings import Guard
from fogctl.agent.wish import Record

NAMES = ["thr-nlunaware", "thr-nlaware", "mdl-nlunaware", "gesscale", "gesscale-spark", "ds2", "hybrid"]
AWARE = ["thr-nlaware", "gesscale", "ds2"]
NODES = [f"n{i}" for i in range(6)]


def _wild(seed: int, count: int) -> tuple[Sample, ...]:
    """Samples that no stage could give."""
    rng = random.Random(seed)
    return tuple(
        Sample(
            rng.randint(1, 6),
            rng.choice([0.0, 5.0, 150.0, 500.0]),
            math.exp(rng.uniform(-2.0, 9.0)),
            math.exp(rng.uniform(0.0, 9.0)),
            8,
            share=rng.choice([0.3, 0.7, 1.0]),
        )
        for _ in range(count)
    )


# A few sets only: fitting takes longer than everything else here, and a set is fitted once.
SAMPLES = [(), _wild(1, 1), _wild(2, 2), _wild(3, 4), _wild(4, 7)]
seeds = st.integers(0, 2**32)


def world_of(make, seed: int):
    """A stage somewhere on six nodes, with whatever numbers the seed gives."""
    rng = random.Random(seed)
    rate = lambda: rng.choice([0.0, 1e-300, rng.uniform(0.0, 500.0), rng.uniform(0.0, 5e3)])  # noqa: E731
    distances = {node: rng.choice([0.0, 5.0, 50.0, 150.0, 300.0]) for node in NODES}
    placed = rng.sample(NODES, rng.randint(1, 5))
    least = rng.randint(1, 3)
    needed = rate()
    return make.scene(
        {node: rng.choice([0.3, 0.5, 1.0]) for node in placed},
        cpu=rng.uniform(0.0, 1.2),
        distances=distances,
        down=rng.sample(NODES, rng.choice([0, 0, 1, 2, 6])),
        known={
            "batches": rng.choice(SAMPLES),
            "saturated": rng.choice(SAMPLES),
            "overloaded": rng.random() < 0.5,
            "needed_rate": needed,
            "sized_rate": needed * rng.uniform(1.0, 1.5),
            "min_replicas": least,
            "max_replicas": rng.randint(least, 6),
        },
        others={node: rng.choice([0.0, 0.5, 1.0]) for node in NODES if node not in placed},
        input_rate=rate(),
        processed_rate=rate(),
        busyness=rng.choice([0.0, rng.random(), 1.0]),
        lag=rng.choice([0, 100, 10**6]),
        lag_trend=rng.uniform(-1e3, 1e3),
        batch_ms=rng.uniform(0.0, 2e4),
        batch_rows=rng.uniform(0.0, 1e5),
    )


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=seeds)
def test_a_policy_names_only_nodes_that_answer_and_have_room_within_the_limits(make, name, seed) -> None:
    world = world_of(make, seed)
    plan = policy(name).decide(world.seen, world.known)
    assert plan.reason
    assert policy(name).decide(world.seen, world.known) == plan  # the same again
    before = world.seen.placement("work")
    limits = world.known.stage("work")
    for action in plan.actions:
        assert action.stage == "work"
        if isinstance(action, Share):
            own = {replica.node: replica.share for replica in before.replicas}
            assert action.node in own
            assert 0.0 < action.share <= 1.0
            assert action.share <= own[action.node] + world.seen.free_share(action.node) + 1e-6
            continue
        assert len(set(action.nodes)) == len(action.nodes) >= 1
        added = set(action.nodes) - set(before.nodes)
        for node in added:
            assert node in NODES
            assert world.seen.node(node) is not None
            assert world.seen.free_share(node) + 1e-6 >= action.share
        if added:
            assert len(action.nodes) <= max(limits.max_replicas, len(before.nodes))
        answering = [node for node in before.nodes if world.seen.node(node) is not None]
        if len(action.nodes) < len(answering):
            assert len(action.nodes) >= min(limits.min_replicas, len(answering))
        assert set(action.nodes) != set(before.nodes) or not action.keep_shares


@pytest.mark.parametrize("name", AWARE)
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=seeds)
def test_a_latency_aware_policy_adds_the_nearest_and_removes_the_farthest(make, name, seed) -> None:
    world = world_of(make, seed)
    before = world.seen.placement("work")
    alive = [node for node in before.nodes if world.seen.node(node) is not None]
    far = world.known.distance_ms
    for action in policy(name).decide(world.seen, world.known).actions:
        assert isinstance(action, Scale)
        added = [node for node in action.nodes if node not in before.nodes]
        passed_over = [
            node
            for node in NODES
            if node not in action.nodes
            and node not in before.nodes
            and world.seen.node(node) is not None
            and world.seen.free_share(node) >= action.share - 1e-9
        ]
        if added and passed_over:
            assert max(map(far, added)) <= min(map(far, passed_over))
        kept = [node for node in alive if node in action.nodes]
        gone = [node for node in alive if node not in action.nodes]
        if kept and gone:
            assert max(map(far, kept)) <= min(map(far, gone))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=seeds)
def test_what_guard_rails_let_through_is_no_more_than_was_asked_and_within_limits(make, name, seed) -> None:
    world = world_of(make, seed)
    asked = policy(name).decide(world.seen, world.known)
    guard = Guard(most_added=2, most_removed=1, scale_in_delay="0s")
    left = guards.check(asked, world.seen, world.known, guard, Record()).plan
    before = set(world.seen.placement("work").nodes)
    wish = {n for a in asked.actions if isinstance(a, Scale) for n in a.nodes} or before
    after = set(wanted(left, world.seen.deployment).stage("work").nodes)
    assert after - before <= wish - before
    assert before - after <= before - wish
    assert len(after - before) <= 2
    assert len(before - after) <= 1
    if left.actions != asked.actions:
        reordered = set(left.actions) == set(asked.actions)
        notes = guards.check(asked, world.seen, world.known, guard, Record()).notes
        assert reordered or notes
