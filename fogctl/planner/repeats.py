"""Estimates of one question in a journal: go on with one that was stopped, or tell how far they differ."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fogctl.errors import FogError
from fogctl.planner.estimator import Estimate, RateSeen
from fogctl.planner.journal import Journal


@dataclass(frozen=True, slots=True)
class Repeats:
    """The estimates that were finished, and the trials of the one that is not."""

    journal: Journal
    finished: tuple[float, ...]
    """What each finished estimate found."""
    known: tuple[RateSeen, ...]
    """Trials of the one that was stopped; none if the next one is new."""

    @classmethod
    def open(cls, journal: Journal, asked: Mapping[str, Any]) -> Repeats:
        """Begin or go on; refused if the journal is of another question."""
        finished: list[float] = []
        known: list[RateSeen] = []
        for number, line in enumerate(journal.open_for(asked), start=2):
            try:
                if "mst" in line:
                    finished.append(float(line["mst"]))
                    known = []
                else:
                    known.append(RateSeen.read(line["trial"]))
            except (KeyError, TypeError, ValueError):
                raise FogError("is not a trial", file=journal.file, line=number) from None
        return cls(journal, tuple(finished), tuple(known))

    def note(self, trial: RateSeen) -> None:
        """A trial, on the disk when this returns."""
        self.journal.add({"trial": asdict(trial)})

    def finish(self, found: Estimate) -> tuple[float, ...]:
        """The estimate is done: all that were found, this one last."""
        self.journal.add({"mst": found.mst, "lower": found.lower, "upper": found.upper})
        return (*self.finished, found.mst)


def spread(found: Sequence[float]) -> float | None:
    """Greatest less least, over the median; None for fewer than two, or if half of them found nothing."""
    middle = statistics.median(found) if found else 0.0
    return (max(found) - min(found)) / middle if len(found) > 1 and middle > 0 else None
