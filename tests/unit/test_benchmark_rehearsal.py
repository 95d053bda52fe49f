"""Campaigns rehearsed from first measurement to tables, with engines in numbers instead of a testbed."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2]))
sys.path.append(str(Path(__file__).parent / "placement"))

from paper_ground import PaperGround

from benchmarks import campaign, capacity, live, placement, placement_live, placement_scaling, scalability
from fogctl.agent.events import MemoryLog
from fogctl.bench.bench_file import Simulated
from fogctl.bench.simulated import SimulatedSubject
from fogctl.config import testbed
from fogctl.errors import FogError
from fogctl.placement.profile import Profile, StageProfile
from fogctl.planner import live_lab
from fogctl.planner.estimator import estimate, judged
from fogctl.planner.measure import StageSeen, Window
from fogctl.planner.simulated import SimulatedStage
from fogctl.runtime import operate
from fogctl.runtime.app import App
from fogctl.runtime.operate import Apps

CPU_S = {"parse": 0.001, "measure": 0.006, "choose": 0.001, "q5": 0.003, "q1": 0.003, "q11": 0.004}
FAR = 0.5
"""What a stage with a far replica manages of what it else would."""


class PaperMeasure:
    """An app's load in numbers: what its slowest stage can do on the nodes that the record has."""

    def __init__(
        self, apps: Apps, app: App, values: Sequence[bytes], replicas: Mapping[str, int], _: int = 1
    ) -> None:
        assert values
        assert set(replicas) == {stage.name for stage in app.stages}
        self.apps, self.app = apps, app
        self.engine = SimulatedStage(1.0, seed=7, freshness_s=app.stages[-1].freshness_ms / 1000)

    def capacity(self) -> float:
        found = self.apps.get(self.app.name)
        cores = {node.name: node.cpu_cores or 1.0 for node in self.apps.ground.testbed.nodes}
        rates = []
        for stage in found.stages:
            sum_of = sum(replica.share * cores[replica.node] for replica in stage.replicas)
            far = any(node.startswith("far") for node in stage.nodes)
            rates.append(sum_of * (FAR if far else 1.0) / CPU_S[stage.stage])
        return min(rates)

    def run(self, rate_per_s: float, seconds: float) -> Window:
        most = self.capacity()
        self.engine.capacity_per_s = most
        self.engine.stages = (StageSeen(self.app.stages[-1].name, self.engine.mst, 1.0),)
        return self.engine.run(rate_per_s, seconds)


def profile(apps: Apps, name: str, _: float) -> Profile:
    stages = [
        StageProfile(
            stage=stage.name,
            records=100,
            records_per_s=10,
            records_per_s_per_replica=10,
            cpu_s_per_record=CPU_S[stage.name],
            output_records_per_record=1,
            output_bytes_per_record=100,
        )
        for stage in apps.app(name).stages
    ]
    return Profile(app=name, measured_at="2026-05-01T12:00:00+00:00", window_s=30, stages=stages)


@pytest.fixture(autouse=True)
def on_paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def bed_up(name: str) -> Iterator[Apps]:
        ground = PaperGround(tmp_path / name, testbed.load(campaign.BEDS / f"{name}.yaml", 2, 24 << 30))
        yield Apps(ground)  # type: ignore[arg-type]
        for left in Apps(ground).deployments():  # type: ignore[arg-type]
            Apps(ground).remove(left.app)  # type: ignore[arg-type]

    monkeypatch.setattr(operate.kafka, "ensure_topics", lambda *_: [])
    monkeypatch.setattr(operate.kafka, "delete_topics", lambda *_: None)
    monkeypatch.setattr(campaign, "without_root", lambda _: False)
    monkeypatch.setattr(campaign, "bed_up", bed_up)
    for module in (campaign, placement_live):  # nobody reads it here
        monkeypatch.setattr(module, "data_of", lambda _: (b"a record",))
    monkeypatch.setattr(placement_live, "bed_up", bed_up)
    monkeypatch.setattr(placement_live, "LiveMeasure", PaperMeasure)
    monkeypatch.setattr(placement_live, "measure_profile", profile)
    monkeypatch.setattr(placement_live.time, "sleep", lambda _: None)
    monkeypatch.setattr(placement_live, "latencies", lambda *_: {"latency_p50_s": 1.0, "latency_p95_s": 2.0})
    monkeypatch.setattr(live_lab, "LiveMeasure", PaperMeasure)


