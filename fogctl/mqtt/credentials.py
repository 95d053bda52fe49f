"""The passwords of a testbed's MQTT users: made once, kept where only root reads, never in an argument."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fogctl.errors import FogError
from fogctl.mqtt import mosquitto, topics


@dataclass(frozen=True, slots=True)
class Credentials:
    """The file that holds each user's password."""

    file: Path

    def password(self, user: str) -> str:
        """A user's password; FogError if there is no such user."""
        known = self._read()
        if user not in known:
            raise FogError(f"there is no MQTT user {user}", file=self.file, hint="fogctl mqtt up")
        return known[user]

    def users(self) -> list[str]:
        """Everybody who has a password."""
        return list(self._read())

    def ensure(self, users: Iterable[str], hashes: Path) -> bool:
        """Have a password for each, and Mosquitto's file of hashes beside it; True if that file changed."""
        known = self._read()
        lacking = [user for user in dict.fromkeys(users) if user not in known]
        if not lacking and hashes.exists():
            return False
        known |= {user: secrets.token_urlsafe(24) for user in lacking}
        write_private(self.file, json.dumps(known, indent=1))
        write_private(
            hashes, "".join(mosquitto.password_line(user, password) for user, password in known.items())
        )
        return True

    def _read(self) -> dict[str, str]:
        try:
            found: dict[str, str] = json.loads(self.file.read_text())
        except FileNotFoundError:
            return {}
        return found


def device_names(count: int) -> list[str]:
    """The names of so many devices: device-1, device-2, …"""
    return [topics.check_name(f"device-{number}") for number in range(1, count + 1)]


def write_private(file: Path, text: str) -> None:
    """Write a file in one piece that only its owner reads, from its first byte on."""
    fresh = file.with_name(f"{file.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)
    fresh.replace(file)
