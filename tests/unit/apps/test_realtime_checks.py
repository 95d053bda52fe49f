"""The limits of real-time mode: one sentence each, and each sentence's advice helps."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fogctl.errors import REFUSED, FogError
from fogctl.runtime import realtime
from fogctl.runtime.app import load
from fogctl.runtime.app_file import OutputMode
from fogctl.runtime.realtime import Facts, PlanFacts

FINE = Facts(
    stage="nearest",
    output_mode=OutputMode.update,
    freshness_ms=5000,
    partitions=(4,),
    replicas=4,
    slots_per_replica=1,
)


def test_a_stage_within_the_limits_passes() -> None:
    assert realtime.problems(FINE) == []
    realtime.check(FINE)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (replace(FINE, output_mode=OutputMode.append), "write output_mode: update or remove the key"),
        (replace(FINE, freshness_ms=4999), "write freshness: 5s"),
        (replace(FINE, sink="a file"), "writes to Kafka, not to a file"),
        (
            replace(FINE, plan=PlanFacts(python=("the UDF near",))),
            "the function uses the UDF near (write it with pyspark.sql.functions, or use mode: micro-batch)",
        ),
        (
            replace(FINE, plan=PlanFacts(python=("mapInPandas", "the UDF a", "the UDF b"))),
            "uses mapInPandas, the UDF a and the UDF b",
        ),
        (replace(FINE, plan=PlanFacts(unsupported=("coalesce",))), "has no coalesce"),
        (
            replace(FINE, replicas=3),
            "at once, 4, but 3 replicas of 1 slot can run 3 (write partitions: 3 or deploy it on 4 nodes)",
        ),
        (
            replace(FINE, plan=PlanFacts(shuffle_tasks=(2,))),
            "6 (4 to read, 2 behind shuffles), but 4 replicas of 1 slot can run 4 "
            "(write partitions: 2 or deploy it on 6 nodes)",
        ),
        (
            replace(FINE, replicas=1, slots_per_replica=2, plan=PlanFacts(shuffle_tasks=(2,))),
            "1 replica of 2 slots can run 2 (deploy it on 3 nodes)",
        ),
    ],
)
def test_each_limit_has_its_sentence(facts: Facts, words: str) -> None:
    found = realtime.problems(facts)
    assert len(found) == 1
    assert words in found[0]
    with pytest.raises(FogError, match="stage nearest: real-time mode") as caught:
        realtime.check(facts)
    assert caught.value.exit_code == REFUSED


def test_the_facts_of_a_stage_are_those_of_its_app_file(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("def both(a, b, options): ...\n")
    (tmp_path / "app.yaml").write_text(
        "name: probe\nstages:\n"
        "  - {name: both, inputs: [a, b], output: c, partitions: 3, mode: real-time, freshness: 7s}\n"
    )
    stage = load(tmp_path).stages[0]
    plan = PlanFacts(shuffle_tasks=(2,))
    assert realtime.facts(stage, replicas=2, slots_per_replica=4, plan=plan) == Facts(
        "both", OutputMode.update, 7000, (3, 3), 2, 4, plan
    )
    assert realtime.facts(stage, 2, 4, plan).tasks == 8
    assert realtime.problems(realtime.facts(stage, 2, 4, plan)) == []
    assert "partitions: 2 or deploy it on 3 nodes" in str(realtime.slots_problem(realtime.facts(stage, 2, 2)))


def test_all_faults_are_told_at_once() -> None:
    worst = replace(FINE, output_mode=OutputMode.append, freshness_ms=1, replicas=1, sink="foreachBatch")
    assert len(realtime.problems(worst)) == 4
    with pytest.raises(FogError) as caught:
        realtime.check(worst)
    assert len(str(caught.value).splitlines()) == 4


@given(
    inputs=st.integers(1, 3),
    partitions=st.integers(1, 20),
    shuffles=st.lists(st.integers(1, 8), max_size=3),
    replicas=st.integers(1, 12),
    slots=st.integers(1, 4),
)
def test_every_task_has_a_slot_or_following_the_advice_gives_it_one(
    inputs: int, partitions: int, shuffles: list[int], replicas: int, slots: int
) -> None:
    facts = replace(
        FINE,
        partitions=(partitions,) * inputs,
        replicas=replicas,
        slots_per_replica=slots,
        plan=PlanFacts(shuffle_tasks=tuple(shuffles)),
    )
    told = realtime.slots_problem(facts)
    assert (told is None) == (inputs * partitions + sum(shuffles) <= replicas * slots)
    if told is None:
        return
    nodes = int(re.findall(r"deploy it on (\d+) nodes", told)[0])
    assert realtime.slots_problem(replace(facts, replicas=nodes)) is None
    assert realtime.slots_problem(replace(facts, replicas=nodes - 1)) is not None
    for fewer in map(int, re.findall(r"write partitions: (\d+)", told)):
        assert realtime.slots_problem(replace(facts, partitions=(fewer,) * inputs)) is None
        assert realtime.slots_problem(replace(facts, partitions=(fewer + 1,) * inputs)) is not None