def test_the_comparison_of_placements_runs_to_its_tables_and_auto_keeps_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.contextmanager
    def no_agent(here: placement_live.Bench, policy: Any, log: MemoryLog) -> Iterator[None]:
        assert here.apps.ground.folder.joinpath("apps", "taxi3", "profile.json").exists()
        yield

    monkeypatch.setattr(placement_scaling, "_agent", no_agent)
    monkeypatch.setattr(placement, "SEEDS", 1)
    file = tmp_path / "p.jsonl"
    assert placement.main(["measure", "--to", str(file), "--only", "calibrate", "--only", "taxi3"]) == 0
    with pytest.raises(FogError, match="slots changed"):
        placement.main(["measure", "--to", str(file), "--slots", "3"])
    assert placement.main(["measure", "--to", str(file)]) == 0
    lines = campaign.read(file)
    assert len(lines) == 2 + 4 + 4 + 10 + 4
    rows = {row["place"]: row for row in placement.compared(lines, "taxi3", "taxi3")}
    assert rows["auto"]["throughput"] > 0.95
    assert rows["pack"]["throughput"] < rows["auto"]["throughput"]
    both = {row["place"]: row for row in placement.compared(lines, "together", "nexmark-q5")}
    assert all(row["runs"] == 2 for row in both.values())
    capsys.readouterr()
    guide = tmp_path / "guide.md"
    guide.write_text("before\n<!-- begin placement -->\n<!-- end placement -->\nafter\n")
    picture = tmp_path / "p.svg"
    assert placement.main(["show", str(file), "--plot", str(picture), "--markdown", str(guide)]) == 0
    assert "not measured yet" not in guide.read_text()
    assert guide.read_text().startswith("before")
    assert "<svg" in picture.read_text()


def test_plans_from_small_pools_are_tried_on_a_larger_one(tmp_path: Path) -> None:
    file = tmp_path / "c.jsonl"
    assert capacity.main(["measure", "--to", str(file)]) == 0
    lines = campaign.read(file)
    assert sum(line["part"] == "reruns" for line in lines) == 5
    found = list(capacity.rows(lines))
    assert [row["held"] for row in found] == [True, True, True], found
    assert capacity.main(["show", str(file), "--plot", str(tmp_path / "c.svg")]) == 0


def tried(jitter: float, seed: int) -> bool:
    """Whether what a plan from three sizes promises of five is sustained, and half more is not."""

    def engine(nodes: int) -> SimulatedStage:
        return SimulatedStage(55.0 * nodes, freshness_s=3.0, jitter=jitter, seed=100 * seed + nodes)

    lines: list[dict[str, Any]] = []
    for nodes in capacity.SMALL:
        first_rate = capacity.too_much(lines, "nexmark-q1", nodes)
        mst = estimate(engine(nodes), first_rate, capacity.PHASES).mst
        lines.append({"part": "explore", "app": "nexmark-q1", "slots": nodes, "mst": mst})
    promised = capacity.promise(lines, "nexmark-q1")
    assert promised is not None
    larger, held = engine(capacity.LARGE), {}
    larger.run(0.5 * promised, capacity.PHASES.warm_up_s)
    for percent in capacity.PERCENT:
        rate = promised * percent / 100
        larger.run(rate, capacity.RAMP_UP_S)
        held[percent] = judged(larger.run(rate, capacity.LOOKED_S), rate, 0.95).sustained
    return held[100] and not held[150]


