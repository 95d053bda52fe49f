"""Where the agent keeps its state: a file written in one piece, so that kill -9 leaves the old or the new."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Protocol

from fogctl.agent.state import AgentState, from_json, to_json
from fogctl.errors import FAILED, FogError


class Store(Protocol):
    """Where state is kept."""

    def load(self) -> AgentState | None:
        """What was saved last; None if nothing was."""
        ...

    def save(self, state: AgentState) -> None:
        """Keep the state for good; FogError if that is not possible."""
        ...


class MemoryStore:
    """State in memory: for simulated runs and advice."""

    def __init__(self, state: AgentState | None = None) -> None:
        self.state = state

    def load(self) -> AgentState | None:
        """What was saved last."""
        return self.state

    def save(self, state: AgentState) -> None:
        """Keep the state."""
        self.state = state


class FileStore:
    """State in one JSON file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def load(self) -> AgentState | None:
        """What was saved last; a file that is no state is put aside under another name, and None answered."""
        try:
            text = self.file.read_text()
        except FileNotFoundError:
            return None
        try:
            return from_json(json.loads(text))
        except (ValueError, KeyError, TypeError, AttributeError):
            self.file.replace(self.file.with_suffix(".unreadable"))
            return None

    def save(self, state: AgentState) -> None:
        """Write the state to a new file, have it on the disk, and put it in the old one's place."""
        fresh = self.file.with_suffix(".new")
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with fresh.open("w") as file:
                json.dump(to_json(state), file)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self.file)
        except OSError as error:
            raise FogError(
                f"the agent cannot keep its state: {error.strerror}; nothing further is changed",
                file=self.file,
                hint="free some space and start the agent again",
                exit_code=FAILED,
            ) from error
