"""A stage runner's answers over HTTP, to whoever has the token: where no socket file can be reached."""

from __future__ import annotations

import hmac
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATH = "/ask"
TOKEN_HEADER = "X-Fog-Token"
MOST_BYTES = 1 << 16
"""Of a request."""


def serve(
    address: str, port: int, token: str, answer: Callable[[dict[str, Any]], dict[str, Any]]
) -> ThreadingHTTPServer:
    """Answer requests from threads until shut down; OSError if the port is taken."""

    class Handler(BaseHTTPRequestHandler):
        timeout = 30

        def do_POST(self) -> None:
            given = self.headers.get(TOKEN_HEADER, "")
            if not hmac.compare_digest(given.encode(), token.encode()):
                self._reply(401, {"error": "the token is wrong"})
                return
            try:
                size = int(self.headers.get("Content-Length", "0"))
                request = json.loads(self.rfile.read(size)) if 0 < size <= MOST_BYTES else None
            except ValueError:
                request = None
            if self.path != PATH or not isinstance(request, dict):
                self._reply(400, {"error": f"not a request: POST {PATH} takes a JSON object"})
                return
            try:
                self._reply(200, answer(request))
            except (KeyError, TypeError, ValueError) as error:
                self._reply(400, {"error": f"{type(error).__name__}: {error}"})

        def _reply(self, status: int, body: dict[str, Any]) -> None:
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            """Several questions a second are no news."""

    server = ThreadingHTTPServer((address, port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="control", daemon=True).start()
    return server
