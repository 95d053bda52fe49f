from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from fogctl.errors import FogError
from fogctl.runtime.carry_out import GaveUpError, carry_out, together, waves
from fogctl.runtime.deployment import (
    AddReplica,
    Change,
    RemoveReplica,
    Replica,
    SetShare,
    StartStage,
    StopStage,
)

ONE, TWO, THREE = (AddReplica("parse", Replica(node)) for node in ("pi1", "pi2", "pi3"))
LESS = SetShare("parse", Replica("pi1", 0.5), 1.0)
GONE = RemoveReplica("parse", Replica("pi9"))


def test_what_starts_goes_together_what_leaves_too_and_the_rest_one_by_one() -> None:
    gone_too = RemoveReplica("parse", Replica("pi8"))
    steps = [StartStage("parse"), ONE, TWO, LESS, LESS, GONE, gone_too, StartStage("count"), THREE]
    assert waves(steps) == [steps[:3], [LESS], [LESS], [GONE, gone_too], steps[7:]]
    assert waves([]) == []


def test_a_failure_undoes_everything_begun_newest_first_and_says_so() -> None:
    made: list[Change] = []

    def make(wave: Sequence[Change]) -> None:
        made.extend(wave)
        if GONE in wave and len(made) == 4:
            raise FogError("no power", hint="plug it in", exit_code=1)

    said: list[str] = []
    with pytest.raises(FogError) as caught:
        carry_out([ONE, TWO, LESS, GONE], make, "call somebody", said.append)
    assert str(caught.value) == "no power (plug it in; what had been changed was undone)"
    assert made[4:] == [
        AddReplica("parse", Replica("pi9")),
        SetShare("parse", Replica("pi1", 1.0), 0.5),
        RemoveReplica("parse", Replica("pi2")),
        RemoveReplica("parse", Replica("pi1")),
    ]
    assert sum(line.startswith("undoing: ") for line in said) == 4


def test_a_stage_that_does_not_start_anew_is_started_again_as_it_was() -> None:
    """Its old version is started by other means than the new one."""
    made: list[tuple[str, Change]] = []

    def make(wave: Sequence[Change]) -> None:
        made.extend(("new", step) for step in wave)
        if StartStage("parse") in wave:
            raise FogError("app.py:3: no such column", exit_code=1)

    def make_back(wave: Sequence[Change]) -> None:
        made.extend(("old", step) for step in wave)

    half = Replica("pi1", 0.5)
    stop = StopStage("parse", "options", (half,))
    with pytest.raises(FogError) as caught:
        carry_out([stop, StartStage("parse"), ONE], make, "", lambda _: None, make_back)
    assert str(caught.value) == (
        "app.py:3: no such column (what had been changed was undone, and parse runs as before)"
    )
    assert made == [
        ("new", stop),
        ("new", StartStage("parse")),
        ("new", ONE),
        ("old", RemoveReplica("parse", Replica("pi1"))),
        ("old", StopStage("parse")),
        ("old", StartStage("parse")),
        ("old", AddReplica("parse", half)),
    ]


def test_an_interruption_is_undone_too() -> None:
    made: list[Change] = []

    def make(wave: Sequence[Change]) -> None:
        made.extend(wave)
        if wave == [LESS]:
            raise KeyboardInterrupt

    with pytest.raises(FogError, match="interrupted"):
        carry_out([ONE, LESS], make, "", lambda _: None)
    assert made[-1] == RemoveReplica("parse", Replica("pi1"))


def test_a_change_that_cannot_be_undone_names_the_remedy() -> None:
    def make(wave: Sequence[Change]) -> None:
        if wave != [ONE]:
            raise FogError("no power")

    with pytest.raises(FogError, match="failed while undoing: no power") as caught:
        carry_out([ONE, LESS], make, "fogctl app rm taxi", lambda _: None)
    assert caught.value.hint == "fogctl app rm taxi"


def test_tasks_run_at_the_same_time_and_the_cause_is_told_not_its_consequences() -> None:
    meeting = threading.Barrier(3, timeout=60)

    def waits(failed: threading.Event) -> None:
        meeting.wait()
        assert failed.wait(60)
        raise GaveUpError("gave up")

    def fails(failed: threading.Event) -> None:
        meeting.wait()
        assert not failed.is_set()
        raise FogError("no power")

    with pytest.raises(FogError, match="no power"):
        together([waits, fails, waits])
