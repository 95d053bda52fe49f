"""Bad arguments of the throughput model: one sentence, no number."""

from __future__ import annotations

import math

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

GOOD = {"replicas": 2, "rtt_max_ms": 10.0, "mst": 100.0, "batch_rows": 50.0, "partitions": 8}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("replicas", 0),
        ("replicas", 1.5),
        ("replicas", True),
        ("replicas", math.nan),
        ("rtt_max_ms", -1.0),
        ("rtt_max_ms", math.inf),
        ("mst", 0.0),
        ("mst", math.nan),
        ("mst", "fast"),
        ("batch_rows", 0),
        ("batch_rows", math.inf),
        ("partitions", -3),
        ("weight", 0.0),
        ("weight", math.nan),
        ("share", -0.1),
        ("share", 1e-300),
        ("mst", 1e300),
        ("replicas", 10**400),
        ("mst", 10**400),
    ],
)
def test_a_sample_names_its_bad_field(name, value):
    with pytest.raises(ValueError, match=name):
        Sample(**{**GOOD, name: value})


@pytest.mark.parametrize(
    "call",
    [
        lambda _: fit([]),
        lambda _: fit([(1, 0.0, 10.0)]),
        lambda _: fit([Sample(**GOOD)], "spline"),
        lambda _: fit([Sample(1, 0.0, 10.0)], "batch"),
        lambda m: m.mst(0, 0.0),
        lambda m: m.mst(1, math.nan),
        lambda m: m.mst(1, 0.0, -5.0),
        lambda m: m.mst(1, 0.0, 5.0, 0),
        lambda m: m.mst(1, 0.0, share=0.0),
        lambda m: m.interval(1, 0.0, level=1.0),
        lambda m: m.replicas_for(-1.0, [0.0]),
        lambda m: m.replicas_for(10.0, []),
        lambda m: m.replicas_for(10.0, [1.0, math.nan]),
        lambda m: m.replicas_for(10.0, [[1.0, 2.0]]),
        lambda m: m.replicas_for(10.0, ["near"]),
        lambda m: m.add(Sample(1, 0.0, 10.0)),
        lambda m: m.add("sample"),
        lambda m: m.batch_rows_within(0.0, 1, 0.0),
        lambda _: nearest_set([1.0, 2.0], 3),
        lambda _: nearest_set([[0.0]], 1),
        lambda _: tightest_set([1.0, 2.0], 1),
        lambda _: tightest_set([[0.0, -1.0], [1.0, 0.0]], 1),
        lambda _: tightest_set([[0.0, 1.0], [1.0, 0.0]], 1, including=[0, 1]),
        lambda _: tightest_set([[0.0, 1.0], [1.0, 0.0]], 2, including=[5]),
        lambda m: compare_options(m, Configuration(1, 0.0), shares=[math.nan]),
        lambda m: compare_options(m, Configuration(1, 0.0), nodes={"pi9": -1.0}),
        lambda m: compare_options(m, Configuration(0, 0.0), batches=[10.0]),
        lambda _: Prices(node=-1.0),
    ],
)
def test_bad_arguments_are_one_sentence(call):
    model = fit([Sample(**GOOD)], "batch")
    with pytest.raises(ValueError, match=r"^[^\n]+\.$"):
        call(model)
