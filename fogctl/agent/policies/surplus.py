"""When replicas to spare are worth a reconfiguration: once they have cost as much as it does (ski rental)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Surplus:
    """Node-seconds that a stage had to spare without a break, up to a moment. Kept in a policy's memory.

    Nobody knows how long a lull lasts. Who leaves as soon as waiting has cost what leaving costs never pays
    more than twice what a clairvoyant would; and load that varies does not make replicas come and go with it.
    """

    at_s: float
    node_seconds: float = 0.0

    @classmethod
    def remembered(cls, memory: Mapping[str, Any], key: str, at_s: float) -> Surplus:
        """What the policy remembers; none at first."""
        found = memory.get(key)
        return cls(at_s) if found is None else cls(*map(float, found))

    def after(self, at_s: float, spare: float) -> Surplus:
        """The same after so many were to spare since then; none to spare is a break."""
        if spare <= 0:
            return Surplus(at_s)
        return Surplus(at_s, self.node_seconds + spare * max(0.0, at_s - self.at_s))

    def to_memory(self) -> list[float]:
        """As JSON values."""
        return [self.at_s, self.node_seconds]
