"""Add this node, raise the batch, or raise the share? Ranked by predicted gain per cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fogmodels.throughput import checks
from fogmodels.throughput.model import ThroughputModel

Action = Literal["raise share", "raise batch", "add node"]


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a stage runs with now; None means as in the model's latest sample."""

    replicas: int
    rtt_max_ms: float
    batch_rows: float | None = None
    partitions: int | None = None
    share: float | None = None


@dataclass(frozen=True, slots=True)
class Prices:
    """What an option costs, in one currency: a node occupied, a whole core used, a second of staleness."""

    node: float = 1.0
    core: float = 1.0
    staleness_s: float = 0.1

    def __post_init__(self) -> None:
        for name in ("node", "core", "staleness_s"):
            checks.real(name, getattr(self, name))


@dataclass(frozen=True, slots=True)
class Option:
    """One thing to do. `value`: the share, the rows or the node's name; `allowed`: it keeps the freshness."""

    action: Action
    value: float | str
    mst: float
    gain: float
    cost: float
    gain_per_cost: float
    allowed: bool
    reason: str


def compare_options(
    model: ThroughputModel,
    now: Configuration,
    *,
    shares: Sequence[float] = (),
    batches: Sequence[float] = (),
    nodes: Mapping[str, float] | None = None,
    prices: Prices | None = None,
    needed_rate: float | None = None,
    longest_batch_s: float | None = None,
) -> tuple[Option, ...]:
    """Every option with its predicted gain per cost and the reason, best first.

    `nodes` maps a free node to its round trip. Allowed options that gain come first, among them (if
    `needed_rate` is given) those that reach it; then by gain per cost. Ties keep the order shares,
    batches, nodes as given: what acts in place and at once before what takes seconds.
    """
    price = prices or Prices()
    if needed_rate is not None:
        checks.real("needed_rate", needed_rate)
    if longest_batch_s is not None:
        checks.real("longest_batch_s", longest_batch_s, above=0.0)
    latest = model.samples[-1]
    share = float(latest.share) if now.share is None else checks.real("share", now.share, above=0.0)
    before = _mst(model, now)
    options: list[Option] = []

    def consider(action: Action, value: float | str, then: Configuration, cost: float, why: str) -> None:
        mst = _mst(model, then)
        seconds = _seconds(model, then)
        late = longest_batch_s is not None and seconds is not None and seconds > longest_batch_s
        gain = mst - before
        reason = f"{why}: {before:.4g} -> {mst:.4g} rec/s"
        reason += f", a batch takes {seconds:.3g} s" if seconds is not None else ""
        if late:
            reason += f", longer than the {longest_batch_s:g} s allowed"
        elif gain <= 0.0:
            reason += ", no gain"
        elif needed_rate is not None:
            reason += f", {'reaches' if mst >= needed_rate else 'short of'} {needed_rate:g}"
        ratio = gain / cost if cost > 0.0 else math.copysign(math.inf, gain) if gain else 0.0
        options.append(Option(action, value, mst, gain, cost, ratio, not late, reason))

    for target in shares:
        checks.real("shares", target, above=0.0)
        then = Configuration(now.replicas, now.rtt_max_ms, now.batch_rows, now.partitions, target)
        cost = price.core * now.replicas * max(0.0, target - share)
        consider("raise share", target, then, cost, f"share {share:.0%} -> {target:.0%}")
    for rows in batches:
        checks.real("batches", rows, above=0.0)
        then = Configuration(now.replicas, now.rtt_max_ms, rows, now.partitions, now.share)
        old, new = _seconds(model, now), _seconds(model, then)
        cost = price.staleness_s * max(0.0, new - old) if old is not None and new is not None else 0.0
        consider("raise batch", rows, then, cost, f"batch of {rows:g} rows")
    for name, rtt in (nodes or {}).items():
        farthest = max(now.rtt_max_ms, checks.real(f"round trip of {name}", rtt))
        then = Configuration(now.replicas + 1, farthest, now.batch_rows, now.partitions, now.share)
        consider("add node", name, then, price.node + price.core * share, f"node {name} at {rtt:g} ms")

    def rank(option: Option) -> tuple[bool, bool, float]:
        useful = option.allowed and option.gain > 0.0
        reaches = needed_rate is None or option.mst >= needed_rate
        return not useful, not reaches, -option.gain_per_cost

    return tuple(sorted(options, key=rank))


def _mst(model: ThroughputModel, at: Configuration) -> float:
    return model.mst(at.replicas, at.rtt_max_ms, at.batch_rows, at.partitions, at.share)


def _seconds(model: ThroughputModel, at: Configuration) -> float | None:
    if model.form != "batch":
        return None
    return model.batch_seconds(at.replicas, at.rtt_max_ms, at.batch_rows, at.partitions, at.share)
