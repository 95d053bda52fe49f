"""What fognetem needs from a machine: netlink and commands in a network namespace."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from fognetem.errors import NetemError
from fognetem.linux import inside, namespace_path


class Host(Protocol):
    """The machine that steps are applied to. Remote machines can satisfy it too."""

    def netlink(self, namespace: str) -> AbstractContextManager[Any]:
        """A pyroute2 IPRoute in the namespace ("" is the caller's own)."""
        ...

    def run(self, namespace: str, argv: list[str], stdin: str = "") -> str:
        """Run a command in the namespace; its standard output. An exception with a sentence if it fails."""
        ...


class LocalHost:
    """This machine."""

    @contextlib.contextmanager
    def netlink(self, namespace: str) -> Iterator[Any]:
        """A pyroute2 IPRoute in the namespace."""
        from pyroute2 import IPRoute  # imported late: it is slow, and only the kernel backend needs it

        with inside(namespace):
            opened = IPRoute()
        try:
            yield opened
        finally:
            opened.close()

    def run(self, namespace: str, argv: list[str], stdin: str = "") -> str:
        """Run a command in the namespace; NetemError if it fails."""
        try:
            with inside(namespace):
                done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
        except FileNotFoundError as error:
            raise NetemError(f"{error.filename or argv[0]} is missing") from None
        if done.returncode:
            said = (done.stderr or done.stdout).strip() or f"exit {done.returncode}"
            raise NetemError(f"{' '.join(argv)}: {said}")
        return done.stdout


def namespace_exists(namespace: str) -> bool:
    """Whether the named network namespace is there."""
    return Path(namespace_path(namespace)).exists()
