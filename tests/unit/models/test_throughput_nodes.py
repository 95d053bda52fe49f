"""Best node sets, replicas for a rate, and what to do next, judged by trying everything."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from fogmodels.throughput import (
    Configuration,
    Prices,
    Sample,
    compare_options,
    fit,
    nearest_set,
    tightest_set,
)
from hypothesis import given, settings
from hypothesis import strategies as st


def width(table, nodes):
    return max((max(table[i][j], table[j][i]) for i, j in combinations(nodes, 2)), default=0.0)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_tightest_set_is_the_first_of_the_best_of_all_sets(data):
    size = data.draw(st.integers(1, 8))
    table = [[data.draw(st.integers(0, 6)) * 10.0 for _ in range(size)] for _ in range(size)]
    n = data.draw(st.integers(1, size))
    including = data.draw(st.sets(st.integers(0, size - 1), max_size=n))
    best = min(
        (width(table, nodes), nodes) for nodes in combinations(range(size), n) if including <= set(nodes)
    )
    found = tightest_set(table, n, sorted(including))
    assert (found.rtt_max_ms, found.nodes) == best


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([0.0, 5.0, 10.0, 80.0]), min_size=1, max_size=9), st.data())
def test_nearest_set_is_the_best_of_all_sets_and_prefers_earlier_nodes(rtts, data):
    n = data.draw(st.integers(1, len(rtts)))
    found = nearest_set(rtts, n)
    assert found.rtt_max_ms == min(max(rtts[i] for i in nodes) for nodes in combinations(range(len(rtts)), n))
    assert found.rtt_max_ms == max(rtts[i] for i in found.nodes)
    for i in found.nodes:
        assert all(j in found.nodes for j in range(i) if rtts[j] == rtts[i])


def test_tightest_set_of_a_hundred_scattered_places_is_found():
    places = np.random.default_rng(4).uniform(0, 100, (100, 2))
    table = np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1))
    for n in (5, 20, 60):
        found = tightest_set(table, n)
        assert len(found.nodes) == n
        assert width(table, found.nodes) == found.rtt_max_ms
        # No set around any single place is tighter: an upper bound found another way.
        around = np.argsort(table, axis=1)[:, :n]
        assert found.rtt_max_ms <= min(width(table, row) for row in around)


def test_hundreds_of_nodes_in_one_set_are_found():
    assert tightest_set(np.ones((400, 400)), 350).nodes == tuple(range(350))


def spark_model():
    def mst(n, d, rows):
        m = -(-8 // n)
        return rows / (0.12 * m + rows / (120.0 * n) + (4 + 2 * m) * d / 1e3)

    points = [(n, d, rows) for n in (1, 2, 4) for d in (0.0, 50.0, 150.0, 300.0) for rows in (200.0, 1000.0)]
    return fit([Sample(n, d, mst(n, d, rows), rows, 8) for n, d, rows in points], "batch")


MODEL = spark_model()


@settings(max_examples=60, deadline=None)
@given(st.floats(0, 600), st.lists(st.floats(0, 300), min_size=1, max_size=7))
def test_replicas_for_a_rate_is_the_least_number_whose_best_set_sustains_it(rate, rtts):
    sustained = {
        n: max(MODEL.mst(n, max(nodes), 400, 8) for nodes in combinations(rtts, n))
        for n in range(1, len(rtts) + 1)
    }
    expected = min((n for n, mst in sustained.items() if mst >= rate), default=None)
    assert MODEL.replicas_for(rate, rtts, batch_rows=400, partitions=8) == expected


def test_replicas_between_each_other_and_with_headroom():
    table = [[0, 10, 200], [10, 0, 200], [200, 200, 0]]
    two = MODEL.mst(2, 10.0, 400, 8)
    assert MODEL.replicas_for(two * 0.99, table, batch_rows=400, partitions=8) == 2
    assert MODEL.replicas_for(two * 0.99, table, batch_rows=400, partitions=8, headroom=0.1) is None


def test_a_far_node_ranks_below_share_and_batch_and_says_why():
    now = Configuration(3, 0.0, 400.0, 8, 1.0)
    options = compare_options(MODEL, now, shares=[1.2], batches=[1200.0], nodes={"near": 0.0, "far": 300.0})
    assert options[-1].value == "far"
    assert options[-1].gain < 0
    assert "no gain" in options[-1].reason
    assert {o.action for o in options} == {"raise share", "raise batch", "add node"}
    ratios = [o.gain_per_cost for o in options]
    assert ratios == sorted(ratios, reverse=True)
    for o in options:
        assert o.gain == pytest.approx(o.mst - MODEL.mst(3, 0.0, 400, 8, 1.0))


def test_options_that_reach_the_needed_rate_come_first_and_stale_batches_last():
    now = Configuration(2, 0.0, 400.0, 8, 1.0)
    near = MODEL.mst(3, 0.0, 400, 8, 1.0)
    options = compare_options(
        MODEL,
        now,
        shares=[1.01],
        batches=[100_000.0],
        nodes={"near": 0.0},
        needed_rate=near * 0.99,
        longest_batch_s=10.0,
        prices=Prices(node=1e6),
    )
    assert [o.action for o in options] == ["add node", "raise share", "raise batch"]
    assert not options[-1].allowed
    assert "longer than" in options[-1].reason


def test_options_of_the_papers_form_know_no_batches():
    model = fit([Sample(1, 0.0, 100.0), Sample(2, 100.0, 150.0)], "gesscale")
    by_action = {
        o.action: o for o in compare_options(model, Configuration(2, 0.0), batches=[9.0], nodes={"a": 0.0})
    }
    assert by_action["raise batch"].gain == 0.0
    assert by_action["add node"].gain == pytest.approx(100.0)
