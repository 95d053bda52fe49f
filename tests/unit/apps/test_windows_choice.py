"""Hopping windows as values, and which method is taken for them: no Spark needed."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from fogapps.windows import Aggregate, Hop, choose, cost_ratio
from fogapps.windows_options import hop

from fogctl.runtime import app as apps
from fogctl.runtime.app_options import with_options

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize(
    ("size_s", "slide_s", "slice_s", "overlaps"),
    [
        (60, 1, 1, 60),
        (300, 15, 15, 20),
        (7, 3, 1, 7 / 3),
        (5, 5, 5, 1),
        (1.5, 0.2, 0.1, 7.5),
        (0.3, 0.1, 0.1, 3),
    ],
)
def test_slices_are_the_longest_that_make_up_every_window(
    size_s: float, slide_s: float, slice_s: float, overlaps: float
) -> None:
    hop = Hop(size_s, slide_s)
    assert hop.slice_us == round(slice_s * 1e6)
    assert hop.size_us % hop.slice_us == hop.slide_us % hop.slice_us == 0
    assert hop.overlaps == pytest.approx(overlaps)


@pytest.mark.parametrize(
    ("size_s", "slide_s"),
    [(0, 1), (1, 0), (1, 2), (math.nan, 1), (math.inf, 1), (-5, -5), (1e-9, 1e-9), (True, 1)],
)
def test_windows_that_make_no_sense_are_refused(size_s: float, slide_s: float) -> None:
    with pytest.raises(ValueError, match=r"slide_s|size_s"):
        Hop(size_s, slide_s)


def test_an_aggregate_says_what_it_needs() -> None:
    with pytest.raises(ValueError, match="mean needs a column"):
        Aggregate("mean")
    with pytest.raises(ValueError, match='not "median"'):
        Aggregate("median", "x")  # type: ignore[arg-type]


UC3 = {(2_592_000, 86_400): 30, (300, 60): 5, (30, 1): 30, (1200, 60): 20}
OSPBENCH = {(600, 120): 5, (300, 60): 5, (300, 15): 20, (150, 30): 5}


@pytest.mark.parametrize(("app", "windows"), [("uc3", UC3), ("ospbench", OSPBENCH)])
def test_the_thesis_windows_are_options_of_the_apps_and_named_where_readers_look(
    app: str, windows: dict[tuple[int, int], int]
) -> None:
    (stage,) = apps.load(app).stages
    guide = " ".join((DOCS / "nexmark.md").read_text(encoding="utf-8").split())
    assert ", ".join(f"{size}/{slide}" for size, slide in windows) in guide
    for (size_s, slide_s), overlaps in windows.items():
        given = [f"{stage.name}.window_s={size_s}", f"{stage.name}.slide_s={slide_s}"]
        options = dict(with_options(apps.load(app), given).stages[0].options)
        asked = hop(options, 1.0, 1.0)
        assert (asked.size_s, asked.slide_s, asked.overlaps) == (size_s, slide_s, overlaps)
        assert asked.slice_us == asked.slide_us, "each is made of whole slices"


def test_windows_without_overlap_are_never_sliced() -> None:
    for rows in (0.1, 1, 17, 1e6):
        assert choose(Hop(10, 10), rows) == "native"


def test_many_overlaps_and_rows_are_sliced_but_not_in_update_mode() -> None:
    assert choose(Hop(60, 1), 17) == "sliced"
    assert choose(Hop(60, 1), 17, append=False) == "native"


def test_small_batches_are_not_worth_a_second_operator() -> None:
    assert choose(Hop(60, 1), 200, rows_per_batch=500) == "native"
    assert choose(Hop(60, 1), 200, rows_per_batch=50_000) == "sliced"
    with pytest.raises(ValueError, match="rows_per_batch must be more than 0"):
        choose(Hop(60, 1), 200, rows_per_batch=0)


def test_the_more_overlaps_or_rows_the_better_for_slices() -> None:
    rows = (0.5, 1, 2, 5, 17, 60, 200, 500, 1e4)
    overlaps = (1, 2, 5, 10, 20, 30, 60, 300)
    table = [[cost_ratio(Hop(many, 1), few) for few in rows] for many in overlaps]
    for line in table[1:]:
        assert line == sorted(line)
    for column in zip(*table, strict=True):
        if column[-1] > 1:
            assert list(column) == sorted(column)


@pytest.mark.parametrize("rows", [0, -1, math.nan])
def test_a_number_of_rows_that_is_none_is_refused(rows: float) -> None:
    with pytest.raises(ValueError, match="rows_per_slice must be more than 0"):
        choose(Hop(10, 1), rows)
