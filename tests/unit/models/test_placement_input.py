"""What placement refuses, and what it promises about its values."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import numpy as np
import pytest
from fogmodels.placement import Limits, NoPlan, Problem, TooLarge, count_plans, pareto, place, tune

GOOD: dict[str, Any] = {
    "operators": [
        {"id": "a", "name": "map", "parallelism": 2, "cpu": 1.0, "io": 0.0, "net": 2.0, "outbound": "HASH"},
        {"id": "b", "name": "sink", "parallelism": 1, "cpu": 3.0, "io": 1.0, "net": 0.0},
    ],
    "edges": [["a", "b"]],
    "workers": 2,
    "slots": 2,
}


def changed(path: str, value: Any) -> dict[str, Any]:
    d = copy.deepcopy(GOOD)
    at: Any = d
    *heads, last = path.split("/")
    for head in heads:
        at = at[int(head)] if head.isdigit() else at[head]
    at[int(last) if last.isdigit() else last] = value
    return d


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("operators/0/cpu", math.nan, r"operators\[0\].cpu"),
        ("operators/0/net", math.inf, r"operators\[0\].net"),
        ("operators/0/io", -1, r"operators\[0\].io"),
        ("operators/0/cpu", "1", "not a number"),
        ("operators/0/cpu", 1e300, r"operators\[0\].cpu"),
        ("operators/0/cpuu", 1, "did you mean cpu"),
        ("operators/0/parallelism", 0, "parallelism"),
        ("operators/0/parallelism", 1.5, "whole number"),
        ("operators/0/parallelism", 9, "do not fit"),
        ("operators/1/id", "a", "used twice"),
        ("operators", [], "at least one"),
        ("operators", {}, "must be a list"),
        ("edges", [["a", "c"]], "unknown operator 'c'"),
        ("edges", [["a"]], "two operators"),
        ("edges", [["a", "b"], ["b", "a"]], "cycle"),
        ("edges", [["a", "a"]], "cycle"),
        ("edges", [["a", "b"], ["a", "b"]], "twice"),
        ("workers", 0, "workers"),
        ("workers", -2, "workers"),
        ("workers", [], "at least one"),
        ("workers", [{"name": "x"}, {"name": "x"}], "used twice"),
        ("workers", [{"name": "x", "ram": 1}, {}], "unknown key"),
        ("workers", [{"cpu": 0}, {}], "above zero"),
        ("slots", None, "slots"),
        ("slots", math.nan, "slots"),
        ("slots", [2], "1 values for 2 workers"),
        ("rtt_ms", [[0, 1]], "2 by 2"),
        ("rtt_ms", [[0, 1], [2, 0]], "symmetric"),
        ("rtt_ms", [[1, 1], [1, 0]], "itself"),
        ("rtt_ms", [[0, -1], [-1, 0]], r"rtt_ms\[0\]\[1\]"),
        ("pinned", {"z": ["w1"]}, "unknown operator"),
        ("pinned", {"a": ["w9"]}, "unknown worker"),
        ("pinned", {"a": {"w1": 3}}, "pinned"),
        ("forbidden", {"a": ["w1", "w2"]}, "operator a"),
        ("max_moves", 1, "current"),
        ("current", {"w1": {"a": -1}}, "current.w1.a"),
        ("forward", "both", "forward"),
        ("pined", {"a": ["w1"]}, "did you mean pinned"),
    ],
)
def test_bad_problems_are_refused_in_one_sentence(path: str, value: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        Problem.from_dict(changed(path, value))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("missing", ["operators", "edges", "workers", "slots"])
def test_missing_keys_are_named(missing: str) -> None:
    d = {k: v for k, v in GOOD.items() if k != missing}
    with pytest.raises(ValueError, match=missing):
        Problem.from_dict(d)


@pytest.mark.parametrize(
    "limits", [{"cpu": -0.1}, {"cpu": math.nan}, {"ram": 1}, [1, 1, 1, 1, 1], {"latency": 1}]
)
def test_bad_limits_are_refused(limits: Any) -> None:
    with pytest.raises(ValueError, match=r"limit"):
        place(Problem.from_dict(GOOD), limits)


def test_limits_read_like_attributes_and_like_a_mapping() -> None:
    limits = Limits.of({"cpu": 0.2, "net": 0.5})
    assert (limits.cpu, limits["net"], limits.io) == (0.2, 0.5, math.inf)
    assert dict(limits) == {"cpu": 0.2, "net": 0.5}
    with pytest.raises(KeyError):
        limits["ram"]


def test_a_placement_names_workers_and_operators_and_is_plain_data() -> None:
    plan = place(Problem.from_dict(GOOD))
    assert plan is not None
    assert set(plan.assignment) == {"w1", "w2"}
    assert sum(tasks["a"] for tasks in plan.assignment.values()) == 2
    assert sum(tasks.get("sink", 0) for tasks in plan.assignment.values()) == 1
    with pytest.raises(KeyError):
        plan.assignment["w1"]["nothing"]
    json.dumps(plan.assignment)


def test_rules_that_exclude_every_plan_are_told_apart_from_limits() -> None:
    moving = {**GOOD, "current": {"w1": {"a": 1}}, "max_moves": 1}
    problem = Problem.from_dict(moving)
    assert count_plans(problem) == 0
    assert place(problem) is None
    assert pareto(problem) == []
    with pytest.raises(NoPlan):
        tune(problem)


def test_identical_tasks_on_full_workers_cost_nothing_despite_rounding() -> None:
    d = {
        "operators": [{"id": "a", "parallelism": 9, "cpu": 0.1, "io": 0.7, "net": 0.3}],
        "edges": [],
        "workers": 3,
        "slots": 3,
    }
    problem = Problem.from_dict(d)
    plan = place(problem)
    assert plan is not None
    assert set(plan.cost.values()) == {0.0}
    assert count_plans(problem) == 1
    assert tune(problem).steps == 0


def test_a_threshold_of_zero_is_relaxed_and_never_rounded() -> None:
    # Eight windows on four workers balance io perfectly, but not together with the least cpu.
    d = {
        "operators": [
            {"id": "w", "parallelism": 8, "cpu": 5.0, "io": 1.0, "net": 0.0},
            {"id": "t", "parallelism": 5, "cpu": 3.1, "io": 0.0, "net": 0.0},
            {"id": "s", "parallelism": 3, "cpu": 4.7, "io": 0.0, "net": 0.0},
        ],
        "edges": [],
        "workers": 4,
        "slots": 4,
    }
    problem = Problem.from_dict(d)
    limits = tune(problem)
    assert limits.minimum["io"] == 0
    assert place(problem, limits) is not None
    exactly = dict(limits.minimum)
    assert (place(problem, exactly) is not None) == (limits.steps == 0)
    for dimension, alpha in exactly.items():
        assert count_plans(problem, {dimension: alpha}) > 0
        if alpha > 1e-6:
            assert count_plans(problem, {dimension: alpha - 1e-6}) == 0


def test_many_more_plans_than_a_machine_word_are_counted_exactly() -> None:
    # One task a worker on distinct workers: the plans are the permutations of the operators.
    size = 22
    d = {
        "operators": [
            {"id": f"o{i}", "parallelism": 1, "cpu": 1.0, "io": 0.0, "net": 0.0} for i in range(12)
        ],
        "edges": [],
        "workers": [{"name": f"n{k}", "cpu": 1.0 + k} for k in range(size)],
        "slots": 1,
    }
    assert count_plans(Problem.from_dict(d)) == math.perm(size, 12)


def test_counting_what_cannot_be_counted_says_so() -> None:
    d = copy.deepcopy(GOOD)
    d["operators"] = [
        {"id": str(i), "parallelism": 64, "cpu": 1.0 + i, "io": 0.0, "net": 0.0} for i in range(8)
    ]
    d.update(edges=[], workers=8, slots=64)
    with pytest.raises(TooLarge):
        count_plans(Problem.from_dict(d))
    with pytest.raises(TooLarge):
        pareto(Problem.from_dict(d))
    plan = place(Problem.from_dict(d))
    assert plan is not None
    assert np.array_equal(plan.counts.sum(axis=0), [64] * 8)


def test_more_slots_than_tasks_change_nothing() -> None:
    few, many = ({**GOOD, "slots": n} for n in (3, 10**12))
    assert count_plans(Problem.from_dict(few)) == count_plans(Problem.from_dict(many))
