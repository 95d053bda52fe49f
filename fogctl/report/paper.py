"""What the papers printed, to stand beside our figures: Gesscale's Table III, MEAD's Tables I and II."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Elastic:
    """A row of Table III of the Gesscale paper; time shares as fractions."""

    accuracy_o: float
    accuracy_u: float
    timeshare_o: float
    timeshare_u: float
    excess_time: float
    reconfigurations: int
    node_minutes: float


GESSCALE = {
    "thr-nlunaware": Elastic(1.636, 0.742, 0.5111, 0.3028, 0.163, 25, 1199.5),
    "thr-nlaware": Elastic(1.517, 0.640, 0.4667, 0.2299, 0.115, 19, 1193.75),
    "mdl-nlunaware": Elastic(1.713, 0.622, 0.6042, 0.2500, 0.126, 16, 1270.5),
    "gesscale": Elastic(0.838, 0.499, 0.4931, 0.2174, 0.042, 12, 999.5),
}
"""Model-based Stream Processing Auto-scaling in Geo-Distributed Environments, ICCCN 2021, Table III."""


@dataclass(frozen=True, slots=True)
class Response:
    """A row of MEAD's Table I (mean) or II (95th percentile); times in seconds, CPU in per cent."""

    trace: str
    model: str
    target_s: float
    response_s: float
    cpu_percent: float

    @property
    def met(self) -> bool:
        """Whether the target was met."""
        return self.response_s <= self.target_s


MEAD_MEAN = (
    Response("SYNT", "M/G/1", 0.1, 0.254, 46.4),
    Response("SYNT", "GI/G/1", 0.1, 0.177, 46.4),
    Response("SYNT", "MAP/G/1", 0.1, 0.056, 53.2),
    Response("SYNT", "M/G/1", 0.2, 0.393, 46.4),
    Response("SYNT", "GI/G/1", 0.2, 0.208, 46.4),
    Response("SYNT", "MAP/G/1", 0.2, 0.127, 50.2),
    Response("SYNT", "M/G/1", 0.3, 0.609, 46.5),
    Response("SYNT", "GI/G/1", 0.3, 0.263, 48.3),
    Response("SYNT", "MAP/G/1", 0.3, 0.142, 48.1),
    Response("BC", "M/G/1", 0.3, 0.906, 46.9),
    Response("BC", "GI/G/1", 0.3, 0.820, 47.0),
    Response("BC", "MAP/G/1", 0.3, 0.035, 55.8),
    Response("BC", "M/G/1", 0.5, 2.101, 46.8),
    Response("BC", "GI/G/1", 0.5, 1.194, 46.9),
    Response("BC", "MAP/G/1", 0.5, 0.158, 53.1),
    Response("BC", "M/G/1", 0.75, 2.800, 46.9),
    Response("BC", "GI/G/1", 0.75, 2.210, 46.8),
    Response("BC", "MAP/G/1", 0.75, 0.368, 50.3),
)
"""MEAD, Table I, without the Live Maps trace, which is not public."""

MEAD_P95 = (
    Response("SYNT", "M/G/1", 0.5, 1.478, 46.6),
    Response("SYNT", "MAP/G/1", 0.5, 0.371, 60.0),
    Response("SYNT", "M/G/1", 0.75, 1.184, 46.6),
    Response("SYNT", "MAP/G/1", 0.75, 0.590, 49.7),
    Response("BC", "M/G/1", 0.5, 3.871, 47.1),
    Response("BC", "MAP/G/1", 0.5, 0.195, 58.6),
    Response("BC", "M/G/1", 1.0, 3.711, 47.1),
    Response("BC", "MAP/G/1", 1.0, 0.274, 54.5),
)
"""MEAD, Table II, without the Live Maps trace."""

MEAD_POLICIES = ("mead", "mead-mg1", "mead-gig1", "threshold-vertical")
"""The policies that belong to MEAD's evaluation."""
