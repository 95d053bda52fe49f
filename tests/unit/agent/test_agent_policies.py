"""Each policy against what the papers say it does, computed by hand or by trying everything."""

from __future__ import annotations

import itertools
import math

import pytest
from fogmodels.throughput import Sample

from fogctl.agent.knowledge import StageFacts
from fogctl.agent.plan import Plan, Scale, Share
from fogctl.agent.policies.ds2 import target_rates
from fogctl.agent.policies.scale_down import replicas_after, spare_percent
from fogctl.agent.policy import make as policy
from fogctl.runtime.batch_size import AIM

FRESH_S = 5.0


def nodes_of(plan: Plan) -> tuple[str, ...] | None:
    """The nodes that the plan's one change of replicas leads to."""
    found = [action.nodes for action in plan.actions if isinstance(action, Scale)]
    assert len(found) <= 1
    return found[0] if found else None


def true_capacity(make, nodes: tuple[str, ...], distances: dict[str, float], share: float = 1.0) -> float:
    """What the stage of `conftest.batch_mst` truly sustains with batches of nine tenths of the bound."""
    n, rtt = len(nodes), max(distances[node] for node in nodes)
    fixed = 1.0 / make.batch_mst(n, rtt, 1e-9, share=share) * 1e-9
    per_row = 1.0 / (120.0 * share * n)
    rows = max(AIM * FRESH_S - fixed, 0.25 * fixed) / per_row
    return rows / (fixed + rows * per_row)


# Thresholds


@pytest.mark.parametrize("name", ["thr-nlunaware", "thr-nlaware"])
@pytest.mark.parametrize(("cpu", "change"), [(0.91, 1), (0.90, 0), (0.70, 0), (0.50, 0), (0.49, -1)])
def test_thresholds_change_one_replica_above_90_and_below_50_per_cent(make, name, cpu, change) -> None:
    world = make.scene(("pi1", "pi3"), cpu=cpu)
    nodes = nodes_of(policy(name, {"utilisation": "cpu"}).decide(world.seen, world.known))
    assert (len(nodes) if nodes else 2) == 2 + change
    # Two replicas did 100 records a second once, so that is what two can bear.
    bears = {"saturated": (Sample(2, 20.0, 100.0, 400.0, 8),)}
    world = make.scene(("pi1", "pi3"), input_rate=100.0 * cpu, known=bears)
    nodes = nodes_of(policy(name).decide(world.seen, world.known))
    assert (len(nodes) if nodes else 2) == 2 + change


@pytest.mark.parametrize("name", ["thr-nlunaware", "thr-nlaware"])
@pytest.mark.parametrize("cpu", [0.1, 0.95])
def test_a_node_of_which_is_not_known_yet_what_it_uses_is_not_taken_for_idle(make, name, cpu) -> None:
    from dataclasses import replace

    world = make.scene(("pi1", "pi3"), cpu=cpu, busyness=cpu)
    silent_yet = tuple(
        replace(each, cpu_used_cores=None) if each.node == "pi3" else each for each in world.seen.nodes
    )
    seen = replace(world.seen, nodes=silent_yet)
    assert seen.cpu_utilisation("work") is None
    plan = policy(name, {"utilisation": "cpu"}).decide(seen, world.known)
    assert plan.actions == ()
    assert "what pi3 uses of its CPU is not known yet" in plan.reason
    # One that runs nothing of the stage does not matter.
    elsewhere = replace(seen, deployment=make.deployment(work=("pi1", "pi2")))
    assert elsewhere.cpu_utilisation("work") == pytest.approx(cpu)


def test_thresholds_know_no_load_before_the_first_overload_and_take_that_for_full(make) -> None:
    idle = make.scene(("pi1", "pi3"), cpu=0.1)
    assert policy("thr-nlaware").decide(idle.seen, idle.known).actions == ()
    # With a far node it falls behind long before it does what near ones did.
    bears = {"saturated": (Sample(2, 20.0, 100.0, 400.0, 8),), "overloaded": True}
    far = make.scene(("pi1", "pi5"), cpu=0.3, input_rate=40.0, known=bears)
    assert nodes_of(policy("thr-nlaware").decide(far.seen, far.known)) == ("pi1", "pi5", "pi2")


