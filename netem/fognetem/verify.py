"""Whether the network is what the matrix says: measured against asked, pair by pair."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fognetem.backend import Backend, Kernel, UserSpace
from fognetem.endpoint import Endpoint
from fognetem.errors import NetemError
from fognetem.matrix import LatencyMatrix
from fognetem.measure import FRAME_BYTES, Measurement, Progress, Samples, measure
from fognetem.path import Path

_IMPLAUSIBLE = 1e-5
"""A number of losses less likely than this, if the asked loss held, counts as wrong."""
_TRIANGLE_QUARTILES = 2 * (1 - math.sqrt(0.5))
"""Distance between the quartiles of the sum of two equal uniform deviations, in units of the jitter."""


@dataclass(frozen=True, slots=True)
class PairResult:
    """One pair of nodes: what was asked, what was measured, and whether it is within the tolerance."""

    a: str
    b: str
    asked_ms: float
    measured_ms: float | None
    """Median round trip less the measurement's own cost; None if nothing came back."""
    error_ms: float | None
    allowed_ms: float
    """The tolerance, widened by what chance does to the median of a jittery path."""
    there_ms: float | None
    back_ms: float | None
    asked_jitter_ms: float
    jitter_ms: float | None
    asked_loss: float
    loss: float
    """Fraction of packets lost, over both directions."""
    sent: int
    answered: int
    ok: bool
    trouble: str | None
    """What is wrong, in a few words."""


@dataclass(frozen=True, slots=True)
class Verification:
    """The result for all pairs and the circumstances of the measurement."""

    ok: bool
    pairs: tuple[PairResult, ...]
    tolerance_ms: float
    baseline_ms: float
    busy: float
    stolen: float
    duration_s: float
    warning: str | None

    def sentence(self) -> str:
        """What to tell the user: the worst pair and how busy the host was, or that all is well."""
        if self.ok:
            errors = [abs(pair.error_ms) for pair in self.pairs if pair.error_ms is not None]
            if not errors:
                return "there is no pair to measure"
            widest_ms = max(pair.allowed_ms for pair in self.pairs)
            jittery = f" (± {widest_ms:.2g} ms with jitter)" if widest_ms > self.tolerance_ms else ""
            return (
                f"{_count(len(self.pairs))} within ± {self.tolerance_ms:g} ms{jittery}: "
                f"median error {statistics.median(errors):.2f} ms, largest {max(errors):.2f} ms"
            )
        bad = [pair for pair in self.pairs if not pair.ok]
        worst = max(bad, key=lambda pair: math.inf if pair.error_ms is None else abs(pair.error_ms))
        more = f" ({len(bad)} of {len(self.pairs)} pairs are off)" if len(bad) > 1 else ""
        hint = ": free a core or lower the shares" if self.busy > 0.9 else ""
        why = f" {self.warning}." if self.warning else ""
        if self.stolen > 0.02:
            why += f" A hypervisor took {self.stolen:.0%} of the CPU time."
        return f"{worst.a}–{worst.b} {worst.trouble}{more}. The host was {self.busy:.0%} busy{hint}.{why}"

    def measured(self) -> dict[tuple[str, str], float | None]:
        """The measured round trips by pair."""
        return {(pair.a, pair.b): pair.measured_ms for pair in self.pairs}

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        values = asdict(self)
        values["pairs"] = list(values["pairs"])
        return {**values, "sentence": self.sentence()}


def _count(pairs: int) -> str:
    return "the one pair is" if pairs == 1 else f"all {pairs} pairs are"


