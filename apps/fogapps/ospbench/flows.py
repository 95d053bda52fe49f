"""Makes OSPBench's load from a seed: cars that passed the lanes of measuring points, a record a lane."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

LANES = 3
_ACCURACY = 99


@dataclass(frozen=True, slots=True)
class Flow:
    """How many cars passed a lane."""

    measurement: str
    lane: str
    time: datetime
    cars: int

    def line(self) -> str:
        """As JSON, which is what the app reads."""
        time = self.time.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"
        fields = {"measurement": self.measurement, "lane": self.lane, "time": time, "flow": self.cars}
        return json.dumps({**fields, "accuracy": _ACCURACY}, separators=(",", ":"))


def flows(
    points: int,
    count: int,
    seed: int = 1,
    rate_per_s: float | None = None,
    start: datetime = datetime(2026, 5, 1, tzinfo=UTC),
    late_s: float = 0.0,
) -> Iterator[Flow]:
    """The first `count` records of so many measuring points; every lane reports once a second unless a rate
    is given.

    A record is up to `late_s` older than when it is sent. The same arguments always give the same records.
    """
    if points < 1 or count < 0:
        raise ValueError("points is 1 or more, count 0 or more")
    rate = float(points * LANES) if rate_per_s is None else rate_per_s
    if not 0 < rate < math.inf or not 0 <= late_s < math.inf:
        raise ValueError("rate_per_s is a number above 0, late_s one of at least 0")
    rng = random.Random(seed)
    names = [f"GEO{number % 100:02}_P{number}" for number in range(points)]
    for number in range(count):
        late = rng.random() * late_s if late_s else 0.0
        time = start + timedelta(seconds=number / rate - late)
        point, lane = divmod(number % (points * LANES), LANES)
        yield Flow(names[point], f"lane{lane + 1}", time, rng.randrange(25))
