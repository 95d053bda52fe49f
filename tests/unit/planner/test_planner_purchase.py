"""From a capacity model to boards and watts."""

from __future__ import annotations

import pytest
from fogmodels.capacity import CapacityModel, Observation, fit_capacity

from fogctl.config import boards
from fogctl.errors import FogError
from fogctl.planner.explorer import Profile
from fogctl.planner.purchase import Purchase, purchase, speed_in_use, tasks_per_board

STAGES = ("parse", "join")
PROFILE = Profile(512.0, 100.0, 0.05, (120.0, 100.0), (1.0, 0.5))
BOARDS = boards.load_all()
PI = BOARDS["rpi4-4g"]


def model() -> CapacityModel:
    """A hundred records a second a slot, for any memory."""
    noise = (1.01, 0.99, 1.0, 1.0, 0.995, 1.005)
    rows = [
        Observation(slots, memory, 100.0 * slots * noise[place])
        for place, (slots, memory) in enumerate(
            [(2, 256.0), (8, 256.0), (2, 512.0), (8, 512.0), (4, 256.0), (6, 512.0)]
        )
    ]
    return fit_capacity(rows, "linear")


def bought(rate: float, board: boards.Board = PI, **more: float) -> Purchase:
    return purchase(model(), 512.0, PROFILE, STAGES, rate, board, **more)  # type: ignore[arg-type]


def test_slots_become_tasks_boards_and_watts() -> None:
    found = bought(1000.0)
    assert found.slots in (11, 12)  # a tenth of headroom
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.slots <= found.high
    assert sum(found.tasks.values()) <= found.slots
    assert (found.board, found.boards) == ("rpi4-4g", 3)
    assert found.boards_low is not None
    assert found.boards_high is not None
    assert found.boards_low <= 3 <= found.boards_high
    assert found.watts is not None
    assert 3 * PI.idle_watts < found.watts <= 3 * PI.load_watts


def test_watts_are_those_of_the_profile_when_all_cores_work_and_less_when_not() -> None:
    full = next(each for each in (bought(100.0 * n) for n in range(3, 40)) if each.slots == 4)
    assert full.watts == pytest.approx(PI.load_watts)
    half = next(each for each in (bought(100.0 * n) for n in range(1, 40)) if each.slots == 6)
    assert half.watts == pytest.approx(2 * PI.idle_watts + 1.5 * (PI.load_watts - PI.idle_watts))


def test_memory_limits_the_tasks_of_a_board() -> None:
    assert tasks_per_board(PI, 512.0) == 4
    assert tasks_per_board(PI, 1500.0) == 2
    with pytest.raises(FogError, match="has no room for a task with 5000 MB"):
        purchase(model(), 5000.0, None, STAGES, 10.0, PI)


@pytest.mark.parametrize("name", sorted(BOARDS))
def test_a_board_offers_no_more_than_it_has_and_slow_cores_count_as_slow(name: str) -> None:
    board = BOARDS[name]
    assert 0 < speed_in_use(board, 64.0) <= board.capacity * (1 + 1e-9)
    if tasks_per_board(board, 64.0) == board.cores:
        assert speed_in_use(board, 64.0) == pytest.approx(board.capacity)


def test_a_slower_board_needs_more_of_them() -> None:
    same, faster = bought(4000.0), bought(4000.0, slot_speed=2.0)
    assert same.boards is not None
    assert faster.boards is not None
    assert faster.boards == pytest.approx(2 * same.boards, abs=1)
    assert faster.tasks == same.tasks
    quick = bought(4000.0, BOARDS["rpi5-8g"])
    assert quick.boards is not None
    assert quick.boards < same.boards


def test_a_rate_out_of_reach_says_so() -> None:
    found = bought(1e6, max_slots=50)
    assert (found.slots, found.boards, found.watts, found.tasks) == (None, None, None, {})
    assert (found.boards_low, found.boards_high) == (None, None)


def test_each_stage_has_a_task_however_low_the_rate() -> None:
    assert bought(1.0).tasks == {"parse": 1, "join": 1}


def test_nothing_is_said_of_stages_that_were_not_profiled() -> None:
    found = purchase(model(), 512.0, None, (), 1000.0, PI)
    assert (found.tasks, found.boards) == ({}, 3)
