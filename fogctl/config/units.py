"""Quantities with units as a user writes them (`80ms`, `1.5mbit`, `256MiB`, `60%`), as plain numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from fognetem.path import MAX_RTT_MS, MIN_RATE_BIT_S

_QUANTITY = re.compile(r"([+-]?)(\d+(?:\.\d*)?|\.\d+)(?:[eE]([+-]?\d{1,2}))?\s*([^\d\s].*)?")
_LONGEST = 40


@dataclass(frozen=True, slots=True)
class Unit:
    """A kind of quantity: what its units are worth, what it may be, and how to write one."""

    what: str
    factors: Mapping[str, Fraction]
    usual: str
    """The unit suggested when somebody forgot it."""
    example: str
    smallest: float = 0.0
    largest: float = math.inf
    case_matters: bool = False
    traps: Mapping[str, str] | None = None
    """Units that look right and are not, with the sentence that says so."""

    def parse(self, raw: object) -> float:
        """The quantity in this kind's base unit; ValueError says what is wrong and what to write."""
        text = _text(raw, self)
        match = _QUANTITY.fullmatch(text)
        if match is None:
            raise ValueError(f"{quoted(text)} is not a {self.what} (write for example {self.example})")
        sign, digits, exponent, unit = match.groups()
        if unit is None:
            raise ValueError(f"the unit is missing (did you mean {text}{self.usual}?)")
        if sign == "-":
            raise ValueError(f"{quoted(text)} is negative (write a {self.what} such as {self.example})")
        factor = self._factor(unit.strip(), text)
        value = float(Fraction(digits.rstrip(".")) * Fraction(10) ** int(exponent or 0) * factor)
        if not self.smallest <= value <= self.largest:
            raise ValueError(
                f"{quoted(text)} is out of range "
                f"(a {self.what} here is {self.show(self.smallest)} to {self.show(self.largest)})"
            )
        return value

    def show(self, value: float) -> str:
        """`value` in the largest unit that keeps it at least 1, with up to four digits."""
        if math.isinf(value):
            return "any"
        names = sorted(self._shown(), key=lambda name: self.factors[name])
        usual = [name for name in names if self.factors[name] <= value]
        name = usual[-1] if usual else (self.usual if value == 0 else names[0])
        return f"{value / float(self.factors[name]):.4g}{name}"

    def pattern(self) -> str:
        """A regular expression for JSON Schema, so that editors accept what `parse` accepts."""
        units = "|".join(re.escape(name) for name in sorted(self.factors, key=len, reverse=True))
        return rf"^\s*\+?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{{1,2}})?\s*({units})\s*$"

    def _shown(self) -> list[str]:
        best: dict[Fraction, str] = {}
        for name, factor in self.factors.items():
            best.setdefault(factor, name)
        return list(best.values())

    def _factor(self, unit: str, text: str) -> Fraction:
        for name, factor in self.factors.items():
            if unit == name or (not self.case_matters and unit.casefold() == name.casefold()):
                return factor
        trap = (self.traps or {}).get(unit.casefold())
        if trap is not None:
            raise ValueError(f"{quoted(text)}: {trap}")
        known = ", ".join(self._shown())
        raise ValueError(
            f"{quoted(text)} has the unknown unit {quoted(unit)} "
            f"(units of a {self.what}: {known}; for example {self.example})"
        )


def quoted(text: str) -> str:
    """`text` in double quotes on one line, shortened, with control characters escaped."""
    shown = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    return '"' + "".join(char if char.isprintable() else repr(char)[1:-1] for char in shown) + '"'


def _text(raw: object, unit: Unit) -> str:
    if isinstance(raw, bool) or not isinstance(raw, str | int | float):
        kind = (
            "nothing"
            if raw is None
            else {bool: "true/false", list: "a list", dict: "a mapping"}.get(type(raw), "")
        )
        raise ValueError(f"must be a {unit.what} such as {unit.example}, not {kind or quoted(str(raw))}")
    if isinstance(raw, float) and not math.isfinite(raw):
        raise ValueError(f"must be a finite {unit.what} (write for example {unit.example})")
    text = str(raw).strip() if isinstance(raw, str) else repr(raw)
    if text.lstrip("+-").lstrip(".").casefold() in ("nan", "inf", "infinity"):
        raise ValueError(
            f"must be a finite {unit.what}, not {quoted(text)} (write for example {unit.example})"
        )
    if not text:
        raise ValueError(f"is empty (write a {unit.what} such as {unit.example})")
    if len(text) > _LONGEST or not text.isascii():
        raise ValueError(f"{quoted(text)} is not a {unit.what} (write for example {unit.example})")
    return text


_MS = {
    "ms": Fraction(1),
    "s": Fraction(1000),
    "us": Fraction(1, 1000),
    "min": Fraction(60_000),
    "h": Fraction(3_600_000),
}
_DECIMAL_BITS = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
_BYTES_NOT_BITS = 'tc reads it as bytes, most people as bits (write bits, for example "100mbit")'

DELAY = Unit("time", _MS, "ms", "80ms", largest=MAX_RTT_MS)
"""Round-trip time, jitter, tolerance: milliseconds."""

INSTANT = Unit(
    "time", {name: factor / 1000 for name, factor in _MS.items()}, "s", "60s", largest=31_536_000.0
)
"""A moment after the start of a schedule: seconds, at most a year."""

RATE = Unit(
    "rate",
    {name + suffix: Fraction(factor) for suffix in ("", "/s") for name, factor in _DECIMAL_BITS.items()},
    "mbit",
    "1.5mbit",
    smallest=MIN_RATE_BIT_S,
    largest=1e12,
    traps=dict.fromkeys(("bps", "kbps", "mbps", "gbps"), _BYTES_NOT_BITS),
)
"""Bits per second, decimal prefixes as on network gear."""

SIZE = Unit(
    "size",
    {
        "MiB": Fraction(2**20),
        "GiB": Fraction(2**30),
        "KiB": Fraction(2**10),
        "TiB": Fraction(2**40),
        "B": Fraction(1),
        "kB": Fraction(10**3),
        "MB": Fraction(10**6),
        "GB": Fraction(10**9),
        "TB": Fraction(10**12),
    },
    "MiB",
    "256MiB",
    largest=float(2**50),
    traps={name: f'the unit is cut short (write "{name.upper()}iB")' for name in ("k", "m", "g", "t")},
)
"""Bytes; MiB is binary, MB decimal."""

PERCENT = Unit("percentage", {"%": Fraction(1, 100)}, "%", "60%", largest=1.0)
"""A fraction from 0 to 1."""

SHARE = Unit("percentage", {"%": Fraction(1, 100)}, "%", "60%", largest=1_000.0)
"""A share of one core: 150% is a core and a half."""

POWER = Unit(
    "power", {"W": Fraction(1), "mW": Fraction(1, 1000)}, "W", "3.5W", largest=1_000.0, case_matters=True
)
"""Watts."""

CLOCK = Unit(
    "frequency",
    {"MHz": Fraction(10**6), "GHz": Fraction(10**9)},
    "MHz",
    "1800MHz",
    smallest=1e6,
    largest=1e11,
)
"""Hertz."""
