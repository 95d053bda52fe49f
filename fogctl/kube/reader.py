"""Metrics of a testbed on a cluster, straight from its drivers and its nodes' kubelets."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from fogctl.errors import FogError, NoAnswerError
from fogctl.kube import names
from fogctl.kube.kubelet import REST, NodeSeries, before_first, node_metrics, of_page, rate_told
from fogctl.kube.kubelet_link import PAGE, SUMMARY, KubeletLink
from fogctl.kube.nodes import NodeState, node_states, usable_cores
from fogctl.kube.running import KubeRunning
from fogctl.metrics.values import WINDOW_S, NodeMetrics, StageMetrics, stage_from_json
from fogctl.runtime import fault_record

ASK_EVERY_S: Final = 2.0
"""Kubelets look at their node every ten seconds or so: asking them more often than this tells nothing new."""
YOUNG_S: Final = 20.0
"""How long a kubelet may need, after its start, until it has looked at its node twice."""
TIMEOUT_S: Final = 5.0
AT_A_TIME: Final = 8

Ask = Callable[[str, str, dict[str, Any], float], dict[str, Any]]
"""Asks the runner of a stage, as `Ground.ask` does."""


@dataclass(slots=True)
class KubeReader:
    """Asks every driver of an app, and the kubelet of every node. Satisfies `fogctl.metrics.values.Reader`.

    A stage whose driver does not answer is left out, and so is a node that is not ready or whose kubelet does
    not answer. The window of nodes reaches back to the reader's own earlier questions, `window_s` at most.
    """

    running: KubeRunning
    ask: Ask
    window_s: float = WINDOW_S
    troubles: dict[str, str] = field(default_factory=dict, repr=False)
    """By node that was left out at the last look: why, in a sentence."""
    _link: KubeletLink = field(init=False, repr=False)
    _seen: dict[str, NodeSeries] = field(default_factory=dict, repr=False)
    _asked_at: float | None = field(default=None, repr=False)
    _began: float = field(default_factory=time.monotonic, repr=False)
    _states: dict[str, NodeState] = field(default_factory=dict, repr=False)
    _parts: dict[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._link = KubeletLink(self.running.access.kubeconfig, TIMEOUT_S)

    def stages(self, app: str) -> tuple[StageMetrics, ...]:
        """Every stage of an app that answers, by name."""
        found = []
        for stage in sorted(_stages(self.running, app)):
            with contextlib.suppress(FogError):
                asked = {"ask": "metrics", "window_s": self.window_s}
                metrics = self.ask(app, stage, asked, TIMEOUT_S).get("metrics")
                if metrics is not None:
                    found.append(stage_from_json(metrics))
        return tuple(found)

    def nodes(self) -> tuple[NodeMetrics, ...]:
        """Every node that is ready and answers, by name; FogError if the cluster does not answer."""
        now = time.monotonic()
        if self._asked_at is None or now - self._asked_at >= ASK_EVERY_S:
            self._look()
            self._asked_at = time.monotonic()
        return described(self.running, self._seen, self._states, self._parts, self.window_s)

    def _look(self) -> None:
        self._states = node_states(self.running)
        self._parts = pod_parts(self.running)
        self.troubles = {
            name: f"node {name} is not ready: {state.why}"
            for name, state in self._states.items()
            if not state.ready
        }
        ready = [name for name, state in self._states.items() if state.ready]
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            pages = dict(zip(ready, pool.map(self._page, ready), strict=True))
            # A node that fell silent starts anew when it answers again: its counters may have, too.
            self._seen = {name: self._seen.get(name, NodeSeries()) for name in ready if pages[name]}
            first = [name for name, seen in self._seen.items() if seen.at_s is None]
            rates = dict(zip(first, pool.map(self._rate, first), strict=True))
        for name, seen in self._seen.items():
            points = list(of_page(pages[name] or "", self.running.namespace))
            if (cores := rates.get(name)) is not None:
                seen.add(before_first(points, cores))
            seen.add(points)

    def _page(self, node: str) -> str | None:
        """What a node's kubelet measured; None if it does not answer."""
        try:
            return self._link.get(self._states[node], PAGE)
        except NoAnswerError as error:
            self.troubles[node] = error.message
            return None

    def _rate(self, node: str) -> float | None:
        """What a node uses by its kubelet's own account; a young one is waited for at the very first look.

        None if it cannot tell yet, or does not: what the node uses is then known from the next look on.
        """
        while True:
            try:
                cores = rate_told(json.loads(self._link.get(self._states[node], SUMMARY)))
            except (NoAnswerError, ValueError):
                return None
            waited_s = time.monotonic() - self._began
            if cores is not None or self._asked_at is not None or waited_s > YOUNG_S:
                return cores
            time.sleep(0.5)


def described(
    running: KubeRunning,
    seen: Mapping[str, NodeSeries],
    states: Mapping[str, NodeState],
    parts: Mapping[str, str],
    window_s: float,
) -> tuple[NodeMetrics, ...]:
    """What was seen of each node that is ready, with what it may use by the cluster and by active faults."""
    faults = fault_record.read(running.folder)
    found = []
    for name in sorted(seen):
        state = states.get(name)
        if state is None or not state.ready:
            continue
        left = fault_record.node_share(faults, name)
        cores = usable_cores(running, state)
        quota = None if cores is None else cores * left
        metrics = node_metrics(name, seen[name], parts, window_s, quota, state.memory_bytes)
        if metrics is not None:
            found.append(metrics)
    return tuple(found)


def pod_parts(running: KubeRunning) -> dict[str, str]:
    """By pod of an executor: the part of its node that it is, `APP-STAGE`."""
    with running.access.sentences("looking at the executors"):
        found = running.access.request(
            "GET",
            f"/api/v1/namespaces/{running.namespace}/pods",
            query={"labelSelector": f"spark-role=executor,{names.APP},{names.STAGE}"},
        )
    called = {
        (names.label_value(app), names.label_value(stage)): f"{app}-{stage}"
        for app in deployed_apps(running)
        for stage in _stages(running, app)
    }
    labelled = ((pod["metadata"]["name"], pod["metadata"]["labels"]) for pod in found["items"])
    return {name: called.get((labels[names.APP], labels[names.STAGE]), REST) for name, labels in labelled}


def deployed_apps(running: KubeRunning) -> list[str]:
    """The apps that are deployed, by the records in the state folder."""
    return [file.parent.name for file in sorted((running.folder / "apps").glob("*/deployment.json"))]


def _stages(running: KubeRunning, app: str) -> list[str]:
    """The stages of a deployed app, by the record in the state folder."""
    try:
        deployed = json.loads((running.folder / "apps" / app / "deployment.json").read_text())
    except FileNotFoundError:
        return []
    return [stage["stage"] for stage in deployed["stages"]]
