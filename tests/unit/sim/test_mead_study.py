"""The MEAD study: a short run of it says what its table shows."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from fogctl.agent.policies.mead_mg1 import poisson
from fogctl.agent.policies.mead_network import Targets
from fogctl.agent.policies.threshold_vertical import ThresholdVertical
from fogctl.sim.mead_study import EVERY_S, REACTIVE_EVERY_S, Outcome, bursty, run, synt, table


def test_bursts_have_the_variability_and_memory_asked_for() -> None:
    process = bursty(200.0, 3.0, 0.97)
    assert process.rate == pytest.approx(200.0)
    assert process.scv == pytest.approx(3.0)
    assert process.acf([10])[0] / process.acf([9])[0] == pytest.approx(0.97)


def test_poisson_queues_starve_a_bursty_stream_that_thresholds_and_full_shares_serve() -> None:
    arrivals = synt(seed=5, seconds=120.0)
    starved, given = run(arrivals, partial(Targets(100.0).decide, model=poisson), EVERY_S, seed=1)
    served, more = run(arrivals, ThresholdVertical().decide, REACTIVE_EVERY_S, seed=1)
    assert len(starved) == len(served) == arrivals.total
    assert given < 80.0
    assert more < 80.0
    assert starved.mean() > served.mean() > 0.003
    assert np.quantile(starved, 0.95) > 0.1


def test_the_table_marks_what_was_missed() -> None:
    runs = [
        Outcome("synt", 1, "mean", 0.1, "M/G/1", 0.3, 45.0, 0.254, 46.4),
        Outcome("synt", 2, "mean", 0.1, "M/G/1", 0.05, 47.0, 0.254, 46.4),
        Outcome("synt", 1, "mean", 0.1, "mead as shipped", 0.05, 50.0),
        Outcome("synt", 1, "mean", None, "threshold", 0.04, 46.0),
    ]
    told = table(runs)
    assert "| SYNT, mean 0.1 s | **0.300** / 46.0 % | – | – | – | 0.050 / 50.0 % | **0.254** / 46.4 %" in told
    assert "SYNT, mean, without a target: threshold 0.040 / 46.0 %" in told
    assert [run.met for run in runs] == [False, True, True, None]
