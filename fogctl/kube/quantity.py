"""Kubernetes' way to write amounts: `250m`, `1500Mi`, `2e3`. Pure."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

_FACTORS = {
    **{unit: Decimal(1024) ** power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
    **{unit: Decimal(1000) ** power for power, unit in enumerate(("k", "M", "G", "T", "P", "E"), 1)},
    "m": Decimal("0.001"),
    "u": Decimal("0.000001"),
    "n": Decimal("0.000000001"),
}


def parse(text: str) -> float:
    """The number that is meant; ValueError that names the text if it is none."""
    # Longest first: "Mi" ends as no shorter unit does. An exponent ("2e3") has no unit after it.
    unit = next((unit for unit in sorted(_FACTORS, key=len, reverse=True) if text.endswith(unit)), "")
    try:
        number = Decimal(text.removesuffix(unit))
    except InvalidOperation:
        raise ValueError(f"{text!r} is not an amount") from None
    if not number.is_finite() or any(sign.isspace() for sign in text):
        raise ValueError(f"{text!r} is not an amount")
    return float(number * _FACTORS.get(unit, Decimal(1)))


def milli_cores(cores: float) -> str:
    """CPU as Kubernetes writes it, to the thousandth of a core; never less than one."""
    return f"{max(1, round(cores * 1000))}m"
