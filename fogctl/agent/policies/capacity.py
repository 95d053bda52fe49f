"""What a set of nodes sustains on Spark, by the batch-time model at the stage's freshness bound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fogmodels.throughput import ThroughputModel

from fogctl.agent.knowledge import Knowledge
from fogctl.agent.stagewise import StageView
from fogctl.runtime import batch_size

_ROWS = 1000.0
_TELLS = 0.6
"""Colder replicas than this tell little of warm ones: their very first batches take ten times as long."""
_WARM = 0.15
"""What replicas no colder than this do while overloaded is what they can do."""
_STEEP = 1.4
"""A rate that is expected to be so many times what it is rises steeply."""
_LONG = 10.0
_FARTHEST_OFF = 2.0
"""A model is corrected by what is seen at present, but by no more than this factor."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """The model of one stage, asked about sets of nodes and corrected by how the present set does.

    It foretells what replicas do once they are warm: a change lasts longer than their warming up, and who
    adds more because those just added are cold has too many soon. `slow` is how much longer things take now.
    """

    model: ThroughputModel
    known: Knowledge
    partitions: int
    freshness_s: float
    correction: float = 1.0
    slow: float = 1.0

    @classmethod
    def of(cls, stage: StageView, known: Knowledge, warm_up_s: float) -> Capacity | None:
        """Of a stage as it is now; None before its first batch was seen, or while all were cold ones.

        What it does at this moment bounds what the model may say: while overloaded the processed rate is the
        MST of the present set (unless that is still warming up), otherwise it is no more than that MST.
        """
        model = stage.known.model("batch")
        if model is None or not stage.nodes or only_cold(stage, warm_up_s):
            return None
        plain = cls(model, known, stage.known.facts.partitions, stage.known.facts.freshness_s)
        predicted = plain.rate(stage.nodes, stage.share)
        if predicted <= 0.0:
            return plain
        seen = stage.metrics.processed_rate / predicted
        low = 1.0 / _FARTHEST_OFF if overloaded(stage, warm_up_s) else 1.0
        correction = min(max(seen, low), _FARTHEST_OFF)
        # While overloaded, what is seen is what cold replicas do: the correction has it already.
        slow = 1.0 if correction < 1.0 else 1.0 + model.parameters["kappa"] * stage.known.cold
        return replace(plain, correction=correction, slow=slow)

    def rate(self, nodes: Sequence[str], share: float) -> float:
        """Records a second that replicas with this share on these nodes sustain; 0 for no node."""
        return self.rate_of(len(nodes), self.known.rtt_max_ms(nodes), share)

    def rate_now(self, nodes: Sequence[str], share: float) -> float:
        """The same while replicas are as cold as now: a share is for the moment, a replica for longer."""
        return self.rate(nodes, share) / self.slow

    def rate_of(self, replicas: int, rtt_max_ms: float, share: float) -> float:
        """The same for so many replicas, the farthest that far away."""
        if replicas == 0:
            return 0.0
        rate = sustained(self.model, replicas, rtt_max_ms, self.partitions, share, self.freshness_s)
        return self.correction * rate


def sustained(
    model: ThroughputModel,
    replicas: int,
    rtt_max_ms: float,
    partitions: int,
    share: float,
    freshness_s: float,
) -> float:
    """Records a second by a batch-time model, with batches as large as the stage runner makes them."""
    # D is affine in the rows: a fixed time and a time for each row.
    one = model.batch_seconds(replicas, rtt_max_ms, _ROWS, partitions, share)
    two = model.batch_seconds(replicas, rtt_max_ms, 2 * _ROWS, partitions, share)
    per_row = (two - one) / _ROWS
    fixed = max(0.0, one - _ROWS * per_row)
    room = batch_size.room(freshness_s, fixed)
    return room / per_row / (fixed + room)


def only_cold(stage: StageView, warm_up_s: float) -> bool:
    """Whether replicas have just begun and nothing was seen but their first batches."""
    seen = stage.known.batches
    cold = all(s.weight < 1.0 or s.cold > _TELLS for s in seen) if seen else stage.known.cold > _TELLS
    return cold and stage.since_grown_s < warm_up_s


def rises(stage: StageView) -> bool:
    """Whether the rate is expected to be far above what it is once a change could be mended by another."""
    return stage.known.sized_rate > _STEEP * stage.metrics.input_rate


def nothing_known(stage: StageView) -> str:
    """Why there is no capacity yet, in words."""
    if not stage.known.batches:
        return "no batch seen yet"
    return "only batches of replicas that are warming up seen yet"


def overloaded(stage: StageView, warm_up_s: float) -> bool:
    """Whether the stage falls behind although its replicas are warm: then the model is wrong."""
    # Meters may be wrong: replicas that are there for long are not cold, whatever they have worked.
    warm = stage.known.cold <= _WARM or stage.since_grown_s >= _LONG * warm_up_s
    return stage.known.overloaded and stage.since_grown_s >= warm_up_s and warm


def pressed(stage: StageView, part: float) -> bool:
    """Whether batches take that part of the freshness bound already, so that more load may be too much.

    A batch takes D = F + c·N, so D = F / (1 - c·rate) under a steady rate: far below the bound there is room
    whatever the model says, and a model of small batches says little about large ones.
    """
    at_full_share_ms = stage.metrics.batch_ms * stage.share
    return at_full_share_ms >= part * 1e3 * stage.known.facts.freshness_s


@dataclass(frozen=True, slots=True)
class NodeSet:
    """Some of a stage's own nodes and some free ones, nearest first each; or the nearest of all."""

    own: tuple[str, ...]
    free: tuple[str, ...]
    own_count: int
    free_count: int
    rtt_max_ms: float

    @property
    def size(self) -> int:
        """How many nodes."""
        return self.own_count + self.free_count

    @property
    def nodes(self) -> tuple[str, ...]:
        """Their names, those the stage has first."""
        return (*self.own[: self.own_count], *self.free[: self.free_count])


def node_sets(stage: StageView, known: Knowledge, share: float) -> Iterator[NodeSet]:
    """Sets worth considering, smallest first: nodes the stage has before others, near before far.

    For each size the set that keeps what runs (farthest removed, nearest added) and, where that is tighter,
    the set of the nearest nodes of all. Names are put together only for the set that is chosen.
    """
    own = known.nearest_first(stage.nodes)
    free = known.nearest_first(stage.free(share))
    far = {node: known.distance_ms(node) for node in (*own, *free)}
    near = known.nearest_first(far)
    mine = set(own)
    # The user's limit does not force a larger stage to shrink.
    most = min(len(near), max(stage.known.max_replicas, stage.replicas))
    stay = 0
    for size in range(1, most + 1):
        stay += near[size - 1] in mine
        kept = min(size, len(own))
        added = size - kept
        farthest = max(far[own[kept - 1]], far[free[added - 1]] if added else 0.0)
        if size < stage.known.min_replicas:
            continue
        yield NodeSet(own, free, kept, added, farthest)
        if far[near[size - 1]] < farthest:
            yield NodeSet(own, free, stay, size - stay, far[near[size - 1]])
