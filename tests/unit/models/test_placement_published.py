"""Placement against CAPSys' published cases and counts (skipped where the test data is absent)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fogmodels.placement import Problem, bounds, count_plans, pareto, place, tune

DATA = Path(os.environ.get("FOGCTL_TEST_DATA", Path(__file__).parents[4] / "shared" / "data"))
FILE = DATA / "capsys" / "placement_cases.json"
NAMES = ("fig4_3x3", "q1_4x4", "q2_4x4", "q2_16")


@pytest.fixture(scope="module")
def published() -> dict[str, Any]:
    if not FILE.exists():
        pytest.skip(f"test data absent: {FILE}")
    data: dict[str, Any] = json.loads(FILE.read_text())
    return data


def case(published: dict[str, Any], name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    entry = published["cases"][name]
    instance, truth = dict(entry["instance"]), entry["truth"]
    if "profile" in instance:
        profile = published["scaling"]["profile"]
        operators = [
            {**op, "parallelism": n} for op, n in zip(profile["operators"], truth["parallelism"], strict=True)
        ]
        instance = {**profile, **instance, "operators": operators}
    return instance, truth


def scaled(published: dict[str, Any], workers: int, slots: int, parallelism: dict[str, int]) -> Problem:
    profile = published["scaling"]["profile"]
    operators = [{**op, "parallelism": parallelism[op["name"]]} for op in profile["operators"]]
    return Problem.from_dict({**profile, "operators": operators, "workers": workers, "slots": slots})


def test_inference_query_on_8_workers_has_the_published_3_25_million_plans() -> None:
    # CAPSys, section 4.4 and Table 2; no other parallelism of five operators on 32 slots has that many.
    operators = [
        {"id": str(i), "parallelism": n, "cpu": 1.0, "io": 0.0, "net": 0.0}
        for i, n in enumerate((4, 6, 8, 10, 4))
    ]
    problem = Problem.from_dict({"operators": operators, "edges": [], "workers": 8, "slots": 4})
    assert round(count_plans(problem) / 1e6, 2) == 3.25


def multiset(plan: Any) -> list[tuple[int, ...]]:
    return sorted(tuple(map(int, row)) for row in plan)


@pytest.mark.parametrize("name", NAMES)
def test_counts_and_bounds_are_the_published_ones(published: dict[str, Any], name: str) -> None:
    instance, truth = case(published, name)
    problem = Problem.from_dict(instance)
    assert count_plans(problem) == truth["distinct_plans"]
    for dimension, wanted in truth.get("bounds_Lmin_Lmax", {}).items():
        assert bounds(problem)[dimension] == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_thresholds_are_the_published_ones(published: dict[str, Any], name: str) -> None:
    instance, truth = case(published, name)
    problem = Problem.from_dict(instance)
    limits = tune(problem)
    assert list(limits.minimum.values()) == pytest.approx(truth["min_alpha_per_dim"], rel=1e-9, abs=1e-12)
    for key, wanted in truth.get("satisfying", {}).items():
        alpha = [float(a) for a in key.split()[1].split(",")]
        assert count_plans(problem, alpha) == wanted
        assert (place(problem, alpha) is None) == (wanted == 0)
    joint = truth.get("exact_autotune_1_1")
    if joint:
        assert [limits.cpu, limits.io, limits.net] == pytest.approx(joint["alpha_joint"], rel=1e-9)
        assert limits.steps == joint["phase2_steps_1_1"]
        assert limits.exact
        assert count_plans(problem, limits) == joint["plans_at_joint"]
        # The published thresholds were bisected: they lie a hair below the plan's own cost.
        assert count_plans(problem, joint["alpha_joint"]) == joint["plans_at_joint"]


@pytest.mark.parametrize("name", NAMES[:3])
@pytest.mark.parametrize(("forward", "rule"), [("links", "paper_net"), ("pairs", "go_net")])
def test_pareto_sets_are_the_published_ones(
    published: dict[str, Any], name: str, forward: str, rule: str
) -> None:
    instance, truth = case(published, name)
    front = pareto(Problem.from_dict({**instance, "forward": forward}))
    assert len(front) == truth[f"pareto_plan_count_{rule}"]
    costs = sorted({tuple(round(x, 6) for x in plan.load.values()) for plan in front})
    assert np.allclose(costs, sorted(truth[f"pareto_raw_cost_{rule}"]), rtol=0, atol=2e-6)
    if rule == "go_net":
        assert sorted(multiset(p.counts) for p in front) == sorted(
            map(multiset, truth["pareto_plans_go_net"])
        )


@pytest.mark.parametrize("name", NAMES[:2])
def test_loads_of_every_published_plan_are_found(published: dict[str, Any], name: str) -> None:
    from fogmodels.placement.costs import Scale, plan_loads

    instance, truth = case(published, name)
    problem = Problem.from_dict({**instance, "forward": "pairs"})
    loads = plan_loads(problem, np.array([p["workers"] for p in truth["all_plans"]]))
    assert np.allclose(loads, [p["L_go"] for p in truth["all_plans"]], atol=2e-6)
    costs = Scale.of(problem).costs(loads)
    assert np.allclose(costs, [p["C_go"] for p in truth["all_plans"]], atol=2e-9)


@pytest.mark.parametrize("name", NAMES)
def test_the_best_plan_is_on_the_front_and_within_the_tuned_limits(
    published: dict[str, Any], name: str
) -> None:
    instance, _ = case(published, name)
    problem = Problem.from_dict(instance)
    best, limits = place(problem), tune(problem)
    assert best is not None
    assert all(best.cost[d] <= limits[d] + 1e-9 for d in best.cost)
    assert best.gap == 0
    assert any(np.allclose(list(best.load.values()), list(p.load.values())) for p in pareto(problem))


def first_plan_cases(published: dict[str, Any]) -> Iterator[tuple[str, list[float], Problem]]:
    first = published["scaling"]["first_plan"]
    for tasks, parallelism in first["instances"].items():
        problem = scaled(published, first["workers"], int(tasks) // first["workers"], parallelism)
        for name, alpha in first["thresholds"].items():
            yield f"{tasks} {name}", alpha, problem


def test_every_published_threshold_has_a_plan_where_the_peer_found_one(published: dict[str, Any]) -> None:
    for name, alpha, problem in first_plan_cases(published):
        plan = place(problem, alpha)
        assert (plan is None) == (name == "16 a1")
        if plan is not None:
            assert all(c <= a + 1e-9 for c, a in zip(plan.cost.values(), alpha, strict=True))
            assert plan.lower_bound <= plan.objective <= 1


@pytest.mark.parametrize("size", ["8x4", "16x4", "8x32", "16x64"])
def test_tuned_plans_of_the_scaling_study_keep_their_limits(published: dict[str, Any], size: str) -> None:
    workers, slots = map(int, size.split("x"))
    problem = scaled(published, workers, slots, published["scaling"]["autotune"]["instances"][size])
    limits = tune(problem)
    plan = place(problem, limits)
    assert plan is not None
    assert all(plan.cost[d] <= limits[d] + 1e-9 for d in plan.cost)
    assert plan.counts.sum(axis=0).tolist() == problem.parallelism.tolist()
    assert plan.counts.sum(axis=1).max() <= slots
    assert plan.gap <= 0.1