@pytest.mark.parametrize("jitter", [0.05, 0.15])
def test_trials_of_plans_end_as_they_should_as_often_as_the_guide_says(jitter: float) -> None:
    assert capacity.FRESHNESS == "3s"
    share = sum(tried(jitter, seed) for seed in range(5000, 5060)) / 60
    guide = " ".join((Path(__file__).parents[2] / "docs" / "planning.md").read_text(encoding="utf-8").split())
    found = re.search(rf"for (\d+) % (?:of the plans )?if (?:batches vary )?by {100 * jitter:.0f} %", guide)
    assert found is not None
    assert share == pytest.approx(int(found[1]) / 100, abs=0.02)


def test_the_estimate_that_is_among_the_reruns_is_not_made_again(tmp_path: Path) -> None:
    file = tmp_path / "c.jsonl"
    assert capacity.main(["measure", "--to", str(file), "--only", "reruns"]) == 0
    first = campaign.read(file)
    assert capacity.main(["measure", "--to", str(file), "--only", "explore:nexmark-q1"]) == 0
    new = campaign.read(file)[len(first) :]
    assert {line["slots"] for line in new if line["part"] == "trial"} == {1, 3}
    taken = next(line for line in new if line["part"] == "explore" and line["slots"] == 2)
    again = next(line for line in first if line["part"] == "reruns" and line["run"] == 0)
    assert (taken["mst"], taken["stages"]) == (again["mst"], again["stages"])


def test_one_plan_is_measured_and_tried_and_told_in_its_guide(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, docs = tmp_path / "kept", tmp_path / "docs"
    (docs / "img").mkdir(parents=True)
    for told in live.ALL.values():
        name = told.campaign.name
        (docs / told.guide).write_text(f"a\n<!-- begin {name} -->\n<!-- end {name} -->\nb\n")
    only = "capacity:validate:nexmark-q1"
    assert live.main(["measure", "--to", str(kept), "--only", only]) == 0
    assert live.main(["show", "--to", str(kept), "--docs", str(docs)]) == 0
    assert "placement: not measured yet" in capsys.readouterr().out
    guide = (docs / "planning.md").read_text()
    (row,) = (line for line in guide.splitlines() if line.startswith("| nexmark-q1 |"))
    assert row.endswith("| yes |")
    assert "| nexmark-q5 | –, –, – |" in guide
    assert "![Capacity plans tried out live](img/capacity-live.svg)" in guide
    assert "Machine: cpu" in guide
    assert (docs / "img" / "capacity-live.svg").exists()
    assert (docs / "placement.md").read_text().count("\n") == 4


def test_an_estimate_that_was_stopped_in_the_middle_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "c.jsonl"
    note, count = capacity._note_trial, iter(range(100))

    def dies(*arguments: Any) -> None:
        note(*arguments)
        if next(count) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(capacity, "_note_trial", dies)
    with pytest.raises(KeyboardInterrupt):
        capacity.main(["measure", "--to", str(file), "--only", "reruns"])
    before = len(campaign.read(file))
    assert before == 3
    monkeypatch.setattr(capacity, "_note_trial", note)
    assert capacity.main(["measure", "--to", str(file), "--only", "reruns"]) == 0
    first = [line for line in campaign.read(file) if line["part"] == "trial" and line["run"] == 0]
    assert first[:3] == campaign.read(file)[:3]
    assert len(first) <= capacity.PHASES.most_trials


def test_the_task_samples_answer_both_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def subject(_: Any, load: Any, seed: int, *__: Any) -> SimulatedSubject:
        return SimulatedSubject(Simulated(rate_of_one=75), load, seed)

    monkeypatch.setattr(scalability.LiveSubject, "of", subject)
    file = tmp_path / "s.jsonl"
    assert scalability.main(["measure", "--to", str(file)]) == 0
    lines = campaign.read(file)
    for name in scalability.NAMES:
        demand = scalability.outcome(lines, name, scalability.Metric.demand)
        assert demand is not None
        assert dict(demand.answers) == {30: 1, 60: 1, 120: 2, 240: None}
    assert scalability.main(["show", str(file), "--plot", str(tmp_path / "s.svg")]) == 0
