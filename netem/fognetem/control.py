"""Talking to a running delay line, and finding its process again."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Any

from fognetem.errors import NetemError

PATIENCE_S = 5.0


def socket_path(run_dir: str) -> str:
    """The control socket; its path is also how the process is recognised."""
    return str(FilePath(run_dir, "delayline.sock"))


@contextlib.contextmanager
def short_name(path: str | FilePath) -> Iterator[str]:
    """Another name of a socket file, valid in the body: sockets take names of up to 107 bytes only."""
    folder = os.open(FilePath(path).parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{FilePath(path).name}"
    finally:
        os.close(folder)


def ask(run_dir: str, request: dict[str, Any], timeout_s: float = PATIENCE_S) -> dict[str, Any]:
    """One request, one answer. NetemError if no delay line answers or it refuses."""
    path = socket_path(run_dir)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as connection:
            connection.settimeout(timeout_s)
            with short_name(path) as name:
                connection.connect(name)
            connection.sendall(json.dumps(request).encode() + b"\n")
            received = bytearray()
            while not received.endswith(b"\n"):
                chunk = connection.recv(1 << 20)
                if not chunk:
                    break
                received.extend(chunk)
    except OSError as error:
        raise NetemError(f"the delay line at {path} does not answer ({error.strerror or error})") from None
    try:
        answer: dict[str, Any] = json.loads(received)
    except ValueError:
        raise NetemError(f"the delay line at {path} gave no whole answer") from None
    if not answer.get("ok"):
        raise NetemError(f"the delay line refused: {answer.get('error', 'no reason given')}")
    return answer


def find(run_dir: str) -> int | None:
    """The process id of the run_dir's delay line, by its exact argument; None if none runs."""
    wanted = socket_path(run_dir).encode()
    for entry in FilePath("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if wanted in arguments and b"fognetem.delayline" in arguments:
            return int(entry.name)
    return None


def end(run_dir: str) -> None:
    """End the run_dir's delay line, if one runs, and wait until it is gone."""
    deadline = time.monotonic() + PATIENCE_S
    while (pid := find(run_dir)) is not None:
        try:
            os.kill(pid, signal.SIGKILL)
            # Reap it if it is our own child; otherwise init does.
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            time.sleep(0.005)
        if time.monotonic() > deadline:
            raise NetemError(f"the delay line (process {pid}) does not end")
