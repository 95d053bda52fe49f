"""The figures of the runtime's benchmark are computed from what was measured as they should be."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2]))

from benchmarks.runtime_rows.stalls import longest_gap


@pytest.mark.parametrize(
    ("times_s", "window", "gap"),
    [
        ([1, 2, 3, 7, 8, 9], (2.5, 8.5), 4.0),
        # What began before the window and ended in it, or began in it and ended after, counts whole.
        ([1, 5, 6, 7], (4.0, 7.0), 4.0),
        ([1, 2, 3, 9], (1.5, 4.0), 6.0),
        # Nothing at all: the window itself.
        ([], (2.0, 5.0), 3.0),
    ],
)
def test_the_longest_time_without_a_result(
    times_s: list[float], window: tuple[float, float], gap: float
) -> None:
    assert longest_gap(times_s, *window) == gap