def test_thr_nlaware_adds_the_nearest_and_removes_the_farthest(make) -> None:
    cpu = policy("thr-nlaware", {"utilisation": "cpu"})
    more = make.scene(("pi4", "pi1"), cpu=0.95)
    assert nodes_of(cpu.decide(more.seen, more.known)) == ("pi4", "pi1", "pi2")
    less = make.scene(("pi4", "pi1", "pi3"), cpu=0.2)
    assert nodes_of(cpu.decide(less.seen, less.known)) == ("pi1", "pi3")


def test_thr_nlunaware_picks_any_node_and_with_one_seed_the_same_in_the_same_situation(make) -> None:
    from dataclasses import replace

    world = make.scene(("pi1",), cpu=0.95)
    picked = []
    for seed in range(60):
        chance = policy("thr-nlunaware", {"utilisation": "cpu", "seed": seed})
        first = chance.decide(world.seen, world.known)
        # Whatever happened before: two runs part only where their replicas do.
        assert chance.decide(world.seen, replace(world.known, decisions=seed)) == first
        picked.append(nodes_of(first)[-1])
    assert set(picked) == {"pi2", "pi3", "pi4", "pi5"}
    assert max(picked.count(node) for node in set(picked)) < 30


def test_thresholds_may_look_at_busy_executors_instead_of_the_cpu(make) -> None:
    waiting = make.scene(("pi1",), cpu=0.4, busyness=0.95)
    assert policy("thr-nlaware").decide(waiting.seen, waiting.known).actions == ()
    busy = policy("thr-nlaware", {"utilisation": "busy"})
    assert nodes_of(busy.decide(waiting.seen, waiting.known)) == ("pi1", "pi2")


def test_thresholds_the_wrong_way_round_are_refused() -> None:
    from fogctl.errors import FogError

    with pytest.raises(FogError, match="scale_in_below must be less"):
        policy("thr-nlaware", {"scale_in_below": 0.95})


# Algorithms 2 and 4


def test_spare_percent_is_the_papers_dt() -> None:
    assert spare_percent(200.0, 150.0) == 25.0
    assert spare_percent(0.0, 10.0) == 0.0


@pytest.mark.parametrize("threshold", [0.0, 10.0, 40.0])
@pytest.mark.parametrize("rate", [10.0, 99.0, 100.0, 101.0, 250.0, 399.0, 1000.0])
@pytest.mark.parametrize("least", [1, 3])
def test_scale_down_keeps_the_fewest_replicas_that_sustain_the_load(threshold, rate, least) -> None:
    def mst(n: int) -> float:
        return 100.0 * n

    kept = replicas_after(5, least, mst, rate, rate, threshold)
    # Every n that may be reached: the MST of each step on the way suffices, and there was spare above it.
    reachable = [5]
    for n in (4, 3, 2, 1):
        if n < least or mst(n) < rate or 100 * (mst(n + 1) - rate) / mst(n + 1) <= threshold:
            break
        reachable.append(n)
    assert kept == min(reachable)
    assert kept == 5 or mst(kept) >= rate


# Gesscale


def paper_samples() -> tuple[Sample, ...]:
    """MST = 100·n^0.9 − 0.2·ND measured without noise: what the paper's form is exact on."""
    return tuple(
        Sample(n, rtt, 100 * n**0.9 - 0.2 * rtt) for n in (1, 2, 3, 5) for rtt in (0.0, 20.0, 100.0, 300.0)
    )


def test_gesscale_adds_one_nearest_node_when_overloaded_however_much_is_lacking(make) -> None:
    world = make.scene(("pi1",), input_rate=1000.0, known={"overloaded": True, "saturated": paper_samples()})
    plan = policy("gesscale").decide(world.seen, world.known)
    assert nodes_of(plan) == ("pi1", "pi2")
    assert plan.predicted["work.mst"] == pytest.approx(100 * 2**0.9 - 0.2 * 10.0, rel=0.01)


