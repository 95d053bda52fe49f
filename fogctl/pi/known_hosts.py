"""The SSH host keys that fogctl has seen: a file of its own in OpenSSH's format, for its owner only."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from fogctl.errors import REFUSED, FogError
from fogctl.testbed.model import SshHost


def default_file() -> Path:
    """$FOGCTL_KNOWN_HOSTS, or fogctl/known_hosts among the user's settings."""
    if chosen := os.environ.get("FOGCTL_KNOWN_HOSTS"):
        return Path(chosen).absolute()
    return settings_folder() / "known_hosts"


def settings_folder() -> Path:
    """Where fogctl keeps what belongs to a user and not to a testbed."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config").absolute() / "fogctl"


@dataclass(frozen=True, slots=True)
class HostKey:
    """A public host key, as a host shows it."""

    kind: str
    blob: str
    """base64, as in known_hosts."""

    @property
    def fingerprint(self) -> str:
        """As `ssh-keygen -l` shows it."""
        digest = hashlib.sha256(base64.b64decode(self.blob)).digest()
        return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


class Trust(StrEnum):
    """What a key is to us."""

    known = "known"
    new = "new"
    changed = "changed"


def name_of(host: SshHost) -> str:
    """A host as known_hosts names it."""
    return host.address if host.port == 22 else f"[{host.address}]:{host.port}"


@dataclass(frozen=True, slots=True)
class KnownHosts:
    """The file; read whenever it is asked, written in one piece."""

    file: Path

    def keys(self, host: SshHost) -> list[HostKey]:
        """The recorded keys of a host."""
        return [key for name, key in self._entries() if name == name_of(host)]

    def judge(self, host: SshHost, shown: HostKey) -> Trust:
        """Whether a host shows the key that is recorded for it."""
        recorded = self.keys(host)
        if not recorded:
            return Trust.new
        return Trust.known if shown in recorded else Trust.changed

    def record(self, found: Iterable[tuple[SshHost, HostKey]]) -> None:
        """Write keys down; what was recorded for these hosts before is forgotten."""
        fresh = [(name_of(host), key) for host, key in found]
        replaced = {name for name, _ in fresh}
        entries = [entry for entry in self._entries() if entry[0] not in replaced] + fresh
        text = "".join(f"{name} {key.kind} {key.blob}\n" for name, key in entries)
        self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        scratch = self.file.with_name(f".{self.file.name}.new")
        with os.fdopen(os.open(scratch, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w") as stream:
            stream.write(text)
        scratch.replace(self.file)

    def _entries(self) -> list[tuple[str, HostKey]]:
        if not self.file.exists():
            return []
        entries = []
        for number, line in enumerate(self.file.read_text(encoding="utf-8").splitlines(), start=1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if len(words) != 3:
                raise FogError(
                    "is not a line of host, key type and key",
                    file=self.file,
                    line=number,
                    hint="remove it, then run: fogctl pi trust",
                )
            entries.append((words[0], HostKey(words[1], words[2])))
        return entries


def changed_key(host: SshHost, recorded: Iterable[HostKey], shown: HostKey) -> FogError:
    """The refusal of a host that shows another key than before."""
    before = " or ".join(key.fingerprint for key in recorded)
    return FogError(
        f"{host.node} ({name_of(host)}) shows the SSH host key {shown.fingerprint}, but {before} "
        "was recorded: it was flashed again, or somebody is in between",
        hint=f"if you flashed it again: fogctl pi trust --replace {host.node}",
        exit_code=REFUSED,
    )
