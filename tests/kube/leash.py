"""Programs that end with the test run, however it ends: they watch a pipe whose other end it holds."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

LEASH = {"FOGCTL_KUBE_LEASH": "1"}
"""Tells a program of tests/kube/server to end when its standard input does."""


class Leashed:
    """A program of ours that runs until it is ended or this process is gone; what it says is in a file."""

    def __init__(self, argv: Sequence[str], log: Path, environment: Mapping[str, str] = {}) -> None:
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment, **LEASH},
                start_new_session=True,  # a Ctrl-C for the tests is not meant for it
            )

    @property
    def pid(self) -> int:
        """Its process number."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def end(self) -> None:
        """End it now; returns when it is gone."""
        self._process.kill()
        self.wait()

    def let_go(self, timeout_s: float = 30) -> None:
        """Let it see the end of its input, as if this process had died; returns when it is gone."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self.wait(timeout_s)

    def wait(self, timeout_s: float = 30) -> int:
        """Its exit code, when it has ended."""
        code = self._process.wait(timeout_s)
        if self._process.stdin is not None:
            self._process.stdin.close()
        return code

    def complaint(self, lines: int = 15) -> str:
        """The end of what it said."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
