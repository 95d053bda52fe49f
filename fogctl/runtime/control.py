"""Asking a stage runner: one JSON line over the socket file it listens on."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from fogctl.errors import FAILED, FogError


def ask(path: Path, request: dict[str, Any], timeout_s: float = 5.0) -> dict[str, Any]:
    """Send a request and return the answer; FogError if nobody answers."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_s)
            connection.connect(str(path))
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile("rb") as lines:
                answer: dict[str, Any] = json.loads(lines.readline() or b"{}")
                return answer
    except (OSError, ValueError) as error:
        raise FogError(f"the stage runner at {path} does not answer: {error}", exit_code=FAILED) from error