@pytest.mark.parametrize("rate", [20.0, 60.0, 90.0, 170.0, 180.0, 250.0, 260.0, 300.0])
def test_gesscale_removes_the_farthest_as_far_as_the_model_allows(make, rate) -> None:
    order = ("pi1", "pi2", "pi3", "pi4")
    world = make.scene(
        ("pi4", "pi2", "pi1", "pi3"),
        input_rate=rate,
        processed_rate=rate,
        known={"saturated": paper_samples()},
    )
    far = {1: 0.0, 2: 10.0, 3: 20.0, 4: 100.0}
    mst = {n: 100 * n**0.9 - 0.2 * far[n] for n in far}
    n = 4
    while n > 1 and 100 * (mst[n] - rate) / mst[n] > 10.0 and mst[n - 1] >= rate:
        n -= 1
    nodes = nodes_of(policy("gesscale").decide(world.seen, world.known))
    assert (nodes or order) == order[:n] if n < 4 else nodes is None


def test_gesscale_without_a_measurement_removes_nothing(make) -> None:
    world = make.scene(("pi1", "pi2"), input_rate=1.0, processed_rate=1.0)
    plan = policy("gesscale").decide(world.seen, world.known)
    assert plan.actions == ()
    assert "no model yet" in plan.reason


def test_gesscale_calibrates_from_the_throughput_while_overloaded_not_from_small_batches(make) -> None:
    slow = (Sample(2, 10.0, 20.0, 10.0, 8),)
    world = make.scene(("pi1", "pi2"), input_rate=30.0, processed_rate=30.0, known={"batches": slow})
    assert world.known.stage("work").model("gesscale").mst(2, 10.0) == pytest.approx(20.0)
    both = make.scene(("pi1", "pi2"), known={"batches": slow, "saturated": paper_samples()})
    assert both.known.stage("work").model("gesscale").mst(2, 20.0) == pytest.approx(182.6, rel=0.02)


def test_mdl_nlunaware_uses_alpha_times_n_and_random_nodes(make) -> None:
    seen_mst = (Sample(2, 300.0, 100.0), Sample(3, 300.0, 150.0), Sample(1, 0.0, 50.0))
    world = make.scene(
        ("pi1", "pi2", "pi3", "pi4", "pi5"),
        input_rate=95.0,
        processed_rate=95.0,
        known={"saturated": seen_mst},
    )
    left = set()
    for seed in range(40):
        plan = policy("mdl-nlunaware", {"seed": seed}).decide(world.seen, world.known)
        assert len(nodes_of(plan)) == 2  # alpha 50: two sustain 100, one would not
        assert plan.predicted["work.mst"] == pytest.approx(100.0)
        left.add(frozenset(nodes_of(plan)))
    assert len(left) > 5
    out = make.scene(("pi1",), known={"overloaded": True, "saturated": seen_mst})
    assert len(nodes_of(policy("mdl-nlunaware").decide(out.seen, out.known))) == 2


# Gesscale for Spark


@pytest.mark.parametrize("rate", [60.0, 130.0, 180.0, 240.0, 290.0, 400.0])
def test_gesscale_spark_takes_the_least_set_that_sustains_the_rate(make, rate) -> None:
    distances = {"pi1": 0.0, "pi2": 10.0, "pi3": 20.0, "pi4": 100.0, "pi5": 300.0}
    world = make.scene(
        ("pi1",),
        input_rate=rate / 1.1,
        processed_rate=60.0,
        known={"batches": make.samples, "needed_rate": rate, "sized_rate": rate},
    )
    sustained = {
        n: max(true_capacity(make, s, distances) for s in itertools.combinations(distances, n))
        for n in range(1, 6)
    }
    enough = [n for n, most in sustained.items() if most >= rate]
    nodes = nodes_of(policy("gesscale-spark").decide(world.seen, world.known)) or ("pi1",)
    if enough:
        assert len(nodes) == min(enough)
    else:
        assert true_capacity(make, nodes, distances) == pytest.approx(max(sustained.values()), rel=0.02)


