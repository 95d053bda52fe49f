"""The ideal curve: every subset of nodes as the judge."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from fogmodels.throughput import Sample, fit
from fognetem.matrix import Path
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fogctl.sim import StageParameters
from fogctl.sim.ideal import best_sets, ideal_curve, ideal_replicas
from fogctl.sim.replicas import common_speed
from fogctl.testbed.model import LatencyChange

PARAMETERS = StageParameters(noise=0.0)
DISTANCES = st.lists(st.sampled_from([0.0, 5.0, 20.0, 50.0, 120.0, 300.0]), min_size=1, max_size=6)


def mst(n: int, rtt_ms: float, speed: float = 1.0, /) -> float:
    return PARAMETERS.mst(n, rtt_ms, 5.0, 8, speed)


@settings(max_examples=60, deadline=None)
@given(DISTANCES, st.floats(0.0, 800.0))
def test_the_least_n_is_that_of_all_subsets(distances, rate) -> None:
    sustain = [
        len(chosen)
        for n in range(1, len(distances) + 1)
        for chosen in combinations(distances, n)
        if mst(n, max(chosen)) >= rate
    ]
    (found,) = ideal_replicas([rate], distances, mst)
    if sustain:
        assert found == min(sustain)
    else:
        best = max(mst(n, max(c)) for n in range(1, len(distances) + 1) for c in combinations(distances, n))
        assert max(mst(found, max(c)) for c in combinations(distances, found)) == pytest.approx(best)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 50.0, 300.0]), st.sampled_from([0.5, 1.0, 4.0])),
        min_size=1,
        max_size=5,
    )
)
def test_with_unequal_nodes_no_subset_does_better(nodes) -> None:
    far, fast = [n[0] for n in nodes], [n[1] for n in nodes]
    sets, rates = best_sets(far, mst, fast, partitions=8)
    for n in range(1, len(nodes) + 1):
        judged = max(
            mst(
                n,
                max(far[i] for i in chosen),
                common_speed(sorted((fast[i] for i in chosen), reverse=True), 8),
            )
            for chosen in combinations(range(len(nodes)), n)
        )
        assert rates[n - 1] == pytest.approx(judged)
        assert len(sets[n - 1].nodes) == n


def test_a_far_node_that_slows_the_set_is_never_ideal() -> None:
    # Two near nodes and one so far that three are slower than two: whatever the rate, never three.
    distances = [0.0, 0.0, 300.0]
    assert mst(3, 300.0) < mst(2, 0.0)
    assert set(ideal_replicas(np.linspace(0, 2000, 50), distances, mst)) == {1, 2}


def test_it_takes_any_fitted_model() -> None:
    model = fit(
        [Sample(1, 0.0, 100.0, 500, 8), Sample(4, 0.0, 380.0, 2000, 8), Sample(4, 300.0, 200.0, 2000, 8)]
    )
    curve = ideal_replicas([50.0, 300.0], [0.0] * 4, lambda n, rtt, _=1.0, /: model.mst(n, rtt, 500 * n, 8))
    assert curve[0] == 1
    assert curve[1] > 1


def test_the_curve_follows_latencies_that_change(world) -> None:
    change = [LatencyChange(100.0, "e2", o, Path(rtt_ms=300.0)) for o in ("cloud", "broker")]
    testbed = world.testbed((0.0, 0.0, 10.0), schedule=change)
    stage = world.app(("work", "records", "done"), partitions=8).stages[0]
    times, rates = np.array([0.0, 50.0, 150.0]), np.array([50.0, 200.0, 200.0])
    curve = ideal_curve(testbed, stage, PARAMETERS, times, rates)
    assert curve.tolist() == [1, 2, 2]
    both_far = [*change, *(LatencyChange(100.0, "e3", o, Path(rtt_ms=300.0)) for o in ("cloud", "broker"))]
    far = world.testbed((0.0, 0.0, 10.0), schedule=both_far)
    assert ideal_curve(far, stage, PARAMETERS, times, rates).tolist()[:2] == [1, 2]
    assert ideal_curve(far, stage, PARAMETERS, times, rates)[2] != 2


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.floats(40.0, 420.0))
def test_the_ideal_number_keeps_up_in_the_simulator_and_one_less_does_not(world, rate) -> None:
    from fogctl.sim import Counted

    testbed = world.testbed((0.0, 5.0, 20.0, 50.0))
    app = world.app(("work", "records", "done"), partitions=8)
    (n,) = ideal_curve(testbed, app.stages[0], PARAMETERS, [0.0], [rate])
    for nodes, keeps_up in ((n, True), (n - 1, False)):
        if not nodes:
            continue
        names = [f"e{i + 1}" for i in range(nodes)]
        sim = world.simulation(Counted(np.full(3000, rate)), names, PARAMETERS, testbed=testbed, app=app)
        sim.advance(3000.0)
        backlog = sim.stages["work"].lag(3000.0) - 2 * 5.0 * rate  # a batch in progress and one that fills
        over = rate - mst(nodes, (0.0, 5.0, 20.0, 50.0)[nodes - 1])
        assert (backlog <= 0) == keeps_up or abs(over) < 0.01 * rate


@pytest.mark.parametrize("bad", [[], [-1.0], [float("nan")]])
def test_distances_that_are_none_are_refused(bad) -> None:
    with pytest.raises(ValueError, match="distances"):
        best_sets(bad, mst)
