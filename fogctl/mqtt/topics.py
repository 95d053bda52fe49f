"""Which MQTT topic belongs to which stream: what devices write, what the bridge makes of it. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fogctl.errors import FogError

EVERY_DEVICE = "fog/+/+/+"
"""What the bridge subscribes to: app, stream, device."""
NUMBER = "number"
"""The user property (MQTT 5) in which a device gives a record its number; it becomes the key in Kafka."""
REFUSED = "mqtt.refused"
"""The Kafka topic for messages that belong to no stream; the key is their MQTT topic."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True)
class DeviceTopic:
    """Where a device writes the readings of a stream: fog/APP/STREAM/DEVICE."""

    app: str
    stream: str
    device: str

    @property
    def mqtt(self) -> str:
        """The topic in MQTT."""
        return f"fog/{self.app}/{self.stream}/{self.device}"

    @property
    def kafka(self) -> str:
        """The topic in Kafka."""
        return f"{self.app}.{self.stream}"

    @classmethod
    def parse(cls, topic: str) -> DeviceTopic | None:
        """The inverse of `mqtt`; None for any other topic."""
        head, *rest = topic.split("/")
        if head != "fog" or len(rest) != 3 or not all(_NAME.fullmatch(level) for level in rest):
            return None
        return cls(*rest)


def confirmations(device: str) -> str:
    """Where the bridge tells a device which of its numbers Kafka has: numbers divided by spaces."""
    return f"confirmed/{device}"


def check_name(name: str, what: str = "device") -> str:
    """The name, if it can stand in a topic and be a user's name; else FogError."""
    if not _NAME.fullmatch(name):
        raise FogError(
            f'"{name}" cannot be the name of a {what}',
            hint="letters, digits, dots, dashes and underscores; up to 64, the first a letter or a digit",
        )
    return name