@pytest.mark.parametrize("name", ["gesscale-spark", "hybrid"])
def test_cold_batches_alone_make_no_model_that_adds_nodes(make, name) -> None:
    slow = (Sample(1, 0.0, 2.0, 20.0, 8, weight=0.2),)
    known = {"batches": slow, "needed_rate": 30.0, "sized_rate": 30.0, "grown_at_s": make.now - 8.0}
    cold = make.scene(("pi1",), input_rate=27.0, processed_rate=2.0, known=known)
    assert policy(name).decide(cold.seen, cold.known).actions == ()
    later = make.scene(
        ("pi1",), input_rate=27.0, processed_rate=2.0, known={**known, "grown_at_s": make.now - 60.0}
    )
    assert policy(name).decide(later.seen, later.known).actions != ()


@pytest.mark.parametrize("name", ["gesscale-spark", "hybrid"])
def test_short_batches_add_no_replica_on_the_models_word_alone(make, name) -> None:
    known = {"batches": make.samples, "needed_rate": 290.0, "sized_rate": 290.0}
    said = {
        batch_ms: nodes_of(policy(name).decide(world.seen, world.known))
        for batch_ms in (600.0, 2000.0)
        for world in [
            make.scene(("pi1",), input_rate=260.0, processed_rate=60.0, batch_ms=batch_ms, known=known)
        ]
    }
    assert not said[600.0]
    assert len(said[2000.0]) > 1
    behind = make.scene(
        ("pi1",), input_rate=260.0, processed_rate=60.0, batch_ms=600.0, known={**known, "overloaded": True}
    )
    assert len(nodes_of(policy(name).decide(behind.seen, behind.known))) > 1


def test_gesscale_spark_adds_two_when_the_load_rises_steeply_and_one_when_it_does_not(make) -> None:
    one = true_capacity(make, ("pi1",), {"pi1": 0.0})
    for rate, expected in ((0.5 * one, 3), (0.95 * one, 2)):
        wanted = 1.05 * one
        known = {"batches": make.samples, "needed_rate": wanted, "sized_rate": wanted}
        world = make.scene(("pi1",), input_rate=rate, processed_rate=rate, known=known)
        assert len(nodes_of(policy("gesscale-spark").decide(world.seen, world.known))) == expected


def test_gesscale_spark_refuses_a_node_that_brings_too_little(make) -> None:
    distances = {"pi1": 0.0, "pi2": 10.0, "pi3": 20.0, "pi4": 130.0}
    three = true_capacity(make, ("pi1", "pi2", "pi3"), distances)
    four = true_capacity(make, ("pi1", "pi2", "pi3", "pi4"), distances)
    assert three < four < three * (1 + 0.6 / 4)
    known = {"batches": make.samples, "needed_rate": 1.01 * three, "sized_rate": 1.01 * three}
    world = make.scene(
        ("pi1", "pi2", "pi3"), distances=distances, input_rate=three, processed_rate=three, known=known
    )
    assert policy("gesscale-spark").decide(world.seen, world.known).actions == ()
    eager = policy("gesscale-spark", {"worth": 0.05})
    assert len(nodes_of(eager.decide(world.seen, world.known))) == 4


def test_gesscale_spark_refuses_a_node_that_would_lower_the_mst(make) -> None:
    distances = {"pi1": 0.0, "pi2": 0.0, "pi5": 900.0}
    world = make.scene(
        ("pi1", "pi2"),
        distances=distances,
        input_rate=500.0,
        processed_rate=200.0,
        known={"batches": make.samples, "overloaded": True, "needed_rate": 550.0, "sized_rate": 560.0},
    )
    assert true_capacity(make, ("pi1", "pi2", "pi5"), distances) < true_capacity(
        make, ("pi1", "pi2"), distances
    )
    plan = policy("gesscale-spark").decide(world.seen, world.known)
    assert plan.actions == ()
    assert "pi5 at 900 ms" in plan.reason
    assert nodes_of(policy("gesscale").decide(world.seen, world.known)) == ("pi1", "pi2", "pi5")


