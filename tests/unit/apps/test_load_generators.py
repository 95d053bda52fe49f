"""The generators of Nexmark, the task samples and OSPBench: mix, ids, rates, and the same again."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from fogapps.nexmark.events import FIRST_ID, events
from fogapps.ospbench.flows import LANES, flows
from fogapps.uc.readings import Sensors, readings

START = datetime(2026, 5, 1, tzinfo=UTC)


def test_of_fifty_events_one_is_a_person_three_are_auctions_the_rest_bids() -> None:
    made = list(events(5000))
    for begin in range(0, 5000, 50):
        assert Counter(event.kind for event in made[begin : begin + 50]) == {
            "person": 1, "auction": 3, "bid": 46,
        }  # fmt: skip


def test_persons_and_auctions_are_numbered_and_others_refer_to_those_active() -> None:
    made = list(events(50_000, seed=5))
    persons = [event.fields["id"] for event in made if event.kind == "person"]
    auctions = [event.fields["id"] for event in made if event.kind == "auction"]
    assert persons == list(range(FIRST_ID, FIRST_ID + 1000))
    assert auctions == list(range(FIRST_ID, FIRST_ID + 3000))
    for number, event in enumerate(made):
        people, sold = number // 50 + 1, 3 * (number // 50) + 3
        if event.kind == "bid":
            assert FIRST_ID <= event.fields["bidder"] < FIRST_ID + people + 10
            assert FIRST_ID + sold - 3 - 200 <= event.fields["auction"] < FIRST_ID + sold + 10
            assert 100 <= event.fields["price"] <= 100_000_000
        elif event.kind == "auction":
            assert FIRST_ID <= event.fields["seller"] < FIRST_ID + people + 10


def test_half_of_the_bids_go_to_hot_auctions_and_three_quarters_come_from_hot_bidders() -> None:
    bids = [event.fields for event in events(100_000, seed=2) if event.kind == "bid"]
    hot = sum((bid["auction"] - FIRST_ID) % 100 == 0 for bid in bids) / len(bids)
    hot_bidders = sum((bid["bidder"] - FIRST_ID) % 100 == 1 for bid in bids) / len(bids)
    assert hot == pytest.approx(0.5, abs=0.02)
    assert hot_bidders == pytest.approx(0.75, abs=0.02)


def test_the_same_seed_gives_the_same_and_another_does_not() -> None:
    for make in (
        lambda seed: [event.line() for event in events(200, seed=seed)],
        lambda seed: [reading.line() for reading in readings(Sensors(5), 200, seed=seed)],
        lambda seed: [flow.line() for flow in flows(5, 200, seed=seed)],
    ):
        assert make(1) == make(1)
        assert make(1) != make(2)


def test_times_follow_the_rate_and_are_late_by_no_more_than_asked() -> None:
    for made in (
        [event.time for event in events(1000, rate_per_s=100.0, late_s=2.0)],
        [reading.time for reading in readings(Sensors(50, per_key_per_s=2.0), 1000, late_s=2.0)],
        [flow.time for flow in flows(50, 1000, rate_per_s=100.0, late_s=2.0)],
    ):
        late = [START + timedelta(seconds=number / 100) - time for number, time in enumerate(made)]
        assert min(late) >= timedelta(0)
        assert timedelta(seconds=1.8) < max(late) <= timedelta(seconds=2)


def test_load_by_keys_and_by_rate() -> None:
    assert Sensors(keys=300).rate_per_s == 300
    same = Sensors.of_rate(6000, keys=300)
    assert (same.keys, same.per_key_per_s, same.rate_per_s) == (300, 20, 6000)
    counted = Counter(reading.sensor for reading in readings(Sensors(keys=30), 300))
    assert set(counted.values()) == {10}
    assert len(counted) == 30
    lanes = Counter((flow.measurement, flow.lane) for flow in flows(10, 10 * LANES * 4))
    assert set(lanes.values()) == {4}


def test_names_are_paths_in_a_tree() -> None:
    sensors = Sensors(keys=64, depth=3, fan_out=4)
    names = [sensors.name(number) for number in range(64)]
    assert len(set(names)) == 64
    assert all(name.startswith("plant/") and name.count("/") == 3 for name in names)
    groups = Counter(name.rsplit("/", 1)[0] for name in names)
    assert (len(groups), set(groups.values())) == (16, {4})
    assert json.loads(next(iter(readings(Sensors(2), 1))).line())["sensor"] == "s0"


@pytest.mark.parametrize(
    "make",
    [
        lambda: list(events(-1)),
        lambda: list(events(1, rate_per_s=0)),
        lambda: list(events(1, late_s=-1)),
        lambda: Sensors(0),
        lambda: Sensors(1, per_key_per_s=0),
        lambda: list(readings(Sensors(1), -1)),
        lambda: list(readings(Sensors(1), 1, late_s=-1)),
        lambda: list(flows(0, 1)),
        lambda: list(flows(1, 1, rate_per_s=0)),
    ],
)
def test_nonsense_is_refused(make: object) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        make()  # type: ignore[operator]
