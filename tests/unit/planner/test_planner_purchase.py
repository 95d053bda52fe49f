"""From a capacity model to boards and watts, and the page that tells it."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from fogmodels.capacity import Observation, fit_capacity

from fogctl.config import boards
from fogctl.errors import FogError
from fogctl.planner.explorer import Measured, Profile
from fogctl.planner.page import page
from fogctl.planner.picture import draw_capacity
from fogctl.planner.purchase import purchase, tasks_per_board

STAGES = ("parse", "join")
PROFILE = Profile(512.0, 100.0, 0.05, (120.0, 100.0), (1.0, 0.5))
BOARDS = boards.load_all()
PI = BOARDS["rpi4-4g"]


def model():
    """A hundred records a second a slot, for any memory."""
    noise = (1.01, 0.99, 1.0, 1.0, 0.995, 1.005)
    rows = [
        Observation(slots, memory, 100.0 * slots * noise[place])
        for place, (slots, memory) in enumerate(
            [(2, 256.0), (8, 256.0), (2, 512.0), (8, 512.0), (4, 256.0), (6, 512.0)]
        )
    ]
    return fit_capacity(rows, "linear")


def test_slots_become_tasks_boards_and_watts() -> None:
    found = purchase(model(), PROFILE, STAGES, 1000.0, PI)
    assert found.slots in (11, 12)  # a tenth of headroom
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.slots <= found.high
    assert sum(found.tasks.values()) <= found.slots
    assert found.boards == 3
    assert found.watts is not None
    assert 3 * PI.idle_watts < found.watts <= 3 * PI.load_watts


def test_memory_limits_the_tasks_of_a_board() -> None:
    assert tasks_per_board(PI, 512.0) == 4
    assert tasks_per_board(PI, 1500.0) == 2
    with pytest.raises(FogError, match="has no room for a task with 5000 MB"):
        purchase(model(), Profile(5000.0, 1.0, None, (1.0, 1.0), (1.0, 1.0)), STAGES, 10.0, PI)


def test_a_slower_board_needs_more_of_them() -> None:
    same = purchase(model(), PROFILE, STAGES, 4000.0, PI)
    faster = purchase(model(), PROFILE, STAGES, 4000.0, PI, measured_speed=2.0)
    assert same.boards is not None
    assert faster.boards is not None
    assert faster.boards == pytest.approx(2 * same.boards, abs=1)
    assert faster.tasks == same.tasks


def test_a_rate_out_of_reach_says_so() -> None:
    found = purchase(model(), PROFILE, STAGES, 1e6, PI, max_slots=50)
    assert (found.slots, found.boards, found.watts, found.tasks) == (None, None, None, {})


def test_each_stage_has_a_task_however_low_the_rate() -> None:
    assert purchase(model(), PROFILE, STAGES, 1.0, PI).tasks == {"parse": 1, "join": 1}


def test_the_page_tells_everything_and_loads_nothing() -> None:
    fitted = model()
    rates = (500.0, 1e6)
    bought = [purchase(fitted, PROFILE, STAGES, rate, PI, max_slots=50) for rate in rates]
    measured = [Measured(2, 256.0, 201.0, 0.05, {"parse": 1, "join": 1})]
    figure = draw_capacity(fitted, 500.0, 512.0, 0.1, 0.9)
    text = page("taxi & co", "rpi4-4g", bought, measured, fitted.verdict, figure)
    for words in ("taxi &amp; co", "more than was looked at", "parse 1, join 1", "<svg", "rpi4-4g", "+5%"):
        assert words in text
    loaded: list[str] = []

    class Links(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            loaded.extend(value or "" for name, value in attrs if name in ("src", "href") and tag != "use")

    Links().feed(text)
    assert [link for link in loaded if not link.startswith("#")] == []
