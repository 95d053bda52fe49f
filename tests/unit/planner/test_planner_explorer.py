"""The Resource Explorer over a simulated lab: the order of measurements, the best spending, and going on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from fogmodels.capacity import SearchSpace, StopRule, fit_capacity

from fogctl.errors import FogError
from fogctl.planner.estimator import Phases
from fogctl.planner.explorer import Exploration, cost, explore
from fogctl.planner.journal import Journal
from fogctl.planner.measure import Measure, StageSeen, Window
from fogctl.planner.simulated import SimulatedStage

RATES = {"parse": 1200.0, "join": 300.0}
RATIOS = {"parse": 1.0, "join": 0.5}
SPACE = SearchSpace((2, 4, 6, 9), (256.0, 512.0))
PHASES = Phases(most_trials=6)


class KilledError(Exception):
    """The machine stopped."""


class SimulatedLab:
    """Stages with known rates; the bottleneck decides; memory helps a little, many tasks hinder a little."""

    stages = tuple(RATES)

    def __init__(self, dies_after: int | None = None) -> None:
        self.deployments: list[tuple[dict[str, int], float]] = []
        self.windows = 0
        self._dies_after = dies_after

    def capacity(self, tasks: Mapping[str, int], memory_mb: float) -> float:
        rate = min(tasks[name] * RATES[name] / RATIOS[name] for name in RATES)
        return rate * (0.8 + 0.2 * memory_mb / 512) * sum(tasks.values()) ** -0.1

    @contextmanager
    def deployed(self, tasks: Mapping[str, int], memory_mb: float) -> Iterator[Measure]:
        self.deployments.append((dict(tasks), memory_mb))
        source = self.capacity(tasks, memory_mb)
        seen = tuple(
            StageSeen(
                name, source * RATIOS[name], source * RATIOS[name] / (tasks[name] * RATES[name]), tasks[name]
            )
            for name in RATES
        )
        yield Counting(self, SimulatedStage(source / 0.9, stages=seen, seed=len(self.deployments)))


class Counting:
    """A measure that counts its windows, and may die."""

    def __init__(self, lab: SimulatedLab, inner: SimulatedStage) -> None:
        self._lab, self._inner = lab, inner

    def run(self, rate_per_s: float, seconds: float) -> Window:
        self._lab.windows += 1
        if self._lab._dies_after is not None and self._lab.windows > self._lab._dies_after:
            raise KilledError
        return self._inner.run(rate_per_s, seconds)


def explored(lab: SimulatedLab, folder: Path, **more: object) -> Exploration:
    asked = {"app": "two-stages", **more}
    return explore(lab, SPACE, 3000.0, Journal(folder / "journal.jsonl"), asked=asked, phases=PHASES)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Exploration, Path, SimulatedLab]:
    folder, lab = tmp_path_factory.mktemp("whole"), SimulatedLab()
    return explored(lab, folder), folder, lab


def test_corners_come_first_and_the_stop_rule_ends_it(
    whole: tuple[Exploration, Path, SimulatedLab],
) -> None:
    found, _, _ = whole
    first = {(each.task_slots, each.memory_mb) for each in found.measured[:4]}
    assert first == {(2, 256.0), (9, 256.0), (2, 512.0), (9, 512.0)}
    assert 7 < len(found.measured) <= 20
    bound = cost(SPACE, PHASES)
    assert bound.least_runs <= len(found.measured) + len(found.profiles) <= bound.most_runs
    assert 0 < bound.least_s < bound.most_s


def test_a_budget_is_spent_where_it_helps_most(whole: tuple[Exploration, Path, SimulatedLab]) -> None:
    found, _, _ = whole
    for each in found.measured:
        best = max(
            (min(RATES["parse"] * n, RATES["join"] / 0.5 * (each.task_slots - n)), -n)
            for n in range(1, each.task_slots)
        )[0]
        spent = min(RATES["parse"] * each.tasks["parse"], RATES["join"] / 0.5 * each.tasks["join"])
        assert spent == pytest.approx(best)


def test_measurements_are_true_and_a_model_can_be_fitted(
    whole: tuple[Exploration, Path, SimulatedLab],
) -> None:
    found, _, lab = whole
    for each in found.measured:
        assert each.mst == pytest.approx(lab.capacity(each.tasks, each.memory_mb), rel=0.15)
    model = fit_capacity([each.observation for each in found.measured])
    assert model.mst(9, 512.0) == pytest.approx(lab.capacity({"parse": 3, "join": 6}, 512.0), rel=0.15)


def test_one_task_of_each_is_measured_once_for_each_memory(
    whole: tuple[Exploration, Path, SimulatedLab],
) -> None:
    _, _, lab = whole
    single = [memory for tasks, memory in lab.deployments if tasks == {"parse": 1, "join": 1}]
    assert sorted(single) == [256.0, 512.0]


def test_a_killed_exploration_goes_on_with_the_trial_it_was_at(
    tmp_path: Path, whole: tuple[Exploration, Path, SimulatedLab]
) -> None:
    killed = SimulatedLab(dies_after=120)
    with pytest.raises(KilledError):
        explored(killed, tmp_path)
    kept = (tmp_path / "journal.jsonl").read_text().splitlines()
    finished = [json.loads(line) for line in kept if '"mst"' in line]
    assert finished
    with (tmp_path / "journal.jsonl").open("a") as stream:
        stream.write('{"step": 3, "tri')  # a line that was never finished
    lab = SimulatedLab()
    found = explored(lab, tmp_path)
    steps = (tmp_path / "journal.jsonl").read_text().count('"mst"')
    assert len(lab.deployments) == steps - len(finished)
    assert (tmp_path / "journal.jsonl").read_text().splitlines()[: len(kept)] == kept
    again = SimulatedLab()
    assert explored(again, tmp_path) == found
    assert again.deployments == []


def test_a_journal_of_another_question_is_refused(
    whole: tuple[Exploration, Path, SimulatedLab],
) -> None:
    _, folder, _ = whole
    with pytest.raises(FogError, match=r"holds measurements of something else: app changed") as caught:
        explored(SimulatedLab(), folder, app="another")
    assert caught.value.exit_code == 3


def test_a_budget_below_one_task_a_stage_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FogError, match="a budget of 1 slots is too small for 2 stages"):
        explore(SimulatedLab(), SearchSpace((1, 4), (256.0,)), 100.0, Journal(tmp_path / "j"), asked={})


def test_fewer_measurements_can_be_asked_for(tmp_path: Path) -> None:
    stop = StopRule(beyond_corners=0, most=5)
    found = explore(
        SimulatedLab(), SPACE, 3000.0, Journal(tmp_path / "j"), asked={}, phases=PHASES, stop=stop
    )
    assert len(found.measured) == 5


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "holds no measurements"), ("{}\n", "holds no measurements"), ("x\n{}\n", "is not a measurement")],
)
def test_a_file_that_is_no_journal_is_told(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "j").write_text(text)
    with pytest.raises(FogError, match=words):
        Journal(tmp_path / "j").read()
