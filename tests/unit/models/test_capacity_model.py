"""The three regressions, the verdict and the intervals, judged by explicit refits and by simulation."""

from __future__ import annotations

import csv
import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
from fogmodels.capacity import FAMILIES, Observation, fit_capacity, half_split, leave_one_out, loo_error
from hypothesis import given, settings
from hypothesis import strategies as st

DATA = Path(os.environ.get("FOGCTL_TEST_DATA", Path(__file__).parents[4] / "shared" / "data")) / "streambed"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="published StreamBed observations are not here")

F = {"linear": lambda x: x, "sqrt": math.sqrt, "log": math.log1p}


def published(query: str) -> list[dict[str, str]]:
    with (DATA / f"D_{query}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def observations(rows: list[dict[str, str]]) -> list[Observation]:
    return [
        Observation(int(row["task_slots"]), float(row["memory_mb_per_tm"]), float(row["mst_ev_s"]))
        for row in rows
    ]


def normal_equations(rows: list[Observation], family: str) -> np.ndarray:
    """a, b, c by the textbook formula, scaled columns, independent of the code under test."""
    f = F[family]
    x = np.array([(f(row.memory_mb), f(row.task_slots), 1.0) for row in rows])
    scale = np.abs(x).max(axis=0)
    y = np.array([row.mst for row in rows])
    q, r = np.linalg.qr(x / scale)
    return np.linalg.solve(r, q.T @ y) / scale


@st.composite
def grids(draw: st.DrawFn) -> list[Observation]:
    slots = draw(st.lists(st.integers(1, 60), min_size=3, max_size=6, unique=True))
    memory = draw(
        st.lists(st.sampled_from([512.0, 1024.0, 2048.0, 4096.0]), min_size=2, max_size=3, unique=True)
    )
    noise = st.floats(0.5, 1.5)
    return [Observation(s, m, (100.0 * s + 0.01 * m) * draw(noise)) for s in slots for m in memory]


@settings(max_examples=30, deadline=None)
@given(grids())
def test_coefficients_are_those_of_the_normal_equations(rows: list[Observation]) -> None:
    model = fit_capacity(rows)
    for family in FAMILIES:
        a, b, c = normal_equations(rows, family)
        fitted = model.regressions[family]
        assert fitted.a == pytest.approx(a, rel=1e-6, abs=1e-6)
        assert fitted.b == pytest.approx(b, rel=1e-6, abs=1e-6)
        assert fitted.c == pytest.approx(c, rel=1e-6, abs=1e-3)


@settings(max_examples=25, deadline=None)
@given(grids())
def test_leave_one_out_is_a_refit_without_the_row(rows: list[Observation]) -> None:
    for family in FAMILIES:
        f = F[family]
        misses: list[float] = []
        for left_out, row in enumerate(rows):
            a, b, c = normal_equations(rows[:left_out] + rows[left_out + 1 :], family)
            misses.append(row.mst - (a * f(row.memory_mb) + b * f(row.task_slots) + c))
        assert leave_one_out(rows, family) == pytest.approx(misses, rel=1e-5, abs=1e-3)
        assert fit_capacity(rows).errors[family] == pytest.approx(np.mean(np.abs(misses)), rel=1e-6, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(grids(), st.floats(10.0, 50_000.0), st.sampled_from(FAMILIES), st.floats(0.0, 0.5))
def test_slots_are_the_fewest_that_reach_the_rate_with_headroom(
    rows: list[Observation], rate: float, family: str, headroom: float
) -> None:
    model = fit_capacity(rows, family)
    found = model.slots_for(rate, 1024.0, headroom=headroom, max_slots=2000)
    wanted = rate * (1 + headroom) * (1 - 1e-9)  # up to rounding
    enough = [n for n in range(1, 2001) if model.regressions[family].mst(n, 1024.0) >= wanted]
    assert found == (enough[0] if enough else None)


@settings(max_examples=40, deadline=None)
@given(grids(), st.floats(10.0, 50_000.0))
def test_interval_holds_the_point_answer(rows: list[Observation], rate: float) -> None:
    model = fit_capacity(rows)
    point, interval = model.slots_for(rate, 512.0), model.slots_interval(rate, 512.0)
    if point is not None:
        assert interval.low is not None
        assert interval.low <= point
    if interval.high is not None:
        assert point is not None
        assert point <= interval.high
    reach = model.interval(30, 512.0)
    assert 0 <= reach.low <= model.mst(30, 512.0) <= reach.high


@pytest.mark.parametrize("truth", FAMILIES)
def test_slots_interval_covers_the_truth_twenty_times_beyond_the_data(truth: str) -> None:
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(40):
        rows = [
            Observation(s, m, (1e4 + 1e4 * F[truth](s)) * (1 + 0.05 * rng.standard_normal()))
            for s in (4, 10, 16, 24, 32, 48)
            for m in (512.0, 2048.0)
        ]
        rate = (1e4 + 1e4 * F[truth](960)) / 1.1
        interval = fit_capacity(rows).slots_interval(rate, 1024.0)
        hits += (interval.low or math.inf) <= 960 <= (interval.high or math.inf)
    assert hits >= 31  # nominally 36 of 40; fewer than 31 has a chance of half a per cent


def test_interval_covers_new_measurements_as_often_as_it_says() -> None:
    rng = np.random.default_rng(7)
    hits = 0
    for _ in range(200):
        rows = [
            Observation(s, m, 1e6 + 2e4 * s + 3.0 * m + 1e4 * rng.standard_normal())
            for s in (4, 10, 16, 24, 32)
            for m in (512.0, 2048.0)
        ]
        fresh = 1e6 + 2e4 * 60 + 3.0 * 1024 + 1e4 * rng.standard_normal()
        interval = fit_capacity(rows, "linear").interval(60, 1024.0, confidence=0.9)
        hits += interval.low <= fresh <= interval.high
    # 0.9 is a floor, as several plausible families widen it; 0.82 is nearly four standard errors below.
    assert hits / 200 >= 0.82


@pytest.mark.parametrize("truth", FAMILIES)
def test_the_true_family_is_hardly_ever_ruled_out(truth: str) -> None:
    rng = np.random.default_rng(11)
    kept = 0
    for _ in range(60):
        rows = [
            Observation(s, m, (2e4 + 1e4 * F[truth](s)) * (1 + 0.05 * rng.standard_normal()))
            for s in (3, 8, 14, 20, 30, 48)
            for m in (512.0, 4096.0)
        ]
        kept += truth in fit_capacity(rows).plausible
    assert kept >= 54


@pytest.mark.parametrize("truth", FAMILIES)
def test_clean_data_decide_the_family(truth: str) -> None:
    rows = [
        Observation(s, m, 500 + 900 * F[truth](s) + F[truth](m))
        for s in (2, 5, 9, 16, 30)
        for m in (512, 4096)
    ]
    model = fit_capacity(rows)
    assert model.family == truth
    assert model.decided
    assert f"point to {truth}" in model.verdict


def test_two_slot_counts_cannot_tell_the_families_apart() -> None:
    corners = [Observation(s, m, 1000.0 * s + m / 100) for m in (512.0, 4096.0) for s in (2, 16)]
    model = fit_capacity(corners)
    assert model.family == "linear"  # the first in the stated order when errors are equal
    assert model.plausible == FAMILIES
    assert "cannot tell linear, sqrt and log apart" in model.verdict
    assert "only 2 and 16 task slots" in model.verdict
    answers = [model.slots_for(100_000, 512.0, family=family) for family in FAMILIES]
    interval = model.slots_interval(100_000, 512.0)
    assert answers[0] is not None
    assert answers[1] is not None
    assert answers[2] is None
    assert interval.low is not None
    assert interval.low <= answers[0] < answers[1]
    assert interval.high is None


def test_leave_one_out_refits_where_a_row_is_the_only_one_of_its_size() -> None:
    rows = [Observation(2, 512.0, 10.0), Observation(2, 1024.0, 14.0), Observation(2, 2048.0, 12.0)]
    lonely = Observation(8, 512.0, 50.0)
    # Without the lonely row slots are constant, so only memory predicts it.
    a, c = np.polyfit([row.memory_mb for row in rows], [row.mst for row in rows], 1)
    assert leave_one_out([*rows, lonely], "linear")[3] == pytest.approx(50.0 - (a * 512.0 + c))


def test_one_memory_size_needs_no_memory_argument_and_says_nothing_of_others() -> None:
    model = fit_capacity([Observation(s, 1024.0, 100.0 * s + 5 * (s % 3)) for s in (1, 2, 4, 8)])
    assert model.regressions["linear"].a == 0
    assert model.mst(6) == model.mst(6, 1024.0)
    with pytest.raises(ValueError, match="nothing is known about another memory size"):
        model.slots_for(500, 2048.0)


def test_one_memory_size_has_no_slope_even_if_its_mean_is_rounded() -> None:
    for memory in (0.1, 0.7, 1024.3, 65536.1):
        model = fit_capacity(
            [Observation(s, memory, 100.0 * s + 5 * (s % 3)) for s in (1, 2, 4, 8, 11, 13, 17)]
        )
        assert all(model.regressions[family].a == 0 for family in FAMILIES)
        assert model.regressions["linear"].b == pytest.approx(100, rel=0.05)


def test_throughput_that_falls_with_slots_is_said_and_never_sized() -> None:
    model = fit_capacity([Observation(s, 1024.0, 1000.0 - 10 * s) for s in (1, 5, 9, 20)])
    assert "does not grow" in model.verdict
    assert model.slots_for(2000) is None
    assert model.mst(500) == 0.0


def test_forced_family_that_the_data_do_not_support_is_named() -> None:
    rows = [Observation(s, 1024.0, 100.0 * s + s % 2) for s in (1, 3, 8, 15, 30, 44)]
    model = fit_capacity(rows, "log")
    assert model.family == "log"
    assert model.plausible == ("linear",)
    assert "log regression asked for is not the one they support" in model.verdict


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([], "empty"),
        ([(1, 512, 10), (2, 512, 20)], "too few"),
        ([(1, 512, 10), (2, 1024, 20), (4, 512, 30)], "4 are needed"),
        ([(4, 512, 10), (4, 512, 20), (4, 1024, 30), (4, 2048, 5)], "every observation has 4 task slots"),
        ([(1, 512, 10), (2, 1024, 20), (4, 2048, 40), (8, 4096, 80)], "change together"),
    ],
)
def test_observations_that_cannot_teach_are_refused(
    rows: list[tuple[int, float, float]], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        fit_capacity([Observation(*row) for row in rows])


@pytest.mark.parametrize(
    "row",
    [
        (0, 512, 1),
        (1.5, 512, 1),
        (1, 0, 1),
        (1, -5, 1),
        (1, 512, -1),
        (1, math.nan, 1),
        (1, 512, math.inf),
        ("1", 512, 1),
    ],
)
def test_impossible_observations_are_refused(row: tuple[int, float, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        Observation(*row)


def test_nonsense_questions_are_refused() -> None:
    rows = [Observation(s, 1024.0, 100.0 * s + s % 2) for s in (1, 3, 8, 15)]
    model = fit_capacity(rows)
    with pytest.raises(ValueError, match="family must be one of"):
        fit_capacity(rows, "cubic")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must be an Observation"):
        fit_capacity([(1, 2, 3)])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="list of Observation"):
        fit_capacity(3)  # type: ignore[arg-type]
    for ask in (
        lambda: model.slots_for(0),
        lambda: model.slots_for(math.nan),
        lambda: model.slots_for(1, headroom=-0.1),
        lambda: model.slots_for(1, min_slots=9, max_slots=8),
        lambda: model.slots_for(1, -1),
        lambda: model.mst(-1),
        lambda: model.interval(1, confidence=1.0),
        lambda: model.interval(math.inf),
    ):
        with pytest.raises(ValueError, match="must be"):
            ask()


@needs_data
@pytest.mark.parametrize("query", ["q1", "q5"])
def test_published_refits_come_out(query: str) -> None:
    reference = json.loads((DATA / "refit_reference.json").read_text())[query]
    rows = observations(published(query))
    for family in FAMILIES:
        for point in reference["prefix"][family]:
            model = fit_capacity(rows[: point["n"]], family)
            assert model.coefficients == pytest.approx(
                (point["a"], point["b"], point["c"]), rel=1e-9, abs=1e-9
            )
            assert loo_error(model.observations, family) == pytest.approx(point["loocv_mean_abs"], rel=1e-9)
            for headroom, key in ((0.10, "task_slots_110"), (0.0, "task_slots_100")):
                for memory_per_slot, slots in point[key].items():
                    found = model.slots_for(
                        reference["requested_rate"],
                        16 * float(memory_per_slot),
                        headroom=headroom,
                        min_slots=3,
                    )
                    assert found == slots


@needs_data
@pytest.mark.parametrize("query", ["q1", "q5"])
def test_interval_holds_what_production_runs_confirmed(query: str) -> None:
    reference = json.loads((DATA / "refit_reference.json").read_text())[query]
    rows = published(query)
    for used in (rows, [row for row in rows if row["used_in_table4_fit"] == "1"]):
        model = fit_capacity(observations(used))
        assert len(model.plausible) > 1
        for memory_per_slot, slots in reference["table3"].items():
            interval = model.slots_interval(reference["requested_rate"], 16 * float(memory_per_slot))
            assert interval.low is not None
            assert interval.low <= slots
            assert interval.high is None or slots <= interval.high


@needs_data
@pytest.mark.parametrize("query", ["q1", "q5"])
def test_half_split_matches_the_published_selection_and_knows_when_it_is_void(query: str) -> None:
    reference = json.loads((DATA / "refit_reference.json").read_text())[query]
    rows = published(query)
    used = {
        "all rows": rows,
        "rows used by Table 4": [row for row in rows if row["used_in_table4_fit"] == "1"],
    }
    checked = 0
    for selection in reference["selection"]:
        if "ties in measurement order" not in selection["rule"]:
            continue
        split = half_split(observations(used[selection["rows"]]))
        assert split.rmse == pytest.approx(selection["test_rmse"], rel=1e-9)
        assert split.identifiable == selection["full_rank"]
        assert split.best == (selection["chosen"] if selection["full_rank"] else None)
        checked += 1
    assert checked == 2
