"""Tests of my-app: its stage on a few records, in a Spark of this process, without Kafka. Run: pytest"""

from __future__ import annotations

from pathlib import Path

from fogctl.runtime.local import run_stage

APP = Path(__file__).parent


def test_words_are_counted() -> None:
    """A value without a key gets its number, counted from 1."""
    assert run_stage(APP, "words", ["to be or not to be", "  that  is "]) == [("1", "6"), ("2", "2")]


def test_short_words_can_be_left_out() -> None:
    """Options given here replace those of app.yaml."""
    assert run_stage(APP, "words", ["to be or not"], options={"least": "3"}) == [("1", "1")]


def test_every_record_comes_out_once_under_its_own_key() -> None:
    """What an audit counts, so it must hold for empty records too."""
    made = run_stage(APP, "words", [("7", "a b"), ("8", ""), ("9", None)])
    assert made == [("7", "2"), ("8", "0"), ("9", "0")]
