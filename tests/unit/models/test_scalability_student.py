"""Student's t against scipy's, and that the lag trend of a stage needs no scipy."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
from fogmodels.scalability.student import reach, two_sided
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtr, stdtrit


@given(st.integers(1, 200), st.floats(-1e6, 1e6))
def test_tails_are_those_of_scipy(freedom: int, t: float) -> None:
    theirs = 2.0 * float(stdtr(freedom, -abs(t)))
    assert two_sided(freedom, t) == pytest.approx(theirs, rel=1e-9, abs=1e-280)


@given(st.integers(1, 200), st.floats(1e-6, 1 - 1e-9))
def test_intervals_are_those_of_scipy(freedom: int, confidence: float) -> None:
    theirs = float(stdtrit(freedom, 0.5 + confidence / 2.0))
    assert reach(freedom, confidence) == pytest.approx(theirs, rel=1e-6)


@pytest.mark.parametrize(
    ("freedom", "confidence", "tabulated"),
    [(1, 0.95, 12.7062), (2, 0.95, 4.30265), (8, 0.95, 2.30600), (8, 0.99, 3.35539), (30, 0.9, 1.69726)],
)
def test_intervals_are_those_of_the_tables(freedom: int, confidence: float, tabulated: float) -> None:
    assert reach(freedom, confidence) == pytest.approx(tabulated, rel=1e-5)


def test_the_middle_and_the_ends() -> None:
    assert two_sided(3, 0.0) == 1.0
    assert two_sided(3, math.inf) == two_sided(3, -math.inf) == 0.0
    assert two_sided(1, 1.0) == pytest.approx(0.5, rel=1e-14)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: two_sided(0, 1.0), "freedom must be at least 1"),
        (lambda: two_sided(1, math.nan), "NaN"),
        (lambda: reach(0, 0.9), "freedom must be at least 1"),
        (lambda: reach(1, 1.0), "confidence must lie between 0 and 1"),
        (lambda: reach(1, math.nan), "confidence must lie between 0 and 1"),
    ],
)
def test_what_makes_no_sense_is_refused(call: object, says: str) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match=says):
        call()


def test_the_lag_trend_of_a_stage_needs_no_scipy() -> None:
    program = (
        "import sys; sys.modules['scipy'] = None\n"
        "from fogmodels.scalability import lag_trend\n"
        "print(lag_trend(range(30), [10 * t for t in range(30)]).verdict)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "rising", done.stderr