def test_gesscale_spark_gives_up_a_node_that_went_far_away(make) -> None:
    distances = {"pi1": 0.0, "pi2": 900.0, "pi3": 10.0}
    world = make.scene(
        ("pi1", "pi2"),
        distances=distances,
        input_rate=180.0,
        processed_rate=20.0,
        known={"batches": make.samples, "overloaded": True, "needed_rate": 198.0, "sized_rate": 199.0},
    )
    plan = policy("gesscale-spark").decide(world.seen, world.known)
    assert set(nodes_of(plan)) == {"pi1", "pi3"}


def test_gesscale_spark_leaves_spare_capacity_when_it_removes(make) -> None:
    distances = {"pi1": 0.0, "pi2": 10.0, "pi3": 20.0}
    two = true_capacity(make, ("pi1", "pi2"), distances)
    for rate, spent, left in ((two / 1.17, 100.0, 2), (two / 1.02, 100.0, 3), (two / 1.17, 10.0, 3)):
        world = make.scene(
            ("pi3", "pi1", "pi2"),
            distances=distances,
            input_rate=rate,
            processed_rate=rate,
            known={"batches": make.samples, "needed_rate": rate, "sized_rate": rate},
            memory={"gesscale-spark.surplus.work": [make.now - 1.0, spent]},
        )
        nodes = (
            nodes_of(policy("gesscale-spark").decide(world.seen, world.known))
            or world.seen.placement("work").nodes
        )
        assert len(nodes) == left
        assert "pi1" in nodes


def test_what_a_stage_does_while_overloaded_corrects_the_model_but_not_while_it_warms_up(make) -> None:
    given = {"batches": make.samples, "overloaded": True, "needed_rate": 60.0, "sized_rate": 60.0}
    world = make.scene(("pi1",), input_rate=55.0, processed_rate=45.0, known=given)
    assert nodes_of(policy("gesscale-spark").decide(world.seen, world.known)) == ("pi1", "pi2")
    fresh = make.scene(
        ("pi1",), input_rate=55.0, processed_rate=45.0, known={**given, "grown_at_s": make.now - 10.0}
    )
    assert policy("gesscale-spark").decide(fresh.seen, fresh.known).actions == ()


@pytest.mark.parametrize("name", ["gesscale-spark", "hybrid"])
def test_overload_of_replicas_that_have_just_begun_adds_nothing_until_they_are_warm(make, name) -> None:
    new = {"overloaded": True, "grown_at_s": make.now - 8.0, "worked_s": {"pi1": 0.5}}
    first = make.scene(("pi1",), input_rate=80.0, processed_rate=40.0, known=new)
    assert policy(name).decide(first.seen, first.known).actions == ()
    # The model says that one sustains it once warm; it is believed until one that is warm falls behind.
    given = {"batches": make.samples, "overloaded": True, "needed_rate": 60.0, "sized_rate": 60.0}
    for worked_s, expected in ((2.0, None), (20.0, ("pi1", "pi2"))):
        known = {**given, "grown_at_s": make.now - 60.0, "worked_s": {"pi1": worked_s}}
        world = make.scene(("pi1",), input_rate=55.0, processed_rate=40.0, known=known)
        assert nodes_of(policy(name).decide(world.seen, world.known)) == expected
    # Nor is a meter believed that says for minutes that nothing was worked.
    known = {**given, "grown_at_s": make.now - 400.0, "worked_s": {"pi1": 0.0}}
    world = make.scene(("pi1",), input_rate=55.0, processed_rate=40.0, known=known)
    assert nodes_of(policy(name).decide(world.seen, world.known)) == ("pi1", "pi2")
    # What even warm replicas would not sustain is mended at once.
    steep = {**given, "needed_rate": 290.0, "sized_rate": 290.0, "worked_s": {"pi1": 2.0}}
    world = make.scene(("pi1",), input_rate=260.0, processed_rate=40.0, batch_ms=4500.0, known=steep)
    assert len(nodes_of(policy(name).decide(world.seen, world.known))) > 1


