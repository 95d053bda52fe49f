"""Nexmark's stream of an auction house, from a seed: of 50 events 1 new person, 3 auctions, 46 bids.

The standard generator's rules (Tucker et al.; Apache Beam's generator, whose constants these are): the kind
follows from the event's number, half of the bids go to a hot auction, three quarters come from a hot bidder,
three quarters of the auctions are a hot seller's; all other ids are drawn among those active. Names, prices
and texts are made up.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

Kind = Literal["person", "auction", "bid"]

PERSONS, AUCTIONS, BIDS = 1, 3, 46
ROUND = PERSONS + AUCTIONS + BIDS
FIRST_ID = 1000
_ACTIVE_PEOPLE, _AUCTIONS_IN_FLIGHT, _ID_LEAD = 1000, 100, 10
_HOT_AUCTIONS, _HOT_SELLERS, _HOT_BIDDERS, _HOT_EVERY = 2, 4, 4, 100
_FIRST = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
_LAST = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
_PLACES = (("Phoenix", "AZ"), ("Los Angeles", "CA"), ("Boise", "ID"), ("Portland", "OR"), ("Kent", "WA"))


@dataclass(frozen=True, slots=True)
class Event:
    """One event: its kind, when it happened, and its other fields."""

    kind: Kind
    time: datetime
    fields: dict[str, Any]

    def line(self) -> str:
        """As JSON, which is what the apps read."""
        time = self.time.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"
        return json.dumps({"type": self.kind, "time": time, **self.fields}, separators=(",", ":"))


def events(
    count: int,
    seed: int = 1,
    rate_per_s: float = 1000.0,
    start: datetime = datetime(2026, 5, 1, tzinfo=UTC),
    late_s: float = 0.0,
) -> Iterator[Event]:
    """The first `count` events, in the order they are sent; the same arguments always give the same ones.

    Event n happened n / `rate_per_s` seconds after `start`, or up to `late_s` earlier.
    """
    if count < 0:
        raise ValueError(f"the number of events is 0 or more, not {count}")
    if not 0 < rate_per_s < float("inf"):
        raise ValueError(f"rate_per_s is a number above 0, not {rate_per_s}")
    if not 0 <= late_s < float("inf"):
        raise ValueError(f"late_s is a number of at least 0, not {late_s}")
    rng = random.Random(seed)
    for number in range(count):
        late = rng.random() * late_s if late_s else 0.0
        time = start + timedelta(seconds=number / rate_per_s - late)
        place = number % ROUND
        if place < PERSONS:
            yield Event("person", time, _person(number, rng))
        elif place < PERSONS + AUCTIONS:
            yield Event("auction", time, _auction(number, time, rng))
        else:
            yield Event("bid", time, _bid(number, rng))


def _person(number: int, rng: random.Random) -> dict[str, Any]:
    city, state = rng.choice(_PLACES)
    name = f"{rng.choice(_FIRST)} {rng.choice(_LAST)}"
    return {
        "id": FIRST_ID + _last_person(number),
        "name": name,
        "email": f"{name.replace(' ', '.').lower()}@{rng.randrange(1000)}.example",
        "city": city,
        "state": state,
    }


def _auction(number: int, time: datetime, rng: random.Random) -> dict[str, Any]:
    hot = rng.randrange(_HOT_SELLERS) > 0
    seller = _last_person(number) // _HOT_EVERY * _HOT_EVERY if hot else _some_person(number, rng)
    first = _price(rng)
    return {
        "id": FIRST_ID + _last_auction(number),
        "item": f"item {rng.randrange(1000)}",
        "initial_bid": first,
        "reserve": first + _price(rng),
        "expires": (time + timedelta(seconds=rng.randrange(1, 20))).isoformat(timespec="milliseconds"),
        "seller": FIRST_ID + seller,
        "category": 10 + rng.randrange(5),
    }


def _bid(number: int, rng: random.Random) -> dict[str, Any]:
    last = _last_auction(number)
    if rng.randrange(_HOT_AUCTIONS) > 0:
        auction = last // _HOT_EVERY * _HOT_EVERY
    else:
        least = max(last - _AUCTIONS_IN_FLIGHT, 0)
        auction = least + rng.randrange(last - least + 1 + _ID_LEAD)
    hot = rng.randrange(_HOT_BIDDERS) > 0
    bidder = _last_person(number) // _HOT_EVERY * _HOT_EVERY + 1 if hot else _some_person(number, rng)
    return {"auction": FIRST_ID + auction, "bidder": FIRST_ID + bidder, "price": _price(rng)}


def _price(rng: random.Random) -> int:
    """In cents, evenly spread over six orders of magnitude."""
    return round(math.pow(10.0, 6 * rng.random()) * 100)


def _last_person(number: int) -> int:
    """The last person there is at that event, counted from 0."""
    return number // ROUND


def _last_auction(number: int) -> int:
    """The last auction there is at that event, counted from 0."""
    rounds, place = divmod(number, ROUND)
    if place < PERSONS:  # this round has none yet
        return max(0, rounds * AUCTIONS - 1)
    return rounds * AUCTIONS + min(place - PERSONS, AUCTIONS - 1)


def _some_person(number: int, rng: random.Random) -> int:
    """One who is active, or will be soon."""
    people = _last_person(number) + 1
    active = min(people, _ACTIVE_PEOPLE)
    return people - active + rng.randrange(active + _ID_LEAD)
