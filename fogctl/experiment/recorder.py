"""Looks at a part each second and writes what it sees: rows of metrics, events with their part and time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fogctl.agent.events import EventLog
from fogctl.agent.target import Target
from fogctl.errors import FAILED, FogError
from fogctl.experiment.experiment import Experiment, Part
from fogctl.experiment.metrics import Row, RowWriter
from fogctl.experiment.plant import Session
from fogctl.runtime.deployment import Deployment

NODES_EVERY_S = 5
"""Nodes and host are written every so many seconds: they matter less than stages and are many."""


class PartLog:
    """The event log of one part: times count from its start, and each line says whose it is.

    Appended without waiting for the disk: what a killed process wrote is kept by the kernel. `also` is told
    of each event as it was: the testbed's own log, for whoever watches that.
    """

    def __init__(
        self,
        file: Path,
        part: Part,
        attempt: int,
        app: str,
        target: Target | None = None,
        also: EventLog | None = None,
    ) -> None:
        self._file, self._part, self._attempt, self._app = file, part, attempt, app
        self._target, self._also = target, also
        self.start_s = 0.0
        """The target's time when the replay began."""

    def write(self, event: Mapping[str, Any]) -> None:
        """Append one event, here and where it is told to as well."""
        self.note(event)
        if self._also is not None:
            self._also.write(event)

    def note(self, event: Mapping[str, Any]) -> None:
        """Append one event here only."""
        line = {
            **event,
            "at_s": round(float(event["at_s"]) - self.start_s, 3),
            "part": self._part.key,
            "attempt": self._attempt,
        }
        if event.get("what") == "decision" and event.get("actions") and self._target is not None:
            there = self._target.deployment(self._app)
            line["direction"] = direction(event["actions"], there)
            line["removed"] = removed(event["actions"], there)
        append(self._file, line)


def append(file: Path, event: Mapping[str, Any]) -> None:
    """Append a line to an event log; FogError in one sentence if the disk does not take it."""
    try:
        with file.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(event, default=float) + "\n")
    except OSError as error:
        raise FogError(f"cannot be written: {error.strerror}", file=file, exit_code=FAILED) from None


def direction(actions: list[dict[str, Any]], now: Deployment) -> str:
    """Whether a plan adds replicas (out), removes some (in), moves them (move), or changes shares (share)."""
    before = after = 0
    moved = False
    for action in actions:
        if "scale" in action:
            have = now.stage(action["scale"]).nodes
            before, after = before + len(have), after + len(action["nodes"])
            moved = moved or set(have) != set(action["nodes"])
    if after != before:
        return "out" if after > before else "in"
    return "move" if moved else "share"


def removed(actions: list[dict[str, Any]], now: Deployment) -> int:
    """How many replicas a plan removes."""
    scales = [action for action in actions if "scale" in action]
    return sum(len(set(now.stage(scale["scale"]).nodes) - set(scale["nodes"])) for scale in scales)


class Recorder:
    """Writes the rows of one part; knows when everything has been processed."""

    def __init__(self, experiment: Experiment, part: Part, session: Session, writer: RowWriter) -> None:
        self._experiment, self._part, self._session, self._writer = experiment, part, session, writer
        self._app = experiment.app
        self._sources = {
            stage.name for stage in self._app.stages if set(stage.inputs) & set(self._app.sources)
        }
        facts = session.eyes.facts(self._app.name)
        self._quotas = {node.name: node.cpu_cores for node in facts.edge}
        self._origins = facts.origins
        self.start_s = session.eyes.now_s()
        self.finished_s: float | None = None
        """When nothing waited any more after the last record was sent, since the start."""

    @property
    def at_s(self) -> float:
        """Seconds since the start."""
        return self._session.eyes.now_s() - self.start_s

    def look(self, trace_s: float) -> None:
        """One second has passed."""
        at_s = self.at_s
        rows = self._stages(at_s)
        if int(at_s) % NODES_EVERY_S == 0:
            rows += self._nodes(at_s)
        busy = self._session.busy()
        if busy is not None:
            rows.append(Row(self._part.policy.label, self._part.repetition, at_s, "host", "host", busy=busy))
        self._writer.write(rows)
        if self.finished_s is None and at_s >= trace_s and self._session.drained():
            self.finished_s = at_s

    def keep_batches(self) -> None:
        """Write down every micro-batch: single ones tell more than the means of the looks."""
        label, repetition = self._part.policy.label, self._part.repetition
        for stage, batches in self._session.batches().items():
            self._writer.write(
                Row(
                    label,
                    repetition,
                    round(batch.ended_s - self.start_s, 3),
                    "batch",
                    stage,
                    batch_ms=round(1e3 * batch.duration_s, 3),
                    batch_rows=float(batch.rows),
                )
                for batch in batches
            )

    def _stages(self, at_s: float) -> list[Row]:
        target = self._session.eyes
        placed = target.deployment(self._app.name)
        seen = {metrics.stage: metrics for metrics in _answered(target.reader.stages, self._app.name)}
        rows = []
        for placement in placed.stages:
            metrics = seen.get(placement.stage)
            shares = [replica.share for replica in placement.replicas]
            quotas = [self._quotas.get(replica.node) for replica in placement.replicas]
            known = [quota for quota in quotas if quota is not None]
            offered = None
            if placement.stage in self._sources:
                offered = self._session.offered(int(at_s) - 1) if at_s >= 1 else self._session.offered(0)
            rows.append(
                Row(
                    policy=self._part.policy.label,
                    repetition=self._part.repetition,
                    at_s=round(at_s, 3),
                    kind="stage",
                    name=placement.stage,
                    offered_rate=offered,
                    input_rate=None if metrics is None else metrics.input_rate,
                    processed_rate=None if metrics is None else metrics.processed_rate,
                    lag=None if metrics is None else float(metrics.lag),
                    replicas=len(shares),
                    executors=None if metrics is None else len(metrics.nodes),
                    share=sum(shares) / len(shares) if shares else 0.0,
                    cores=sum(s * q for s, q in zip(shares, known, strict=True))
                    if len(known) == len(shares)
                    else None,
                    nodes=",".join(placement.nodes),
                    rtt_max_ms=max(
                        (target.latencies.max_rtt_ms(self._origins, node) for node in placement.nodes),
                        default=0.0,
                    ),
                    batch_ms=None if metrics is None else metrics.batch_ms,
                    batch_rows=None if metrics is None else metrics.batch_rows,
                    busyness=None if metrics is None else metrics.busyness,
                )
            )
        return rows

    def _nodes(self, at_s: float) -> list[Row]:
        return [
            Row(
                policy=self._part.policy.label,
                repetition=self._part.repetition,
                at_s=round(at_s, 3),
                kind="node",
                name=node.node,
                used_cores=node.cpu_used_cores,
                quota_cores=node.cpu_quota_cores,
                memory_bytes=node.memory_bytes,
            )
            for node in _answered(self._session.eyes.reader.nodes)
        ]


def _answered(ask: Any, *about: str) -> Any:
    """What a reader says; nothing if it does not answer, which is no reason to stop looking."""
    try:
        return ask(*about)
    except FogError:
        return ()
