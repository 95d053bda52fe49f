"""The node exporter and Prometheus as services of a testbed: started, awaited, stopped."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from fogctl.errors import FAILED, FogError
from fogctl.metrics import place
from fogctl.runtime.control import ask
from fogctl.runtime.ports import require_free
from fogctl.runtime.service import Service, Services, alive
from fogctl.testbed import names
from fogctl.testbed.running import Running

READY_PATIENCE_S = 60.0
RETENTION = "2d"
LOOKBACK = "10s"
"""How old the newest number of a series may be."""


def node_exporter(running: Running) -> Service:
    """The node exporter as a service."""
    argv = (
        *(sys.executable, "-P", "-m", "fogctl.metrics.node_exporter"),
        *(running.testbed.name, str(running.state.folder.parent)),
    )
    return Service(place.NODES_SERVICE, place.control_node(running.testbed), argv)


def prometheus(running: Running) -> Service:
    """Prometheus as a service; FogError if it is not installed."""
    program = shutil.which("prometheus")
    if program is None:
        raise FogError("prometheus is not installed", hint="apt-get install prometheus", key="--prometheus")
    folder = place.folder(running.state.folder)
    argv = (
        program,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'prometheus'}",
        f"--storage.tsdb.retention.time={RETENTION}",
        f"--web.listen-address={place.control_address(running.testbed)}:{place.PROMETHEUS_PORT}",
        f"--query.lookback-delta={LOOKBACK}",
        "--log.level=warn",
    )
    return Service(place.PROMETHEUS_SERVICE, place.control_node(running.testbed), argv)


def prometheus_config(address: str, interval_s: int = 1) -> dict[str, Any]:
    """Prometheus' settings: the node exporter, and the stages that it names. JSON is YAML too."""
    nodes = f"{address}:{place.NODES_PORT}"
    return {
        "global": {"scrape_interval": f"{interval_s}s", "scrape_timeout": f"{interval_s}s"},
        "scrape_configs": [
            {"job_name": "fogctl-nodes", "static_configs": [{"targets": [nodes]}]},
            {
                "job_name": "fogctl-stages",
                "http_sd_configs": [{"url": f"http://{nodes}/targets", "refresh_interval": "2s"}],
            },
        ],
    }


class Measuring(Protocol):
    """What measures a testbed beside its stages, of whatever kind it is."""

    def steps(self, *, with_prometheus: bool) -> list[str]:
        """What `up` would start, in words."""
        ...

    def up(self, *, with_prometheus: bool) -> list[str]:
        """Have it run; answers the names of what did not."""
        ...

    def down(self) -> list[str]:
        """Stop it; answers the names of what ran. What was stored stays with the testbed."""
        ...

    def addresses(self) -> dict[str, str]:
        """Where what runs can be reached."""
        ...


@dataclass(frozen=True, slots=True)
class MetricServices:
    """What measures one running testbed."""

    running: Running
    services: Services

    def wanted(self, *, with_prometheus: bool) -> list[Service]:
        """The services asked for, in the order in which they start."""
        return [node_exporter(self.running), *([prometheus(self.running)] if with_prometheus else [])]

    def steps(self, *, with_prometheus: bool) -> list[str]:
        """What `up` would start, in words."""
        wanted = self.wanted(with_prometheus=with_prometheus)
        return [f"start {service.name} on {service.node}: {' '.join(service.argv)}" for service in wanted]

    def up(self, *, with_prometheus: bool) -> list[str]:
        """Have them run; answers the names of those that did not."""
        wanted = self.wanted(with_prometheus=with_prometheus)
        folder = place.folder(self.running.state.folder)
        folder.mkdir(parents=True, exist_ok=True)
        started = []
        for service in wanted:
            if self.services.get(service.name) == service and self.services.pid(service.name) is not None:
                continue
            if service.name == place.PROMETHEUS_SERVICE:
                settings = prometheus_config(self._address)
                (folder / "prometheus.yml").write_text(json.dumps(settings, indent=1))
            if self.services.pid(service.name) is None:
                self._require_port(service)
            pid = self.services.ensure(service)
            started.append(service.name)
            self._wait(service, pid)
        return started

    def down(self) -> list[str]:
        """Stop them; answers the names of those that ran. What Prometheus stored stays with the testbed."""
        known = [name for name in (place.PROMETHEUS_SERVICE, place.NODES_SERVICE) if self.services.get(name)]
        for name in known:
            self.services.stop(name)
        return known

    def addresses(self) -> dict[str, str]:
        """Where those that run can be reached, from inside the testbed's namespaces."""
        ports = {place.NODES_SERVICE: place.NODES_PORT, place.PROMETHEUS_SERVICE: place.PROMETHEUS_PORT}
        return {
            name: f"http://{self._address}:{port}"
            for name, port in ports.items()
            if self.services.get(name) is not None
        }

    @property
    def _address(self) -> str:
        return place.control_address(self.running.testbed)

    def _require_port(self, service: Service) -> None:
        port = place.NODES_PORT if service.name == place.NODES_SERVICE else place.PROMETHEUS_PORT
        require_free(self.running, service.node, self._address, port, service.name)

    def _wait(self, service: Service, pid: int) -> None:
        ready: Callable[[], bool] = (
            self._nodes_answer if service.name == place.NODES_SERVICE else self._prometheus_answers
        )
        deadline = time.monotonic() + READY_PATIENCE_S
        while time.monotonic() < deadline and alive(pid):
            if ready():
                return
            time.sleep(0.05)
        log = self.services.log(service.name)
        self.services.stop(service.name)
        raise FogError(
            f"{service.name} did not come up: {_last_line(log)}", hint=f"its log: {log}", exit_code=FAILED
        )

    def _nodes_answer(self) -> bool:
        try:
            ask(place.nodes_socket(self.running.state.folder), {"ask": "nodes"}, 1.0)
        except FogError:
            return False
        return True

    def _prometheus_answers(self) -> bool:
        import http.client

        from fognetem.linux import inside

        try:
            with inside(names.switch(self.running.testbed.name)):
                connection = http.client.HTTPConnection(self._address, place.PROMETHEUS_PORT, timeout=1)
                connection.request("GET", "/-/ready")
            answered = connection.getresponse().status == 200
            connection.close()
        except OSError:
            return False
        return answered


def _last_line(log: Path) -> str:
    try:
        lines: Sequence[str] = log.read_text(errors="replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1][:300] if lines else "it said nothing"
