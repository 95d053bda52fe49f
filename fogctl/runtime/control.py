"""Asking a process of a testbed, such as a stage runner: one JSON line over the socket file it listens on."""

from __future__ import annotations

import json
import os
import socket
import socketserver
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fognetem.control import short_name

from fogctl.errors import FAILED, FogError


def stage_socket(state: Path, app: str, stage: str) -> Path:
    """Where the runner of a stage answers, in a testbed's state folder."""
    return state / "apps" / app / stage / "runner.sock"


def ask(path: Path, request: dict[str, Any], timeout_s: float = 5.0) -> dict[str, Any]:
    """Send a request and return the answer; FogError if nobody answers."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_s)
            with short_name(path) as name:
                connection.connect(name)
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile("rb") as lines:
                answer: dict[str, Any] = json.loads(lines.readline() or b"{}")
                return answer
    except (OSError, ValueError) as error:
        raise FogError(f"the stage runner at {path} does not answer: {error}", exit_code=FAILED) from error


def serve(path: Path, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> socketserver.BaseServer:
    """Answer requests on a socket file that only its owner can open, from threads, until shut down."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            line = self.rfile.readline()
            if line:
                self.wfile.write(json.dumps(answer(json.loads(line))).encode() + b"\n")

    class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
        daemon_threads = True

    path.unlink(missing_ok=True)
    before = os.umask(0o177)
    try:
        with short_name(path) as name:
            server = Server(name, Handler)
    finally:
        os.umask(before)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
