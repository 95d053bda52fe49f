"""One line of a benchmark table: what was measured here, beside the target and the peer's figure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """A measured figure. `target` is the most it may be (the least, if `more_is_better`)."""

    what: str
    ours: float
    unit: str
    target: float | None = None
    peer: float | None = None
    peer_name: str = ""
    more_is_better: bool = False
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where there is none."""
        if self.target is None:
            return None
        return self.ours >= self.target if self.more_is_better else self.ours <= self.target

    @property
    def ratio(self) -> float | None:
        """How many times better than the peer; None where there is no peer."""
        if self.peer is None or not self.ours or not self.peer:
            return None
        return self.ours / self.peer if self.more_is_better else self.peer / self.ours
