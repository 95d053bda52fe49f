"""What a set of nodes sustains on Spark, by the batch-time model at the stage's freshness bound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fogmodels.throughput import ThroughputModel

from fogctl.agent.knowledge import Knowledge
from fogctl.agent.stagewise import StageView

FILL = 0.9
"""The stage runner aims this much below the freshness bound."""
LEAST_WORK = 0.25
"""Where the fixed cost of a batch alone exceeds the bound, the runner gives rows this part of it."""
_ROWS = 1000.0
_FARTHEST_OFF = 2.0
"""A model is corrected by what is seen at present, but by no more than this factor."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """The model of one stage, asked about sets of nodes and corrected by how the present set does."""

    model: ThroughputModel
    known: Knowledge
    partitions: int
    freshness_s: float
    correction: float = 1.0

    @classmethod
    def of(cls, stage: StageView, known: Knowledge, warm_up_s: float) -> Capacity | None:
        """Of a stage as it is now; None before its first batch was seen.

        What it does at this moment bounds what the model may say: while overloaded the processed rate is the
        MST of the present set (unless that is still warming up), otherwise it is no more than that MST.
        """
        model = stage.known.model("batch")
        if model is None or not stage.nodes:
            return None
        plain = cls(model, known, stage.known.facts.rounds, stage.known.facts.freshness_s)
        predicted = plain.rate(stage.nodes, stage.share)
        if predicted <= 0.0:
            return plain
        seen = stage.metrics.processed_rate / predicted
        low = 1.0 / _FARTHEST_OFF if overloaded(stage, warm_up_s) else 1.0
        correction = min(max(seen, low), _FARTHEST_OFF)
        return cls(model, known, plain.partitions, plain.freshness_s, correction)

    def rate(self, nodes: Sequence[str], share: float) -> float:
        """Records a second that replicas with this share on these nodes sustain; 0 for no node."""
        if not nodes:
            return 0.0
        where = (len(nodes), self.known.rtt_max_ms(nodes))
        # D is affine in the rows: a fixed time and a time for each row.
        one = self.model.batch_seconds(*where, _ROWS, self.partitions, share)
        two = self.model.batch_seconds(*where, 2 * _ROWS, self.partitions, share)
        per_row = (two - one) / _ROWS
        fixed = max(0.0, one - _ROWS * per_row)
        rows = max(FILL * self.freshness_s - fixed, LEAST_WORK * fixed) / per_row
        return self.correction * rows / (fixed + rows * per_row)


def overloaded(stage: StageView, warm_up_s: float) -> bool:
    """Whether the stage falls behind although its replicas are at full speed."""
    return stage.known.overloaded and stage.since_grown_s >= warm_up_s


def node_sets(stage: StageView, known: Knowledge, share: float) -> Iterator[tuple[str, ...]]:
    """Sets worth considering, smallest first: nodes the stage has before others, near before far.

    For each size the set that keeps what runs (farthest removed, nearest added) and, where it is another one,
    the set of the nearest nodes of all.
    """
    kept = known.nearest_first(stage.nodes)
    free = known.nearest_first(stage.free(share))
    nearest = known.nearest_first((*kept, *free))
    # The user's limit does not force a larger stage to shrink.
    most = min(len(nearest), max(stage.known.max_replicas, stage.replicas))
    for size in range(max(1, stage.known.min_replicas), most + 1):
        grown = (*kept[:size], *free[: max(0, size - len(kept))])
        yield grown
        if set(grown) != set(nearest[:size]):
            yield nearest[:size]
