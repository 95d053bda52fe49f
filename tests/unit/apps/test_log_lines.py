"""The generator of log lines: reproducible, and truthful about each line."""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime

import pytest
from fogapps.logs.lines import Line, lines

# Written anew, from the words of the format alone.
HEAD = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?)Z (DEBUG|INFO|WARN|ERROR|FATAL) "
    r"([a-z][a-z0-9._-]{0,39})\[(\d{1,10})\]: (.+)",
    re.DOTALL | re.ASCII,
)


def read(text: str) -> tuple[str, str] | None:
    """Component and level of a line, None if it is not valid."""
    found = HEAD.fullmatch(text)
    if found is None:
        return None
    try:
        datetime.fromisoformat(found[1])
    except ValueError:
        return None
    return found[3], found[2]


def test_the_same_arguments_give_the_same_lines() -> None:
    assert list(lines(200, seed=4, dirt=0.2)) == list(lines(200, seed=4, dirt=0.2))
    assert list(lines(200, seed=4)) != list(lines(200, seed=5))


@pytest.mark.parametrize("dirt", [0.0, 0.3, 1.0])
def test_every_line_is_what_it_says_it_is(dirt: float) -> None:
    made = list(lines(3000, seed=11, dirt=dirt))
    assert len(made) == 3000
    for line in made:
        assert read(line.text) == ((line.component, line.level) if line.valid else None), line
    spoilt = sum(not line.valid for line in made)
    assert abs(spoilt - 3000 * dirt) <= 4 * (3000 * dirt * (1 - dirt)) ** 0.5


def test_clean_lines_match_patterns_now_and_then() -> None:
    found = Counter(name for line in lines(3000, seed=2) for name in line.matches)
    assert set(found) == {
        *("login-failed", "path-traversal", "sql-injection", "out-of-memory"),
        *("timed-out", "disk-full", "refused", "crash"),
    }


def test_no_line_is_possible() -> None:
    assert list(lines(0)) == []


@pytest.mark.parametrize(("count", "dirt"), [(-1, 0.0), (1, -0.1), (1, 1.1), (1, float("nan"))])
def test_bad_arguments_are_refused(count: int, dirt: float) -> None:
    with pytest.raises(ValueError, match=r"lines is 0 or more|dirt is a share"):
        list(lines(count, dirt=dirt))


def test_a_spoilt_line_claims_nothing() -> None:
    assert all(line == Line(line.text, None, None, ()) for line in lines(50, dirt=1.0))
