"""The journal of sent records and the audit that reads it: a killed sender's doubts are not losses."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from fogctl.runtime.audit import count
from fogctl.runtime.sent_numbers import SentNumbers


@pytest.fixture
def numbers(tmp_path: Path) -> SentNumbers:
    return SentNumbers(tmp_path / "app" / "sent.jsonl")


def keys(*numbers: int) -> list[bytes | None]:
    return [b"%d" % number for number in numbers]


def test_nothing_was_sent_to_a_new_app(numbers: SentNumbers) -> None:
    assert numbers.read().next == 0
    assert count([], numbers.read()).ok


def test_a_whole_replay_counts_and_the_next_one_goes_on(numbers: SentNumbers) -> None:
    assert numbers.reserve(5) == 0
    numbers.taken(0, 5)
    numbers.acknowledged(0, 5)
    assert numbers.reserve(3) == 5
    found = count(keys(0, 1, 2, 2, 4), numbers.read())
    assert (found.sent, found.seen, found.lost, found.duplicates, found.foreign) == (5, 4, 1, 1, 0)


def test_what_a_killed_replay_never_sent_is_not_lost(numbers: SentNumbers) -> None:
    numbers.reserve(1000)
    numbers.taken(0, 100)
    numbers.acknowledged(0, 100)
    numbers.taken(100, 200)
    found = count(keys(*range(150)), numbers.read())
    assert found.ok
    assert (found.sent, found.seen, found.lost, found.unsure) == (100, 150, 0, 50)
    assert numbers.reserve(10) == 1000


def test_what_an_interrupted_replay_gave_back_is_neither_lost_nor_in_doubt(numbers: SentNumbers) -> None:
    numbers.reserve(200)
    numbers.taken(0, 100)
    numbers.acknowledged(0, 40)
    numbers.returned(40, 100)
    found = count(keys(*range(40)), numbers.read())
    assert (found.sent, found.lost, found.unsure) == (40, 0, 0)


def test_a_line_cut_off_by_a_kill_says_nothing(numbers: SentNumbers, tmp_path: Path) -> None:
    numbers.reserve(10)
    numbers.taken(0, 10)
    with (tmp_path / "app" / "sent.jsonl").open("a") as file:
        file.write('{"acknow')
    assert numbers.read().unsure.sum() == 10
    assert numbers.reserve(5) == 10
    assert numbers.read().next == 15


def test_a_declaration_replaces_what_was_written(numbers: SentNumbers) -> None:
    numbers.reserve(10)
    numbers.taken(0, 10)
    numbers.declare(4)
    found = numbers.read()
    assert (found.next, found.sure.sum(), found.unsure.sum()) == (4, 4, 0)
    assert count(keys(0, 1, 2, 3), found).ok


def reserve_often(path: str) -> list[int]:
    journal = SentNumbers(Path(path))
    return [journal.reserve(7) for _ in range(50)]


def test_senders_at_once_never_get_the_same_numbers(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        firsts = [
            first for got in pool.map(reserve_often, [str(tmp_path / "sent.jsonl")] * 3) for first in got
        ]
    assert sorted(firsts) == [7 * index for index in range(150)]
