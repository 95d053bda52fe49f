"""What the simulator knows of a stage: how long batches take, how they vary, and what a change costs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fogmodels.throughput import ThroughputModel

from fogctl.runtime import batch_size

REFERENCE_MS = 100.0
"""At this round trip, theta changes nothing (as in `fogmodels.throughput`)."""


@dataclass(frozen=True, slots=True)
class Stalls:
    """Seconds that changes take (`_takes_s`) and for which no batch starts (`_s`). Measured on two cores."""

    registers_s: float = 9.0
    """From the wish for a replica to its registration, from which on it gets tasks: a JVM starts."""
    add_takes_s: float = 16.0
    """Until the change is done: it is warmed up and its CPU limited. 15 to 22 s were seen on a busy host."""
    out_s: float = 4.0
    """The gap in processing when a replica joins: 3 to 5 s were seen."""
    first_trips: float = 12.0
    """Round trips of its first batch beyond those of later ones: code, connections, metadata. So the gap is
    longer when the new one is far: 8 to 12 s were seen at 300 ms."""
    remove_takes_s: float = 3.0
    """Of each replica, one after the other."""
    in_s: float = 2.0
    """The gap when a replica is decommissioned: 1 to 4 s were seen."""
    lost_s: float = 3.6
    """The gap when a node is lost."""
    cut_s: float = 10.0
    """The same when only its link is cut: until timeouts notice."""
    first_s: float = 1.5
    """What the very first batch takes beyond others: 1 to 2 s were seen."""


@dataclass(frozen=True, slots=True)
class StageParameters:
    """A stage's batch time, in the batch form of `fogmodels.throughput`, and what belongs to it.

        D = driver + tau*m + N / (mu * speed * (P/m)^beta) + (k0 + k1*r) * ND * (ND / 100 ms)^(theta - 1)

    of the replica that takes longest: m of the P tasks are its own, r after one another, at a distance of ND.
    The defaults are the fit to 22 points measured on Spark with 20 % of a core a replica.
    """

    tau_s: float = 0.115
    """Start-up of a task."""
    mu_per_s: float = 134.0
    """Records a second of one replica with `reference_cores` at share 1."""
    beta: float = 0.944
    k0: float = 2.57
    """Round trips a batch."""
    k1: float = 1.90
    """Round trips a task."""
    theta: float = 1.25
    sigma: float = 1.0
    """Speed grows with the share to this power."""
    reference_cores: float = 0.2
    """The quota that mu was measured with."""
    noise: float = 0.044
    """Relative standard deviation of one batch's time."""
    startup_cpu: float = 0.9
    """How much of a task's start-up is spent computing (the rest is waiting): executors held to 0.16 of a
    core used 70 % of that at a fifth of the load they can bear."""
    start_sigma: float = 0.9
    """Start-up takes longer on less CPU, with speed to minus this power. The throughput model has no such
    term: parameters from a fitted model have 0."""
    cold: float = 1.0
    """A replica that begins takes so much longer for its work, as a part of the time that it takes when it is
    warm: its JVM compiles what it runs. Live rates doubled within 90 s."""
    warm_cpu_s: float = 4.0
    """CPU seconds of work after which 37 % of that is left, and after three times as many 5 %."""
    driver_s: float = 0.05
    """The driver's part of a batch (plan, offsets, commit): no executor has tasks then."""
    out_per_in: float = 1.0
    """Records written for each record read."""
    service_scv: float = 0.5
    """Squared coefficient of variation of the time a record takes in real-time mode (Erlang-2 in MEAD)."""
    stalls: Stalls = field(default_factory=Stalls)

    def __post_init__(self) -> None:
        for name in ("mu_per_s", "beta", "theta", "sigma", "reference_cores", "warm_cpu_s"):
            _check(name, getattr(self, name), above=True)
        for name in (
            "tau_s",
            "k0",
            "k1",
            "noise",
            "startup_cpu",
            "start_sigma",
            "cold",
            "driver_s",
            "out_per_in",
            "service_scv",
        ):
            _check(name, getattr(self, name), above=False)
        for entry in dataclasses.fields(self.stalls):
            _check(f"stalls.{entry.name}", getattr(self.stalls, entry.name), above=False)

    @classmethod
    def from_model(
        cls, model: ThroughputModel, reference_cores: float | None = None, **others: Any
    ) -> StageParameters:
        """The parameters of a fitted batch-form model; `others` are fields the model does not know."""
        if model.form != "batch":
            raise ValueError("the simulator needs a model of the batch form, not Gesscale's")
        p = model.parameters
        if reference_cores is not None:
            others["reference_cores"] = reference_cores
        return cls(
            tau_s=p["tau"],
            mu_per_s=p["mu"],
            beta=p["beta"],
            k0=p["k0"],
            k1=p["k1"],
            theta=p["theta"],
            sigma=p["sigma"],
            **{"noise": model.noise, "start_sigma": 0.0, **others},
        )

    def trip_s(self, rtt_ms: float) -> float:
        """What one round trip costs: short ones hide behind work, long ones cost more than themselves."""
        return math.pow(rtt_ms / REFERENCE_MS, self.theta) * (REFERENCE_MS / 1e3)

    def wait_s(self, tasks: int, rtt_ms: float, slots: int = 1) -> float:
        """Seconds that a replica with so many tasks of a batch waits for round trips."""
        return (self.k0 + self.k1 * -(-tasks // slots)) * self.trip_s(rtt_ms)

    def start_s(self, tasks: int, speed: float = 1.0) -> float:
        """Seconds that a replica's tasks take to start: what of it is computing takes longer on less CPU."""
        return self.tau_s * tasks * math.pow(speed, -self.start_sigma)

    def per_row_s(self, replicas: int, partitions: int, speed: float = 1.0) -> float:
        """Seconds that one more row adds to a batch, which waits for the busiest replica."""
        return self._row_s(-(-partitions // replicas), partitions, speed)

    def slowdown(self, cpu_s: float) -> float:
        """How many times longer the work of a replica takes that has worked for so many CPU seconds."""
        return 1.0 + self.cold * math.exp(-cpu_s / self.warm_cpu_s)

    def part(
        self,
        tasks: int,
        partitions: int,
        rtt_ms: float,
        speed: float = 1.0,
        slots: int = 1,
        slow: float = 1.0,
    ) -> tuple[float, float]:
        """What a replica with so many tasks of a batch takes: without rows, and for each row of the batch."""
        fixed_s = slow * self.start_s(tasks, speed) + self.wait_s(tasks, rtt_ms, slots)
        return fixed_s, slow * self._row_s(tasks, partitions, speed)

    def parts(
        self, replicas: int, partitions: int, rtt_ms: float, speed: float = 1.0, slots: int = 1
    ) -> tuple[tuple[float, float], ...]:
        """The parts that can be a batch's longest: those of near replicas, which get the tasks that are left
        over, and that of the farthest."""
        each, left_over = divmod(partitions, replicas)
        far = self.part(max(1, each), partitions, rtt_ms, speed, slots)
        return (self.part(each + 1, partitions, 0.0, speed, slots), far) if left_over and each else (far,)

    def batch_s(
        self, rows: float, replicas: int, partitions: int, rtt_ms: float, speed: float = 1.0, slots: int = 1
    ) -> float:
        """How long a batch takes, without noise: it waits for its last replica."""
        parts = self.parts(replicas, partitions, rtt_ms, speed, slots)
        return self.driver_s + max(fixed_s + rows * row_s for fixed_s, row_s in parts)

    def _row_s(self, tasks: int, partitions: int, speed: float) -> float:
        return 1.0 / (self.mu_per_s * speed * math.pow(partitions / tasks, self.beta))

    def max_rows(
        self,
        freshness_s: float,
        replicas: int,
        partitions: int,
        rtt_ms: float,
        speed: float = 1.0,
        slots: int = 1,
    ) -> int:
        """The largest batch that the freshness bound allows: where the live rule (`batch_size`) settles."""
        # The rule sees the median deviation of the batches, 0.67 of a standard deviation.
        rows = min(
            batch_size.room(freshness_s, self.driver_s + fixed_s, 0.67 * self.noise) / row_s
            for fixed_s, row_s in self.parts(replicas, partitions, rtt_ms, speed, slots)
        )
        return max(1, int(rows + 1e-9))

    def mst(
        self,
        replicas: int,
        rtt_max_ms: float,
        freshness_s: float,
        partitions: int,
        speed: float = 1.0,
        slots: int = 1,
    ) -> float:
        """Records a second sustained at the freshness bound."""
        rows = self.max_rows(freshness_s, replicas, partitions, rtt_max_ms, speed, slots)
        return rows / self.batch_s(rows, replicas, partitions, rtt_max_ms, speed, slots)


def to_json(parameters: StageParameters) -> dict[str, Any]:
    """Parameters as plain JSON values."""
    return dataclasses.asdict(parameters)


def from_json(data: Mapping[str, Any]) -> StageParameters:
    """The inverse of `to_json`."""
    return StageParameters(**{**data, "stalls": Stalls(**data.get("stalls", {}))})


def _check(name: str, value: float, *, above: bool) -> None:
    if not math.isfinite(value) or value < 0 or (above and value == 0):
        raise ValueError(f"{name} must be finite and {'above' if above else 'at least'} 0, not {value}")