def whole_tasks(partitions: int) -> tuple[Sample, ...]:
    """Samples of a stage whose tasks are whole: 120 records a second a replica, 0.1 s a task."""
    found = []
    for n, rtt, rows in itertools.product((1, 2, 4), (0.0, 20.0), (50.0, 400.0, 1500.0)):
        m = -(-partitions // n)
        seconds = 0.1 * m + rows * m / partitions / 120.0 + (4.0 + 2.0 * m) * rtt / 1e3
        found.append(Sample(n, rtt, rows / seconds, rows, partitions, slots=1))
    return tuple(found)


@pytest.mark.parametrize("name", ["gesscale-spark", "hybrid"])
def test_replicas_are_added_only_where_the_busiest_gets_fewer_tasks(make, name) -> None:
    distances = {f"pi{i}": float(i) for i in range(1, 11)}
    nodes = tuple(distances)[:4]
    known = {"batches": whole_tasks(8), "needed_rate": 480.0, "sized_rate": 490.0}
    world = make.scene(nodes, distances=distances, input_rate=450.0, processed_rate=400.0, known=known)
    assert len(nodes_of(policy(name).decide(world.seen, world.known))) == 8
    # With ten tasks a fifth replica leaves two to each; a sixth, a seventh and an eighth bring nothing.
    known["batches"] = whole_tasks(10)
    facts = {"work": StageFacts("work", 10, FRESH_S, ("records",), "work-out")}
    world = make.scene(
        nodes, distances=distances, facts=facts, input_rate=450.0, processed_rate=350.0, known=known
    )
    assert len(nodes_of(policy(name).decide(world.seen, world.known))) == 5
    five = make.scene(
        tuple(distances)[:5],
        distances=distances,
        facts=facts,
        input_rate=560.0,
        processed_rate=500.0,
        known={**known, "needed_rate": 600.0, "sized_rate": 600.0, "max_replicas": 8},
    )
    assert nodes_of(policy(name).decide(five.seen, five.known)) is None
    # Unless warm replicas leave a backlog: then the lag knows better.
    late = {**known, "needed_rate": 600.0, "sized_rate": 600.0, "max_replicas": 8, "overloaded": True}
    behind = make.scene(
        tuple(distances)[:5],
        distances=distances,
        facts=facts,
        input_rate=560.0,
        processed_rate=500.0,
        lag=12000,
        known=late,
    )
    assert len(nodes_of(policy(name).decide(behind.seen, behind.known))) == 6


@pytest.mark.parametrize("name", ["gesscale-spark", "hybrid"])
def test_nothing_is_removed_while_the_load_rises_steeply(make, name) -> None:
    memory = {f"{name}.surplus.work": [make.now - 1.0, 1000.0]}
    for sized, left in ((22.0, 1), (40.0, 3)):
        world = make.scene(
            ("pi1", "pi2", "pi3"),
            input_rate=20.0,
            processed_rate=20.0,
            known={"batches": make.samples, "needed_rate": 22.0, "sized_rate": sized},
            memory=memory,
        )
        nodes = nodes_of(policy(name).decide(world.seen, world.known)) or ("pi1", "pi2", "pi3")
        assert len(nodes) == left


@pytest.mark.parametrize("name", ["gesscale-spark", "hybrid"])
def test_each_replica_that_goes_was_to_spare_for_as_long_as_its_return_would_take(make, name) -> None:
    for spent, left in ((100.0, 3), (200.0, 1)):  # two of them: 90 s each
        world = make.scene(
            ("pi1", "pi2", "pi3"),
            input_rate=20.0,
            processed_rate=20.0,
            known={"batches": make.samples, "needed_rate": 22.0, "sized_rate": 22.0},
            memory={f"{name}.surplus.work": [make.now - 1.0, spent]},
        )
        nodes = nodes_of(policy(name).decide(world.seen, world.known)) or ("pi1", "pi2", "pi3")
        assert len(nodes) == left


def test_hybrid_gives_cold_replicas_the_share_that_they_need_now(make) -> None:
    def level(worked_s: float) -> float:
        known = {"batches": make.samples, "needed_rate": 44.0, "sized_rate": 44.0}
        world = make.scene(
            ("pi1",),
            input_rate=40.0,
            processed_rate=40.0,
            known={**known, "grown_at_s": make.now - 60.0, "worked_s": {"pi1": worked_s}},
        )
        plan = policy("hybrid").decide(world.seen, world.known)
        return min((a.share for a in plan.actions if isinstance(a, Share)), default=1.0)

    assert level(100.0) < level(2.0)


@pytest.mark.parametrize("name", ["gesscale-spark", "hybrid"])
def test_without_a_model_overload_adds_the_nearest_node(make, name) -> None:
    world = make.scene(("pi1",), known={"overloaded": True})
    assert nodes_of(policy(name).decide(world.seen, world.known)) == ("pi1", "pi2")
    calm = make.scene(("pi1", "pi2"))
    assert policy(name).decide(calm.seen, calm.known).actions == ()


# DS2


def test_ds2_replicas_are_input_over_true_rate(make) -> None:
    world = make.scene(
        ("pi1",), processed_rate=60.0, busyness=0.5, known={"needed_rate": 250.0, "sized_rate": 250.0}
    )
    plan = policy("ds2").decide(world.seen, world.known)
    assert nodes_of(plan) == ("pi1", "pi2", "pi3")  # 60/0.5 = 120 a replica; ceil(250/120) = 3
    assert plan.numbers["work.true_rate"] == pytest.approx(120.0)


def test_ds2_learns_how_busy_replicas_are_when_overloaded(make) -> None:
    busy = make.scene(
        ("pi1",), processed_rate=60.0, busyness=0.6, known={"overloaded": True, "needed_rate": 100.0}
    )
    plan = policy("ds2").decide(busy.seen, busy.known)
    assert plan.remember == {"ds2.busy_when_overloaded.work": 0.6}
    assert nodes_of(plan) == ("pi1", "pi2")  # it does 60 and no more, whatever 60/0.6 says
    later = make.scene(
        ("pi1", "pi2"), processed_rate=60.0, busyness=0.3, known={"needed_rate": 60.0}, memory=plan.remember
    )
    assert nodes_of(policy("ds2").decide(later.seen, later.known)) == ("pi1",)  # 2 × 60 at 0.6: one does 60


def chain() -> dict[str, StageFacts]:
    return {
        "parse": StageFacts("parse", 8, 5.0, ("lines",), "parsed"),
        "count": StageFacts("count", 8, 5.0, ("parsed",), "counts"),
    }


def test_ds2_sizes_a_stage_for_what_its_upstream_will_send_once_that_is_scaled(make) -> None:
    world = make.scene(
        stages={"parse": ("pi1",), "count": ("pi2",)},
        facts=chain(),
        each={
            "parse": {"input_rate": 200.0, "processed_rate": 50.0},
            "count": {"input_rate": 25.0, "processed_rate": 25.0, "busyness": 0.5},
        },
    )
    targets = target_rates(world.seen, world.known)
    assert targets["parse"] == pytest.approx(220.0)
    assert targets["count"] == pytest.approx(25.0 * 1.1 * 220.0 / 50.0)


def test_ds2_shares_too_few_nodes_so_that_the_source_rate_is_highest(make) -> None:
    distances = {f"pi{i}": 0.0 for i in range(1, 6)}
    world = make.scene(
        stages={"parse": ("pi1",), "count": ("pi2",)},
        facts=chain(),
        distances=distances,
        busyness=1.0,
        each={
            "parse": {"input_rate": 1000.0, "processed_rate": 100.0},
            "count": {"input_rate": 100.0, "processed_rate": 50.0},
        },
    )
    plan = policy("ds2").decide(world.seen, world.known)
    wanted = {a.stage: len(a.nodes) for a in plan.actions}
    after = {"parse": wanted.get("parse", 1), "count": wanted.get("count", 1)}
    assert sum(after.values()) <= 5
    ratio = target_rates(world.seen, world.known)

    def source(parse: int, count: int) -> float:
        return min(parse * 100.0 / ratio["parse"], count * 50.0 / ratio["count"])

    best = max(source(p, 5 - p) for p in range(1, 5))
    assert source(after["parse"], after["count"]) == pytest.approx(best)


# Hybrid


def test_hybrid_raises_shares_before_it_adds_replicas(make) -> None:
    world = make.scene(
        {"pi1": 0.5},
        input_rate=60.0,
        processed_rate=45.0,
        known={"batches": make.samples, "needed_rate": 66.0, "sized_rate": 66.0},
    )
    plan = policy("hybrid").decide(world.seen, world.known)
    (share,) = plan.actions
    assert isinstance(share, Share)
    enough = [
        x
        for x in policy("hybrid").levels
        if true_capacity(make, ("pi1",), {"pi1": 0.0}, share=x) >= 1.2 * 66.0
    ]
    assert share.share == pytest.approx(min(enough), abs=0.11)


def test_hybrid_adds_replicas_when_shares_have_run_out(make) -> None:
    world = make.scene(
        ("pi1",),
        input_rate=150.0,
        processed_rate=90.0,
        known={"batches": make.samples, "needed_rate": 165.0, "sized_rate": 170.0},
    )
    plan = policy("hybrid").decide(world.seen, world.known)
    assert nodes_of(plan) == ("pi1", "pi2")


def test_hybrid_lowers_shares_and_removes_replicas_when_fewer_do(make) -> None:
    low = make.scene(
        ("pi1",),
        input_rate=20.0,
        processed_rate=20.0,
        known={"batches": make.samples, "needed_rate": 22.0, "sized_rate": 22.0},
    )
    (share,) = policy("hybrid").decide(low.seen, low.known).actions
    assert isinstance(share, Share)
    assert share.share < 0.5
    surplus = {"hybrid.surplus.work": [make.now - 1.0, 200.0]}
    many = make.scene(
        ("pi1", "pi3", "pi2"),
        input_rate=50.0,
        processed_rate=50.0,
        known={"batches": make.samples, "needed_rate": 55.0, "sized_rate": 55.0},
        memory=surplus,
    )
    plan = policy("hybrid").decide(many.seen, many.known)
    assert nodes_of(plan) == ("pi1",)
    scale = plan.actions[-1]
    assert not scale.keep_shares
    assert true_capacity(make, ("pi1",), {"pi1": 0.0}, share=scale.share) >= 55.0


def test_hybrid_never_takes_more_of_a_node_than_other_apps_leave(make) -> None:
    world = make.scene(
        {"pi1": 0.4},
        others={"pi1": 0.4},
        input_rate=90.0,
        processed_rate=40.0,
        known={"batches": make.samples, "overloaded": True, "needed_rate": 99.0, "sized_rate": 99.0},
    )
    for action in policy("hybrid").decide(world.seen, world.known).actions:
        if isinstance(action, Share) and action.node == "pi1":
            assert action.share <= 0.6 + 1e-9


def test_a_levels_setting_out_of_range_is_refused() -> None:
    from fogctl.errors import FogError

    with pytest.raises(FogError, match="levels must be shares"):
        policy("hybrid", {"levels": [0.5, 1.5]})


def test_capacity_of_a_distant_set_is_less_and_of_a_larger_share_more(make) -> None:
    from fogctl.agent.policies.capacity import Capacity

    world = make.scene(("pi1",), processed_rate=1.0, known={"batches": make.samples})
    capacity = Capacity(world.known.stage("work").model("batch"), world.known, 8, FRESH_S)
    assert capacity.rate((), 1.0) == 0.0
    for nodes in (("pi1",), ("pi1", "pi2"), ("pi1", "pi2", "pi3")):
        truth = true_capacity(make, nodes, {"pi1": 0.0, "pi2": 10.0, "pi3": 20.0})
        assert capacity.rate(nodes, 1.0) == pytest.approx(truth, rel=0.08)
    assert capacity.rate(("pi5",), 1.0) < capacity.rate(("pi4",), 1.0) < capacity.rate(("pi1",), 1.0)
    assert capacity.rate(("pi1",), 0.5) < capacity.rate(("pi1",), 0.9)
    assert math.isfinite(capacity.rate(("pi5",), 0.2))
