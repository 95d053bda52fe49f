"""Makes the load of the task samples from a seed: so many sensors, so many readings a second of each."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta


@dataclass(frozen=True, slots=True)
class Sensors:
    """A load: `keys` sensors with `per_key_per_s` readings a second each, in a tree of `depth` levels.

    Theodolite's load grows with the number of sensors; `of_rate` grows the messages of the same sensors.
    """

    keys: int
    per_key_per_s: float = 1.0
    depth: int = 1
    fan_out: int = 4

    def __post_init__(self) -> None:
        if self.keys < 1 or self.depth < 1 or self.fan_out < 1:
            raise ValueError("keys, depth and fan_out are whole numbers of at least 1")
        if not 0 < self.per_key_per_s < math.inf:
            raise ValueError(f"per_key_per_s is a number above 0, not {self.per_key_per_s}")

    @classmethod
    def of_rate(cls, rate_per_s: float, keys: int, depth: int = 1) -> Sensors:
        """So many messages a second from that many sensors."""
        return cls(keys, rate_per_s / keys, depth)

    @property
    def rate_per_s(self) -> float:
        """Messages a second in all."""
        return self.keys * self.per_key_per_s

    def name(self, number: int) -> str:
        """A sensor's name, which is the path to it: the groups it is in, then its own."""
        groups = []
        rest = number
        for level in range(self.depth - 1):
            rest, place = divmod(rest, self.fan_out)
            groups.append(f"g{level}-{place}")
        return "/".join(("plant", *groups, f"s{number}")) if self.depth > 1 else f"s{number}"


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading."""

    sensor: str
    time: datetime
    value: float

    def line(self) -> str:
        """As JSON, which is what the apps read."""
        time = self.time.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"
        return json.dumps({"sensor": self.sensor, "time": time, "value": self.value}, separators=(",", ":"))


def readings(
    sensors: Sensors,
    count: int,
    seed: int = 1,
    start: datetime = datetime(2026, 5, 1, tzinfo=UTC),
    late_s: float = 0.0,
) -> Iterator[Reading]:
    """The first `count` readings in the order they are sent: the sensors in turn, evenly over time.

    A reading was taken up to `late_s` before it is sent. The same arguments always give the same readings.
    """
    if count < 0:
        raise ValueError(f"the number of readings is 0 or more, not {count}")
    if not 0 <= late_s < math.inf:
        raise ValueError(f"late_s is a number of at least 0, not {late_s}")
    rng = random.Random(seed)
    for number in range(count):
        late = rng.random() * late_s if late_s else 0.0
        time = start + timedelta(seconds=number / sensors.rate_per_s - late)
        value = round(100 + 40 * math.sin(number / 997) + rng.gauss(0, 5), 3)
        yield Reading(sensors.name(number % sensors.keys), time, value)
