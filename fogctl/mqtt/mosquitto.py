"""Mosquitto as it has to be set up so that nothing is lost: configuration, users, rights. Pure.

What Mosquitto guarantees at QoS 1 (2.0.11, read in its source and measured): while the bridge is connected,
a message is written to the bridge's socket before the device gets its PUBACK, so a kill -9 of Mosquitto loses
nothing. While the bridge is away, messages wait in memory, and all of them are saved every other second and
when Mosquitto ends in order. A kill -9 then can lose what was acknowledged since: devices that cannot bear
that ask for confirmations. Saving at every change instead (`autosave_on_changes`) would leave a smaller gap,
not none, and rewrites the whole queue for each message, which kept it busy for minutes behind a long one.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

from fogctl.errors import FAILED, FogError

PORT = 1883
BRIDGE = "bridge"
"""The user the bridge is; no device can have this name."""
MOST_BYTES = 256 << 10
"""The largest payload: well below what Kafka takes in one record."""

_ITERATIONS = 101
_SALT_BYTES = 12


@dataclass(frozen=True, slots=True)
class MosquittoConfig:
    """One listener on one address, everybody known by name, every message kept until the bridge has it."""

    address: str
    folder: Path
    """Holds all files: passwords, rights, stored messages."""

    @property
    def passwords(self) -> Path:
        """The users and the hashes of their passwords."""
        return self.folder / "passwords"

    @property
    def rights(self) -> Path:
        """Who may read and write what."""
        return self.folder / "rights"

    @property
    def store(self) -> Path:
        """Where messages wait over a restart."""
        return self.folder / "store"

    @property
    def file(self) -> Path:
        """The configuration file itself."""
        return self.folder / "mosquitto.conf"

    def text(self) -> str:
        """The configuration file."""
        return "\n".join(
            (
                f"listener {PORT} {self.address}",
                "socket_domain ipv4",
                # It runs inside a node, like every service there; its files are readable by root only.
                "user root",
                "allow_anonymous false",
                f"password_file {self.passwords}",
                f"acl_file {self.rights}",
                f"message_size_limit {MOST_BYTES}",
                # Any limit here means that messages beyond it are acknowledged and then dropped.
                "max_queued_messages 0",
                "max_queued_bytes 0",
                # The bridge says itself how many it takes at once (receive maximum).
                "max_inflight_messages 0",
                "persistence true",
                f"persistence_location {self.store}/",
                "autosave_interval 1",
                "log_dest stderr",
                "log_type error",
                "log_type warning",
                "log_type notice",
                "connection_messages false",
                "",
            )
        )


def rights() -> str:
    """A device writes fog/APP/STREAM/ITSELF and reads its confirmations; the bridge reads what devices write.

    Patterns are for everybody, so the bridge is denied what its own name would allow it.
    """
    return "\n".join(
        (
            f"user {BRIDGE}",
            f"topic deny fog/+/+/{BRIDGE}",
            "topic read fog/#",
            "topic read $SYS/#",
            "topic write confirmed/#",
            "",
            "pattern write fog/+/+/%u",
            "pattern read confirmed/%u",
            "",
        )
    )


def password_line(user: str, password: str, salt: bytes | None = None) -> str:
    """A user in Mosquitto's password file: PBKDF2 with SHA-512, as mosquitto_passwd writes it.

    Made here because mosquitto_passwd takes passwords as arguments, which everybody can see.
    """
    salt = secrets.token_bytes(_SALT_BYTES) if salt is None else salt
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _ITERATIONS)
    return f"{user}:$7${_ITERATIONS}${_base64(salt)}${_base64(digest)}\n"


def find_mosquitto() -> Path:
    """The program; FogError with the command that installs it if there is none."""
    # Debian installs it where the PATH of an ordinary user does not look.
    found = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
    if found is None:
        raise FogError("Mosquitto is not installed", hint="sudo apt-get install mosquitto", exit_code=FAILED)
    return Path(found)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
