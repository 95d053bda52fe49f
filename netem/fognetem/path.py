"""One path of the latency matrix: what lies between two nodes, validated when it is made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

MAX_RTT_MS = 3_600_000.0
MIN_RATE_BIT_S = 1_000.0


@dataclass(frozen=True, slots=True)
class Path:
    """What lies between two nodes. Half of the RTT and of the jitter goes on each direction."""

    rtt_ms: float = 0.0
    jitter_ms: float = 0.0
    """How far a round trip may be off either way; each direction varies uniformly by half of it."""
    loss: float = 0.0
    """Fraction of packets lost in each direction, 0 to 1."""
    rate_bit_s: float | None = None
    """Bits per second in each direction; None: not limited."""
    reorder: bool = False
    """Whether jitter may let a packet overtake another; by default order is kept."""

    def __post_init__(self) -> None:
        for name in ("rtt_ms", "jitter_ms", "loss"):
            object.__setattr__(self, name, _number(name, getattr(self, name)))
        if self.rate_bit_s is not None:
            object.__setattr__(self, "rate_bit_s", _number("rate_bit_s", self.rate_bit_s))
            if self.rate_bit_s < MIN_RATE_BIT_S:
                raise ValueError(f"rate_bit_s must be at least {MIN_RATE_BIT_S:g}, not {self.rate_bit_s:g}")
        if self.rtt_ms > MAX_RTT_MS:
            raise ValueError(f"rtt_ms must be at most {MAX_RTT_MS:g} (one hour), not {self.rtt_ms:g}")
        if self.jitter_ms > self.rtt_ms:
            raise ValueError(
                f"jitter_ms ({self.jitter_ms:g}) must not be larger than rtt_ms ({self.rtt_ms:g}): "
                "a packet cannot arrive before it was sent"
            )
        if self.loss > 1:
            raise ValueError(f"loss must be a fraction from 0 to 1, not {self.loss:g}")
        if not isinstance(self.reorder, bool):
            raise ValueError(f"reorder must be true or false, not {self.reorder!r}")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Path:
        """The inverse of `to_dict`; keys may be missing, none may be unknown."""
        known = {item.name for item in fields(cls)}
        if unknown := sorted(set(values) - known):
            raise ValueError(f'a path has no key "{unknown[0]}" (known: {", ".join(sorted(known))})')
        return cls(**values)

    def __str__(self) -> str:
        parts = [f"rtt {self.rtt_ms:g} ms"]
        if self.jitter_ms:
            parts.append(f"jitter {self.jitter_ms:g} ms" + (" with reordering" if self.reorder else ""))
        if self.loss:
            parts.append(f"loss {self.loss * 100:g} %")
        if self.rate_bit_s is not None:
            parts.append(f"rate {self.rate_bit_s / 1e6:g} Mbit/s")
        return ", ".join(parts)


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} must be a number, not {value!r}")
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{name} must be a finite number, zero or more, not {value!r}")
    return float(value) + 0.0  # + 0.0 turns -0.0 into 0.0


UNIMPAIRED = Path()
