"""Serving metrics over HTTP to whoever scrapes them, from a thread; no global registry."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.metrics_core import Metric


class _Collector:
    """What prometheus-client asks for the families of each scrape."""

    def __init__(self, families: Callable[[], Iterable[Metric]]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """The families of this moment."""
        return self._families()

    def describe(self) -> Iterable[Metric]:
        """Nothing in advance: names do not clash, there is one collector a registry."""
        return ()


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        """A scrape a second is no news."""


def serve(
    address: str,
    port: int,
    families: Callable[[], Iterable[Metric]],
    pages: Mapping[str, Callable[[], str]] | None = None,
) -> ThreadingWSGIServer:
    """Serve `/metrics`, and other pages as JSON, until the process ends; OSError if the port is taken."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(families))
    metrics = make_wsgi_app(registry)

    def application(environment: dict[str, Any], start: Any) -> Any:
        page = (pages or {}).get(environment.get("PATH_INFO", ""))
        if page is None:
            return metrics(environment, start)
        start("200 OK", [("Content-Type", "application/json")])
        return [page().encode()]

    server: ThreadingWSGIServer = make_server(
        address, port, application, server_class=ThreadingWSGIServer, handler_class=_Quiet
    )
    threading.Thread(target=server.serve_forever, name="exposition", daemon=True).start()
    return server
