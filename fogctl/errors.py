"""The one exception that carries an expected failure from anywhere to the command line."""

from __future__ import annotations

from pathlib import Path

FAILED = 1
BAD_INPUT = 2
REFUSED = 3


class FogError(Exception):
    """An expected failure: what is wrong, where, and what to do next.

    The command line prints it as one sentence and exits with `exit_code`
    (1 failed, 2 bad usage or input, 3 refused because a check failed).
    Anything else that escapes is a bug and keeps its traceback.
    """

    def __init__(
        self,
        message: str,
        *,
        file: Path | str | None = None,
        line: int | None = None,
        key: str | None = None,
        hint: str | None = None,
        exit_code: int = BAD_INPUT,
    ) -> None:
        self.message = message
        self.file = None if file is None else str(file)
        self.line = line
        self.key = key
        self.hint = hint
        self.exit_code = exit_code
        super().__init__(str(self))

    def __str__(self) -> str:
        where = self.file or ""
        if self.file and self.line is not None:
            where += f":{self.line}"
        parts = [part for part in (where, self.key) if part]
        sentence = ": ".join([*parts, self.message])
        return f"{sentence} ({self.hint})" if self.hint else sentence


class ChangeInterruptedError(FogError):
    """Ctrl-C came while something was being changed, and what had been begun was undone."""


class LoadInterruptedError(FogError):
    """Ctrl-C came while an app was loaded; what was sent until then is acknowledged."""


class NoAnswerError(FogError):
    """Whoever should answer does not at the moment and may come back: an API server that restarts."""
