"""The same view in a browser: a small server on loopback, one page, and the view as JSON that it asks for."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from fogctl.errors import FAILED, FogError
from fogctl.watch.view import Source

_PAGE = Path(__file__).resolve().parent / "page.html"
_FRESH_S = 0.8
"""Several browsers share one look."""
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'"


class _Looks:
    """Looks on request, not more often than makes sense, one at a time."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._at = 0.0
        self._body = b"{}"

    def body(self) -> bytes:
        """The newest view as JSON; what went wrong, if nothing could be seen."""
        with self._lock:
            if time.monotonic() - self._at > _FRESH_S:
                try:
                    self._body = json.dumps(self._source.look().to_json()).encode()
                except FogError as error:
                    self._body = json.dumps({"error": str(error)}).encode()
                self._at = time.monotonic()
            return self._body


def server(source: Source, port: int = 0) -> ThreadingHTTPServer:
    """A server on loopback that serves the view; port 0 takes a free one."""
    looks = _Looks(source)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            # A page elsewhere could make a name of its own point to loopback: only our names are answered.
            name = (self.headers.get("Host") or "").rsplit(":", 1)[0]
            if name not in ("127.0.0.1", "localhost"):
                self.send_error(403, "this page answers to localhost only")
            elif self.path == "/":
                self._answer("text/html; charset=utf-8", _PAGE.read_bytes())
            elif self.path == "/view.json":
                self._answer("application/json", looks.body())
            else:
                self.send_error(404)

        def _answer(self, kind: str, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("Content-Security-Policy", _POLICY)
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Requests are not news."""

    try:
        return ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise FogError(
            f"port {port} of loopback cannot be used: {error.strerror}",
            hint="--port 0 takes a free one",
            exit_code=FAILED,
        ) from None
