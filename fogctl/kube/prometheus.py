"""A Prometheus for a testbed on a cluster: what it scrapes, as a job of this machine, and read back."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fogctl.errors import FAILED, FogError
from fogctl.kube.background import Job, Jobs
from fogctl.kube.credentials import write_private
from fogctl.kube.kubelet import GONE_AFTER_S, LONGEST_WINDOW_S, WANTED, NodeSeries, Point, series_of
from fogctl.kube.kubelet_link import Account, account_of
from fogctl.kube.nodes import node_states
from fogctl.kube.reader import described, pod_parts
from fogctl.kube.running import KubeRunning
from fogctl.metrics import place
from fogctl.metrics.prometheus import PrometheusReader
from fogctl.metrics.values import WINDOW_S, NodeMetrics, StageMetrics

EVERY_S: Final = 2
RETENTION: Final = "2d"
LOOKBACK: Final = "10s"
JOB: Final = place.PROMETHEUS_SERVICE
TARGETS: Final = "metrics.targets"
_PATIENCE_S: Final = 60.0


def settings(space: str, folder: Path, targets: str, verify: bool = True) -> dict[str, Any]:
    """Prometheus' settings: drivers through the API server's proxy, kubelets at their nodes. JSON is YAML.

    `targets` is where it learns which ones there are; `folder` holds the token and whom to trust.
    """
    secured = {
        "scheme": "https",
        "authorization": {"type": "Bearer", "credentials_file": str(folder / "token")},
        "tls_config": {"ca_file": str(folder / "ca.crt")} if verify else {"insecure_skip_verify": True},
    }

    def found_at(page: str) -> dict[str, Any]:
        return {"http_sd_configs": [{"url": f"{targets}/{page}", "refresh_interval": "5s"}]}

    return {
        "global": {"scrape_interval": f"{EVERY_S}s", "scrape_timeout": f"{EVERY_S}s"},
        "scrape_configs": [
            {"job_name": "fogctl-stages", **secured, **found_at("stages")},
            {
                "job_name": "fogctl-nodes",
                **secured,
                **found_at("nodes"),
                # A kubelet's page has thousands of numbers; these are the ones that are read.
                "metric_relabel_configs": [
                    {"action": "keep", "source_labels": ["__name__"], "regex": "|".join(WANTED)},
                    {"action": "keep", "source_labels": ["id", "namespace"], "regex": f"/;.*|.*;{space}"},
                    {"action": "labeldrop", "regex": "name|image"},
                ],
            },
        ],
    }


@dataclass(frozen=True, slots=True)
class ClusterPrometheus:
    """The Prometheus of one testbed, on loopback of this machine."""

    running: KubeRunning
    port: int = place.PROMETHEUS_PORT
    targets_port: int = place.NODES_PORT

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def folder(self) -> Path:
        """Where it keeps its settings and what it stored."""
        return place.folder(self.running.folder)

    def jobs(self) -> list[Job]:
        """What finds its targets, and itself; FogError if it is not installed."""
        program = shutil.which("prometheus")
        if program is None:
            raise FogError(
                "prometheus is not installed", hint="apt-get install prometheus", key="--prometheus"
            )
        state = self.running.folder
        finder = (sys.executable, "-P", "-m", "fogctl.kube.targets", state.name, str(state.parent))
        return [
            Job(TARGETS, (*finder, str(self.targets_port))),
            Job(
                JOB,
                (
                    program,
                    f"--config.file={self.folder / 'prometheus.yml'}",
                    f"--storage.tsdb.path={self.folder / 'prometheus'}",
                    f"--storage.tsdb.retention.time={RETENTION}",
                    f"--web.listen-address=127.0.0.1:{self.port}",
                    f"--query.lookback-delta={LOOKBACK}",
                    "--log.level=warn",
                ),
            ),
        ]

    def up(self) -> list[str]:
        """Have both run; answers the names of those that did not, or not with these settings."""
        wanted, known = self.jobs(), Jobs(self.running.folder)
        changed = self._write(account_of(self.running.access.kubeconfig))
        ports = {TARGETS: self.targets_port, JOB: self.port}
        missing = [
            job for job in wanted if changed or known.get(job.name) != job or known.pid(job.name) is None
        ]
        for job in missing:
            known.stop(job.name)
            self._require_port(ports[job.name])
        for job in missing:
            known.ensure(job)
        if missing:
            self._wait(known)
        return [job.name for job in missing]

    def down(self) -> list[str]:
        """Stop both; answers the names of those that ran. What was stored stays with the testbed."""
        known = Jobs(self.running.folder)
        there = [name for name in (JOB, TARGETS) if name in known.names()]
        for name in there:
            known.stop(name)
        return there

    def addresses(self) -> dict[str, str]:
        """Where it can be reached, if it should run."""
        return {JOB: self.url} if Jobs(self.running.folder).get(JOB) is not None else {}

    def _write(self, known: Account) -> bool:
        """Its settings and what it needs to be let in, for its owner only; whether anything changed."""
        self.folder.mkdir(parents=True, exist_ok=True)
        targets = f"http://127.0.0.1:{self.targets_port}"
        wanted = settings(self.running.namespace, self.folder, targets, known.verify)
        files = {
            "prometheus.yml": json.dumps(wanted, indent=1),
            "token": known.token,
            "ca.crt": known.authority or "",
        }
        changed = [name for name, text in files.items() if _text(self.folder / name) != text]
        for name in changed:
            write_private(self.folder / name, files[name])
        return bool(changed)

    def _require_port(self, port: int) -> None:
        import socket

        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                raise FogError(
                    f"port {port} of this machine is taken, so Prometheus cannot listen there",
                    hint="another testbed's Prometheus? fogctl metrics down ends it",
                    exit_code=FAILED,
                ) from None

    def _wait(self, jobs: Jobs) -> None:
        import urllib3

        pool = urllib3.PoolManager(retries=False)
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            try:
                if pool.request("GET", f"{self.url}/-/ready", timeout=1.0).status == 200:
                    return
            except urllib3.exceptions.HTTPError:
                time.sleep(0.1)
        log = jobs.log(JOB)
        self.down()
        said = (_text(log) or "").strip().splitlines()
        raise FogError(
            f"{JOB} did not come up: {said[-1][:300] if said else 'it said nothing'}",
            hint=f"its log: {log}",
            exit_code=FAILED,
        )


@dataclass(frozen=True, slots=True)
class ClusterPrometheusReader:
    """Metrics read back from a Prometheus that scrapes a cluster. Satisfies `fogctl.metrics.values.Reader`.

    Stages as on every testbed; nodes from what their kubelets said, in the same way as `KubeReader` does.
    """

    running: KubeRunning
    url: str
    window_s: float = WINDOW_S

    def stages(self, app: str) -> tuple[StageMetrics, ...]:
        """Every stage of an app that was scraped, by name."""
        return self._prometheus.stages(app)

    def nodes(self) -> tuple[NodeMetrics, ...]:
        """Every node that is ready and was scraped, by name."""
        seen: dict[str, NodeSeries] = {}
        for node, point in sorted(self._points(), key=lambda each: each[1].at_s):
            seen.setdefault(node, NodeSeries()).add([point])
        states, parts = node_states(self.running), pod_parts(self.running)
        return described(self.running, seen, states, parts, self.window_s)

    def _points(self) -> Iterator[tuple[str, Point]]:
        reach_s = min(LONGEST_WINDOW_S, self.window_s + GONE_AFTER_S)
        query = f'{{__name__=~"{"|".join(WANTED)}",testbed={json.dumps(self.running.testbed.name)}}}'
        for series in self._prometheus.ask(f"{query}[{reach_s:.0f}s]"):
            labels = series["metric"]
            known = series_of(labels["__name__"], labels, self.running.namespace)
            if known is not None:
                for at_s, value in series["values"]:
                    yield labels["node"], Point(known, float(at_s), float(value))

    @property
    def _prometheus(self) -> PrometheusReader:
        return PrometheusReader(self.url, matching={"testbed": self.running.testbed.name})


def _text(file: Path) -> str | None:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return None
