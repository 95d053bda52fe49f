"""Quantities with units."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fogctl.config import units


@pytest.mark.parametrize(
    ("unit", "text", "value"),
    [
        (units.DELAY, "80ms", 80.0),
        (units.DELAY, "1.5s", 1500.0),
        (units.DELAY, " 250 us ", 0.25),
        (units.DELAY, "0ms", 0.0),
        (units.DELAY, "1e2ms", 100.0),
        (units.INSTANT, "2min", 120.0),
        (units.INSTANT, "1h", 3600.0),
        (units.RATE, "1.5mbit", 1.5e6),
        (units.RATE, "100Mbit/s", 1e8),
        (units.RATE, "2gbit", 2e9),
        (units.SIZE, "256MiB", 256 * 2**20),
        (units.SIZE, "1GB", 1e9),
        (units.SIZE, "512 kib", 512 * 1024),
        (units.PERCENT, "60%", 0.6),
        (units.PERCENT, "0.1%", 0.001),
        (units.SHARE, "150%", 1.5),
        (units.POWER, "3.5W", 3.5),
        (units.CLOCK, "1.8GHz", 1.8e9),
    ],
)
def test_a_quantity_is_read_exactly(unit: units.Unit, text: str, value: float) -> None:
    assert unit.parse(text) == value


@pytest.mark.parametrize(
    ("unit", "raw", "said"),
    [
        (units.DELAY, 80, "did you mean 80ms?"),
        (units.DELAY, "80", "did you mean 80ms?"),
        (units.RATE, 1.5, "did you mean 1.5mbit?"),
        (units.SIZE, "256", "did you mean 256MiB?"),
        (units.PERCENT, 60, "did you mean 60%?"),
    ],
)
def test_a_missing_unit_is_suggested(unit: units.Unit, raw: object, said: str) -> None:
    with pytest.raises(ValueError, match="the unit is missing") as refused:
        unit.parse(raw)
    assert said in str(refused.value)


@pytest.mark.parametrize("raw", ["-80ms", "-0.1ms"])
def test_a_negative_quantity_is_refused(raw: str) -> None:
    with pytest.raises(ValueError, match="is negative"):
        units.DELAY.parse(raw)


@pytest.mark.parametrize("raw", ["nan", "inf", "-inf", ".inf", math.nan, math.inf, "Infinity"])
def test_what_is_not_finite_is_refused(raw: object) -> None:
    with pytest.raises(ValueError, match="finite"):
        units.DELAY.parse(raw)


@pytest.mark.parametrize("raw", ["1e99h", "99999999999999999999h", "1000000h"])
def test_what_overflows_is_out_of_range(raw: str) -> None:
    with pytest.raises(ValueError, match="out of range"):
        units.DELAY.parse(raw)


@pytest.mark.parametrize(
    "raw", [None, True, [], {}, "", "ms", "8 0ms", "80msms x", "٨٠ms", "1e999ms", "9" * 5000]
)
def test_what_is_no_quantity_is_refused_with_an_example(raw: object) -> None:
    with pytest.raises(ValueError, match=r"80ms|units of a time"):
        units.DELAY.parse(raw)


def test_mbps_is_refused_because_it_has_two_meanings() -> None:
    with pytest.raises(ValueError, match="100mbit"):
        units.RATE.parse("100mbps")


def test_a_cut_short_size_is_explained() -> None:
    with pytest.raises(ValueError, match="MiB"):
        units.SIZE.parse("256m")


@given(st.floats(0.001, 3.6e6))
def test_what_is_shown_reads_back_to_four_digits(value: float) -> None:
    assert units.DELAY.parse(units.DELAY.show(value)) == pytest.approx(value, rel=1e-3)


@given(st.one_of(st.text(max_size=60), st.floats(), st.integers(), st.booleans(), st.none()))
def test_anything_is_a_quantity_or_a_value_error(raw: object) -> None:
    for unit in (units.DELAY, units.RATE, units.SIZE, units.PERCENT):
        try:
            value = unit.parse(raw)
        except ValueError:
            continue
        assert unit.smallest <= value <= unit.largest
