"""Search strategies against the full search on systems where more never hurts."""

from __future__ import annotations

import math

import pytest
from fogmodels.scalability import load_capacity, resource_demand
from fogmodels.throughput import Sample, fit
from hypothesis import given, settings
from hypothesis import strategies as st

STRATEGIES = ["linear", "binary", "guided"]


@st.composite
def monotone_systems(draw):
    """Loads, resources, and for each amount of resources a capacity that does not fall."""
    resources = sorted(draw(st.sets(st.integers(1, 60), min_size=1, max_size=12)))
    loads = sorted(draw(st.sets(st.integers(1, 60), min_size=1, max_size=12)))
    capacities = sorted(draw(st.lists(st.floats(0, 70), min_size=len(resources), max_size=len(resources))))
    table = dict(zip(resources, capacities, strict=True))
    return loads, resources, lambda load, amount: load <= table[amount]


def counting(sustains, asked):
    def experiment(load, amount):
        asked.append((load, amount))
        return sustains(load, amount)

    return experiment


@pytest.mark.parametrize("search", [resource_demand, load_capacity])
@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=60, deadline=None)
@given(monotone_systems(), st.booleans(), st.one_of(st.none(), st.integers(-10, 80)))
def test_every_strategy_gives_the_full_searchs_answer(search, strategy, system, lower_bound, guess):
    loads, resources, sustains = system
    asked = []
    guided = {"guess": lambda _: guess} if strategy == "guided" else {}
    found = search(
        loads, resources, counting(sustains, asked), strategy=strategy, lower_bound=lower_bound, **guided
    )
    full = search(loads, resources, sustains, strategy="full")
    assert dict(found.answers) == dict(full.answers)
    assert [(e.load, e.resources) for e in found.experiments] == asked
    assert found.count == len(asked) == len(set(asked)) <= full.count == len(loads) * len(resources)


def test_full_answer_is_what_the_words_say():
    def sustains(load, amount):
        return load <= 10 * amount

    demand = resource_demand([5, 10, 15, 100], [1, 2, 3], sustains, strategy="full")
    assert dict(demand.answers) == {5: 1, 10: 1, 15: 2, 100: None}
    capacity = load_capacity([5, 15, 25], [0.1, 1, 2, 9], sustains, strategy="full")
    assert dict(capacity.answers) == {0.1: None, 1: 5, 2: 15, 9: 25}


def test_linear_with_lower_bound_runs_the_experiments_of_the_thesis():
    """Each load starts at the demand of the load before: loads + resources - 1 experiments at most."""
    found = resource_demand([1, 2, 3, 4], [1, 2, 3, 4], lambda load, amount: amount >= load)
    tried = [(e.load, e.resources) for e in found.experiments]
    assert tried == [(1, 1), (2, 1), (2, 2), (3, 2), (3, 3), (4, 3), (4, 4)]


def test_nothing_is_run_for_loads_above_one_that_nothing_sustains():
    found = resource_demand([1, 2, 3], [1, 2], lambda load, _: load < 2, strategy="binary")
    assert found.answers[3] is None
    assert all(e.load < 3 for e in found.experiments)


def test_linear_finds_the_least_also_where_more_replicas_hurt():
    found = resource_demand([10], [1, 2, 3], lambda _, amount: amount == 2, lower_bound=False)
    assert found.answers[10] == 2


def test_a_throughput_model_starts_the_search_near_the_answer():
    def mst(n):
        return 1000.0 * n**0.85

    model = fit([Sample(n, 0.0, mst(n)) for n in (1, 2, 4, 6)], "gesscale")
    loads, resources = [1500.0 * i for i in range(1, 13)], list(range(1, 41))

    def sustains(load, n):
        return load <= mst(n)

    counts = {}
    for strategy in ("full", "linear", "binary"):
        counts[strategy] = resource_demand(loads, resources, sustains, strategy=strategy).count
    guided = resource_demand(
        loads, resources, sustains, strategy="guided", guess=lambda load: model.replicas_for(load, [0.0] * 40)
    )
    assert guided.answers == resource_demand(loads, resources, sustains, strategy="full").answers
    assert guided.count <= 2 * len(loads)
    assert guided.count < min(counts["binary"], counts["linear"]) < counts["full"] == 480


def test_a_majority_of_repetitions_decides_and_each_counts():
    votes = iter([True, False, True])
    found = resource_demand([1], [1], lambda *_: next(votes), repetitions=3)
    assert (found.answers[1], found.count) == (1, 3)


@pytest.mark.parametrize(
    ("loads", "resources", "options"),
    [
        ([], [1], {}),
        ([1], [], {}),
        ([2, 1], [1], {}),
        ([1, 1], [1], {}),
        ([0], [1], {}),
        ([math.nan], [1], {}),
        ([1], [math.inf], {}),
        (["a"], [1], {}),
        ([1], [1], {"strategy": "clever"}),
        ([1], [1], {"strategy": "guided"}),
        ([1], [1], {"guess": lambda _: 1}),
        ([1], [1], {"strategy": "guided", "guess": lambda _: math.nan}),
        ([1], [1], {"repetitions": 0}),
    ],
)
def test_bad_searches_are_one_sentence(loads, resources, options):
    with pytest.raises(ValueError, match=r"^[^\n]+\.$"):
        resource_demand(loads, resources, lambda *_: True, **options)