def verify(
    matrix: LatencyMatrix,
    where: Backend | Sequence[Endpoint],
    tolerance_ms: float = 2.0,
    probes: int | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Measure every pair both ways and compare with the matrix."""
    if not math.isfinite(tolerance_ms) or tolerance_ms <= 0:
        raise ValueError(f"the tolerance must be a positive number of ms, not {tolerance_ms}")
    if probes is not None and probes < 1:
        raise ValueError(f"there must be at least one probe a pair, not {probes}")
    endpoints = where.endpoints if isinstance(where, Kernel | UserSpace) else where
    known = {endpoint.node for endpoint in endpoints}
    if missing := [node for node in matrix.nodes if node not in known]:
        raise NetemError(f'node "{missing[0]}" of the latency matrix has no endpoint')
    chosen = probes or (20 if len(matrix.nodes) <= 20 else 10)
    return judge(matrix, measure(endpoints, matrix, chosen, progress), tolerance_ms)


def judge(matrix: LatencyMatrix, measurement: Measurement, tolerance_ms: float) -> Verification:
    """Compare what was measured with the matrix. Pure."""
    pairs = tuple(
        _pair(a, b, path, measurement.pairs[a, b], measurement.baseline_ms, tolerance_ms)
        for a, b, path in matrix.pairs()
    )
    return Verification(
        ok=all(pair.ok for pair in pairs),
        pairs=pairs,
        tolerance_ms=tolerance_ms,
        baseline_ms=measurement.baseline_ms,
        busy=measurement.busy,
        stolen=measurement.stolen,
        duration_s=measurement.duration_s,
        warning=measurement.warning,
    )


def _pair(a: str, b: str, path: Path, seen: Samples, baseline_ms: float, tolerance_ms: float) -> PairResult:
    measured = there = back = jitter = error = None
    # On a slow path the probe itself takes time to be sent, once in each direction.
    sending_ms = 2 * FRAME_BYTES * 8000 / path.rate_bit_s if path.rate_bit_s else 0.0
    answered = len(seen.round_trips)
    # Standard error of a median (1.25 σ/√n) of the sum of two uniform deviations (σ = jitter/√6), four times.
    allowed = tolerance_ms + (4 * 1.2533 * path.jitter_ms / math.sqrt(6 * answered) if answered else 0.0)
    if answered:
        measured = statistics.median(seen.round_trips) - baseline_ms - sending_ms
        there = statistics.median(seen.there) - (baseline_ms + sending_ms) / 2
        back = statistics.median(seen.back) - (baseline_ms + sending_ms) / 2
        error = measured - path.rtt_ms
        if answered >= 4:
            low, _, high = statistics.quantiles(seen.round_trips, n=4)
            jitter = (high - low) / _TRIANGLE_QUARTILES
    arrived = len(seen.there)
    tries = seen.sent + arrived
    lost = (seen.sent - arrived) + (arrived - answered)
    trouble = None
    if not answered and path.loss < 1:
        trouble = f"did not answer any of {seen.sent} probes, asked {path.rtt_ms:g} ms"
    elif error is not None and abs(error) > allowed:
        trouble = f"measured {measured:.1f} ms, asked {path.rtt_ms:g} ms ± {allowed:.3g} ms"
    elif there is not None and back is not None and abs(there - back) > 2 * allowed:
        trouble = f"is not symmetric: {there:.1f} ms there, {back:.1f} ms back"
    elif not plausible(lost, tries, path.loss):
        trouble = f"lost {lost} of {tries} packets, asked {path.loss * 100:g} %"
    return PairResult(
        a=a,
        b=b,
        asked_ms=path.rtt_ms,
        measured_ms=measured,
        error_ms=error,
        allowed_ms=allowed,
        there_ms=there,
        back_ms=back,
        asked_jitter_ms=path.jitter_ms,
        jitter_ms=jitter,
        asked_loss=path.loss,
        loss=lost / tries if tries else 0.0,
        sent=seen.sent,
        answered=answered,
        ok=trouble is None,
        trouble=trouble,
    )


def plausible(lost: int, tries: int, loss: float) -> bool:
    """Whether so many losses are believable if each packet is lost with that probability."""
    if loss in (0.0, 1.0):
        return lost == loss * tries

    def chance(count: int) -> float:
        log = math.lgamma(tries + 1) - math.lgamma(count + 1) - math.lgamma(tries - count + 1)
        return math.exp(log + count * math.log(loss) + (tries - count) * math.log1p(-loss))

    at_least = sum(chance(count) for count in range(lost, tries + 1))
    at_most = sum(chance(count) for count in range(lost + 1))
    return min(at_least, at_most) > _IMPLAUSIBLE
