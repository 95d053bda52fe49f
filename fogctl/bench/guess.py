"""Where a guided search begins: in proportion to the answer before, as if scaling were linear. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

Sustains = Callable[[float, float], bool]


class InProportion:
    """Watches experiments, and guesses the next answer from the one before: twice the load, twice the need.

    Demand: answers are resources, given loads. Capacity: answers are loads, given resources.
    """

    def __init__(self, sustains: Sustains, given: Sequence[float], *, demand: bool) -> None:
        self._sustains, self._demand = sustains, demand
        self._before = {after: before for before, after in pairwise(given)}
        self._votes: dict[tuple[float, float], list[bool]] = {}

    def sustains(self, load: float, resources: float) -> bool:
        """Make the experiment, and remember what came of it."""
        held = self._sustains(load, resources)
        key = (load, resources) if self._demand else (resources, load)
        self._votes.setdefault(key, []).append(held)
        return held

    def guess(self, value: float) -> float | None:
        """The answer expected there; None if the one before was beyond all that is tried."""
        before = self._before.get(value)
        if before is None:
            return 0.0 if self._demand else -1.0
        sustained = [key for key, votes in self._votes.items() if 2 * sum(votes) > len(votes)]
        if self._demand:
            found = [answer for at, answer in sustained if at == before]
            return min(found) * value / before if found else None
        # What fewer resources sustained, these do too.
        found = [answer for at, answer in sustained if at <= before]
        return max(found) * value / before if found else -1.0
