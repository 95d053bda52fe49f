"""Best parallelism: brute force over every vector, the published cases, and what is refused."""

from __future__ import annotations

import itertools
import json
import math
import os
from fractions import Fraction
from pathlib import Path

import pytest
from fogmodels.capacity import best_parallelism, true_rate
from hypothesis import given, settings
from hypothesis import strategies as st

DATA = Path(os.environ.get("FOGCTL_TEST_DATA", Path(__file__).parents[4] / "shared" / "data")) / "streambed"

positive = st.one_of(
    st.integers(1, 12).map(float),  # small whole numbers make ties
    st.floats(1e-6, 1e9),
)
ratio = st.one_of(st.just(0.0), st.integers(1, 4).map(float), st.floats(1e-7, 1e4))


def rate_of(tasks: tuple[int, ...], rates: list[float], ratios: list[float]) -> Fraction:
    return min(
        Fraction(n) * Fraction(o) / Fraction(r) for n, o, r in zip(tasks, rates, ratios, strict=True) if r > 0
    )


def every_vector(operators: int, budget: int) -> list[tuple[int, ...]]:
    most = budget - operators + 1
    return [
        vector for vector in itertools.product(range(1, most + 1), repeat=operators) if sum(vector) <= budget
    ]


@st.composite
def small_problems(draw: st.DrawFn) -> tuple[list[float], list[float], int]:
    operators = draw(st.integers(1, 4))
    rates = draw(st.lists(positive, min_size=operators, max_size=operators))
    ratios = draw(st.lists(ratio, min_size=operators, max_size=operators).filter(any))
    return rates, ratios, draw(st.integers(operators, operators + 6))


@settings(max_examples=150, deadline=None)
@given(small_problems())
def test_no_vector_within_the_budget_sustains_more_and_none_as_much_with_fewer_tasks(
    problem: tuple[list[float], list[float], int],
) -> None:
    rates, ratios, budget = problem
    found = best_parallelism(rates, ratios, budget)
    vectors = every_vector(len(rates), budget)
    best = max(rate_of(vector, rates, ratios) for vector in vectors)
    optimal = [vector for vector in vectors if rate_of(vector, rates, ratios) == best]
    fewest = min(sum(vector) for vector in optimal)
    assert [vector for vector in optimal if sum(vector) == fewest] == [found.tasks]
    assert found.source_rate == float(best)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.floats(1e-3, 1e7), st.floats(1e-5, 10)), min_size=1, max_size=30),
    st.integers(0, 10_000),
)
def test_large_budgets_agree_with_giving_each_task_to_the_bottleneck(
    operators: list[tuple[float, float]], extra: int
) -> None:
    rates, ratios = [o for o, _ in operators], [r for _, r in operators]
    found = best_parallelism(rates, ratios, len(operators) + extra)
    unit = [Fraction(o) / Fraction(r) for o, r in operators]
    reached = min(n * one for n, one in zip(found.tasks, unit, strict=True))
    # One step more for every operator at the bottom must break the budget, else it was not the best.
    needed = sum(n + (n * one == reached) for n, one in zip(found.tasks, unit, strict=True))
    assert needed > len(operators) + extra
    assert found.total <= len(operators) + extra
    # No operator has a task it could do without at this rate.
    assert all(n == 1 or (n - 1) * one < reached for n, one in zip(found.tasks, unit, strict=True))


def test_very_unequal_rates_stay_exact() -> None:
    found = best_parallelism([1e-12, 1e12], [1.0, 1.0], 10_000)
    assert found.tasks == (9_999, 1)
    assert found.source_rate == float(9_999 * Fraction(1e-12))


def test_operator_without_input_keeps_one_task() -> None:
    found = best_parallelism([10.0, 0.0, 5.0], [1.0, 0.0, 1.0], 7)
    assert found.tasks == (2, 1, 4)
    assert found.source_rate == 20.0


def test_unused_budget_is_left_unused() -> None:
    found = best_parallelism([3.0, 1.0], [1.0, 1.0], 5)
    assert found.tasks == (1, 3)
    assert found.total == 4


@pytest.mark.parametrize(
    ("rates", "ratios", "budget", "sentence"),
    [
        ([], [], 3, "true_rates is empty"),
        ([1.0], [1.0, 2.0], 3, "1 entries but ratios has 2"),
        ([math.nan], [1.0], 3, r"true_rates\[0\] must be finite"),
        ([math.inf], [1.0], 3, r"true_rates\[0\] must be finite"),
        ([0.0], [1.0], 3, r"true_rates\[0\] must be positive"),
        ([-1.0], [0.0], 3, r"true_rates\[0\] must be positive"),
        ([1.0], [-1.0], 3, r"ratios\[0\] must not be negative"),
        ([1.0, 1.0], [0.0, 0.0], 3, "all zero"),
        ([1.0, 1.0], [1.0, 1.0], 1, "2 operators need at least one task each"),
        ([1.0], [1.0], 0, "budget must be at least 1"),
        ([1.0], [1.0], 2.5, "whole number"),
        ([1.0], [1.0], math.nan, "budget must be finite"),
        ([[1.0]], [1.0], 3, "must be a number"),
        (["1"], [1.0], 3, "must be a number"),
        (5.0, [1.0], 3, "must be a list"),
        ([1e308], [1e-308], 3, "too large"),
    ],
)
def test_nonsense_is_refused_in_a_sentence(
    rates: object, ratios: object, budget: object, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        best_parallelism(rates, ratios, budget)  # type: ignore[arg-type]


def test_true_rate_is_rate_over_busyness() -> None:
    assert true_rate(500.0, 0.25) == 2000.0


def test_busyness_above_one_counts_as_one() -> None:
    assert true_rate(500.0, 1.19) == 500.0


def test_busyness_below_the_resolution_gives_a_finite_lower_bound() -> None:
    assert true_rate(5.0, 0.0) == pytest.approx(5000.0)
    assert true_rate(5.0, 0.0, resolution=0.01) == pytest.approx(500.0)


def test_idle_task_promises_nothing() -> None:
    assert true_rate(0.0, 0.0) == 0.0


@pytest.mark.parametrize(
    ("rate", "busyness"), [(-1, 0.5), (1, -0.1), (math.nan, 0.5), (1, math.inf), ("1", 1)]
)
def test_true_rate_refuses_nonsense(rate: float, busyness: float) -> None:
    with pytest.raises(ValueError, match="must be"):
        true_rate(rate, busyness)


@pytest.mark.skipif(not DATA.is_dir(), reason="published StreamBed cases are not here")
def test_published_cases_come_out_exactly() -> None:
    cases = json.loads((DATA / "bids2_cases.json").read_text())
    assert len(cases) >= 61
    for case in cases:
        rates = [operator["true_rate"] for operator in case["ops"]]
        found = best_parallelism(rates, [operator["ratio"] for operator in case["ops"]], case["budget"])
        assert list(found.tasks) == case["parallelism"], case["id"]
        assert found.source_rate == pytest.approx(case["exact_lambda"], rel=1e-12), case["id"]
        for operator in case["ops"]:
            assert true_rate(operator["rate"], operator["busyness"], resolution=1e-9) == pytest.approx(
                operator["true_rate"]
            )
