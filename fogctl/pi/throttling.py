"""What a Raspberry Pi says about its power supply and temperature (`vcgencmd get_throttled`). Pure."""

from __future__ import annotations

NOW = {
    0: "the supply voltage is too low",
    1: "the clock is capped",
    2: "it is throttled",
    3: "it is at its soft temperature limit",
}
SINCE_BOOT = {
    16: "the supply voltage was too low",
    17: "the clock was capped",
    18: "it was throttled",
    19: "it reached its soft temperature limit",
}


def now(bits: int) -> list[str]:
    """What is the case at this moment."""
    return [text for bit, text in NOW.items() if bits >> bit & 1]


def before(bits: int) -> list[str]:
    """What has happened since the board was started and is over."""
    return [text for bit, text in SINCE_BOOT.items() if bits >> bit & 1 and not bits >> (bit - 16) & 1]


def undervoltage(bits: int) -> bool:
    """Whether the supply is or was too weak."""
    return bool(bits & (1 << 0 | 1 << 16))
