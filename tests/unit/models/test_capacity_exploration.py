"""Where to measure next: the Gaussian process against plain algebra, improvement against integration."""

from __future__ import annotations

import csv
import math
import os
from pathlib import Path

import numpy as np
import pytest
from fogmodels.capacity import (
    Candidate,
    GaussianProcess,
    Observation,
    SearchSpace,
    StopRule,
    expected_improvement,
    fit_capacity,
    next_measurement,
    score_history,
)
from hypothesis import given, settings
from hypothesis import strategies as st

DATA = Path(os.environ.get("FOGCTL_TEST_DATA", Path(__file__).parents[4] / "shared" / "data")) / "streambed"
SPACE = SearchSpace(tuple(range(9, 49)), tuple(512.0 * k for k in range(1, 9)))


def kernel(p: np.ndarray, q: np.ndarray, length: float) -> float:
    r = math.sqrt(5) * math.dist(p, q) / length
    return (1 + r + r * r / 3) * math.exp(-r)


unit_points = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=8)


@settings(max_examples=25, deadline=None)
@given(unit_points, unit_points, st.floats(0.1, 2.0), st.floats(1e-3, 0.5), st.integers(0, 1000))
def test_posterior_is_the_textbook_formula(
    known: list[tuple[float, float]],
    asked: list[tuple[float, float]],
    length: float,
    noise: float,
    seed: int,
) -> None:
    x, points = np.array(known), np.array(asked)
    y = np.random.default_rng(seed).normal(5.0, 3.0, len(x))
    mean, sd = GaussianProcess.fit(x, y, length, noise).posterior(points)
    covariance = np.array([[kernel(p, q, length) for q in x] for p in x]) + noise * np.eye(len(x))
    inverse = np.linalg.inv(covariance)
    for i, point in enumerate(points):
        k = np.array([kernel(point, q, length) for q in x])
        assert mean[i] == pytest.approx(y.mean() + k @ inverse @ (y - y.mean()), rel=1e-6, abs=1e-6)
        variance = max(0.0, 1 - k @ inverse @ k)
        assert sd[i] == pytest.approx(y.std() * math.sqrt(variance), rel=1e-4, abs=1e-5)


def test_kernel_scale_is_chosen_by_likelihood() -> None:
    x = np.linspace(0, 1, 12)[:, None]
    wavy = GaussianProcess.fit(x, np.sin(12 * x[:, 0]))
    straight = GaussianProcess.fit(x, x[:, 0])
    assert wavy.length_scale < straight.length_scale


@settings(max_examples=40, deadline=None)
@given(st.floats(-5, 5), st.floats(0.05, 3), st.floats(-5, 5))
def test_expected_improvement_is_the_integral(mean: float, sd: float, best: float) -> None:
    y = np.linspace(mean - 10 * sd, mean + 10 * sd, 40_001)
    density = np.exp(-0.5 * ((y - mean) / sd) ** 2) / (sd * math.sqrt(2 * math.pi))
    integral = np.trapezoid(np.maximum(best - y, 0) * density, y)
    assert expected_improvement(np.array([mean]), np.array([sd]), best)[0] == pytest.approx(
        integral, abs=1e-6
    )


def test_certain_points_improve_by_their_difference() -> None:
    assert expected_improvement(np.array([3.0, 7.0]), np.zeros(2), 5.0).tolist() == [2.0, 0.0]


def explore(mst: object, space: SearchSpace = SPACE) -> list[Observation]:
    rows: list[Observation] = []
    while (candidate := next_measurement(space, rows)) is not None:
        rows.append(Observation(candidate.task_slots, candidate.memory_mb, mst(candidate)))  # type: ignore[operator]
        assert len(rows) <= 20
    return rows


def noisy(seed: int) -> object:
    rng = np.random.default_rng(seed)

    def mst(candidate: Candidate) -> float:
        return float((5.7e5 * math.log1p(candidate.task_slots) - 1.2e6) * (1 + 0.05 * rng.standard_normal()))

    return mst


def test_corners_come_first() -> None:
    rows = explore(noisy(0))
    assert [(row.task_slots, row.memory_mb) for row in rows[:4]] == [
        (9, 512),
        (48, 512),
        (9, 4096),
        (48, 4096),
    ]


def test_exploration_is_deterministic_stays_in_the_space_and_ends() -> None:
    rows = explore(noisy(1))
    assert rows == explore(noisy(1))
    assert 7 < len(rows) <= 20
    assert all(row.task_slots in SPACE.task_slots and row.memory_mb in SPACE.memory_mb for row in rows)
    # Beyond the corners it looks inside, which is what tells the families apart.
    assert any(9 < row.task_slots < 48 for row in rows)


def test_perfect_measurements_do_not_stall_the_search() -> None:
    rows = explore(lambda candidate: 100.0 * candidate.task_slots)
    assert len(rows) == 20
    assert fit_capacity(rows).family == "linear"


def test_fixed_memory_has_two_corners_and_still_explores() -> None:
    rows = explore(lambda c: 100.0 * math.sqrt(c.task_slots), SearchSpace((2, 3, 4, 8, 16), (1024.0,)))
    assert [row.task_slots for row in rows[:2]] == [2, 16]
    assert len({row.task_slots for row in rows}) > 2


def test_stop_rule_waits_for_three_beyond_the_corners() -> None:
    rule = StopRule()
    assert not rule.done([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 9.0])
    assert rule.done([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.11])
    assert not rule.done([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.09])
    assert rule.done([1.0] * 20)
    assert not rule.done([1.0] * 19)


@pytest.mark.skipif(not DATA.is_dir(), reason="published StreamBed observations are not here")
def test_published_exploration_of_the_join_query_stops_where_its_authors_did() -> None:
    with (DATA / "D_q5.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    rows = [
        Observation(int(r["task_slots"]), float(r["memory_mb_per_tm"]), float(r["mst_ev_s"])) for r in table
    ]
    used = sum(row["used_in_table4_fit"] == "1" for row in table)
    scores = score_history(rows[: used + 1])
    stops = [StopRule().done(scores[:count]) for count in range(1, used + 2)]
    assert stops == [False] * used + [True]  # the measurement that worsens the score ends it


@pytest.mark.parametrize(
    "nonsense",
    [
        lambda: SearchSpace((4,), (512.0,)),
        lambda: SearchSpace((), (512.0,)),
        lambda: SearchSpace((1, 2), (-1.0,)),
        lambda: GaussianProcess.fit(np.zeros((2, 2)), np.zeros(3)),
        lambda: GaussianProcess.fit(np.zeros((0, 2)), np.zeros(0)),
        lambda: GaussianProcess.fit(np.full((2, 2), np.nan), np.zeros(2)),
        lambda: GaussianProcess.fit(np.zeros((2, 2)), np.zeros(2), length_scale=0.0),
        lambda: GaussianProcess.fit(np.zeros((2, 2)), np.zeros(2)).posterior(np.zeros((1, 3))),
        lambda: expected_improvement(np.zeros(2), np.zeros(3), 1.0),
        lambda: expected_improvement(np.zeros(2), -np.ones(2), 1.0),
        lambda: expected_improvement(np.zeros(2), np.ones(2), math.nan),
        lambda: StopRule(rise=-1),
        lambda: next_measurement(SPACE, [(9, 512.0, 1.0)]),  # type: ignore[list-item]
    ],
)
def test_nonsense_is_refused(nonsense: object) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        nonsense()  # type: ignore[operator]
