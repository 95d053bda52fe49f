"""The measured Spark grid as judge: fitted points within 5 %, every kind of unseen point within 10 %."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import pytest
from fogmodels.throughput import Sample, fit

DATA = Path(os.environ.get("FOGCTL_TEST_DATA", Path(__file__).resolve().parents[4] / "shared" / "data"))
GRID = DATA / "spark" / "mst_grid.csv"
pytestmark = pytest.mark.skipif(not GRID.exists(), reason=f"measured grid not found: {GRID}")


@pytest.fixture(scope="module")
def samples():
    with GRID.open() as file:
        return [
            Sample(
                int(r["replicas"]),
                float(r["rtt_max_ms"]),
                float(r["mst_rec_s"]),
                float(r["batch_rows"]),
                int(r["partitions"]),
            )
            for r in csv.DictReader(file)
        ]


def errors(model, samples):
    return [abs(model.mst(s.replicas, s.rtt_max_ms, s.batch_rows, s.partitions) / s.mst - 1) for s in samples]


def test_auto_sees_that_spark_follows_the_batch_form(samples):
    assert fit(samples).form == "batch"


def test_fitted_points_are_within_five_percent(samples):
    assert np.mean(errors(fit(samples), samples)) <= 0.05


def test_points_left_out_one_by_one_are_within_ten_percent(samples):
    assert np.mean(fit(samples, "batch").leave_one_out()) <= 0.10


@pytest.mark.parametrize("key", ["batch_rows", "replicas", "rtt_max_ms"])
def test_whole_batch_sizes_replica_counts_and_distances_left_out_are_within_ten_percent(samples, key):
    found = []
    for value in {getattr(s, key) for s in samples}:
        model = fit([s for s in samples if getattr(s, key) != value])
        assert model.form == "batch"
        found += errors(model, [s for s in samples if getattr(s, key) == value])
    assert np.mean(found) <= 0.10


def test_half_of_the_points_predict_the_other_half(samples):
    rng = np.random.default_rng(0)
    found = []
    for _ in range(10):
        order = rng.permutation(len(samples))
        model = fit([samples[i] for i in order[:11]], "batch")
        found.append(np.mean(errors(model, [samples[i] for i in order[11:]])))
    assert np.mean(found) <= 0.10


def test_the_papers_form_misses_the_grid(samples):
    assert np.mean(errors(fit(samples, "gesscale"), samples)) > 0.25
