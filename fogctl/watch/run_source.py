"""A run watched through its folder alone: whoever writes it may live, die, or be done long ago."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from fogctl.experiment.folder import RunFolder
from fogctl.experiment.ideal import distances_by_node
from fogctl.watch.view import (
    HISTORY_S,
    AgentView,
    NodeView,
    ReplicaView,
    StageView,
    View,
    event_view,
    telling,
)


class RunSource:
    """Reads manifest, events and the rows of the part that is being run."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder

    def look(self) -> View:
        """The part that runs, or the last one that was run."""
        manifest = self._folder.manifest()
        part, live = _current(manifest), self._folder.in_use()
        rows = self._rows(part)
        at_s = max((row["at_s"] for row in rows), default=0.0)
        recent = [row for row in rows if row["at_s"] >= at_s - HISTORY_S]
        stages = _stages(manifest, recent)
        events = [e for e in self._folder.events() if part is not None and e.get("part") == part["key"]]
        trace_s = float((part or {}).get("trace_s") or 0.0)
        return View(
            title=_title(manifest, part),
            at=f"{at_s:.0f} s" + (f" of {trace_s:.0f} s" if trace_s else ""),
            nodes=_nodes(manifest, recent),
            stages=stages,
            agents=(_agent(manifest, part, live, events),) if part is not None else (),
            events=tuple(event_view(f"{float(e['at_s']):.0f} s", e) for e in telling(events)),
            notes=tuple(_notes(manifest, live, at_s)),
            progress=min(1.0, at_s / trace_s) if trace_s else None,
        )

    def _rows(self, part: Mapping[str, Any] | None) -> list[dict[str, Any]]:
        if part is None:
            return []
        lines = self._folder.path / "parts" / f"{part['key']}.jsonl"
        if lines.is_file():
            return _tail(lines)
        table = self._folder.metrics()
        mask = pc.and_(
            pc.equal(table["policy"], part["policy"]), pc.equal(table["repetition"], part["repetition"])
        )
        found: list[dict[str, Any]] = table.filter(mask).to_pylist()
        return found


def _tail(file: Path, most_bytes: int = 1 << 20) -> list[dict[str, Any]]:
    """The rows at the end of a growing file; a line that is cut short is passed over."""
    with file.open("rb") as stream:
        stream.seek(0, 2)
        stream.seek(max(0, stream.tell() - most_bytes))
        lines = stream.read().splitlines()
    rows = []
    for line in lines:
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def _current(manifest: Mapping[str, Any]) -> Mapping[str, Any] | None:
    parts: list[Mapping[str, Any]] = manifest["parts"]
    running = [part for part in parts if part["state"] in ("running", "failed")]
    done = [part for part in parts if part["state"] == "done"]
    return running[0] if running else done[-1] if done else None


def _title(manifest: Mapping[str, Any], part: Mapping[str, Any] | None) -> str:
    done = sum(entry["state"] == "done" for entry in manifest["parts"])
    whole = f"run {manifest['run']} ({manifest['kind']}), {done} of {len(manifest['parts'])} parts done"
    return whole if part is None else f"{whole}; {part['policy']}, repetition {part['repetition']}"


def _stages(manifest: Mapping[str, Any], rows: list[dict[str, Any]]) -> tuple[StageView, ...]:
    found = []
    for stage in manifest["stages"]:
        own = [row for row in rows if row["kind"] == "stage" and row["name"] == stage]
        if not own:
            continue
        last = own[-1]
        found.append(
            StageView(
                app=str(manifest["app"]),
                stage=str(stage),
                input_rate=last.get("offered_rate") or last.get("input_rate"),
                processed_rate=last.get("processed_rate"),
                lag=last.get("lag"),
                replicas=int(last.get("replicas") or 0),
                share=float(last.get("share") or 0.0),
                batch_ms=last.get("batch_ms"),
                rates=tuple(float(row.get("processed_rate") or 0.0) for row in own),
                lags=tuple(float(row.get("lag") or 0.0) for row in own),
            )
        )
    return tuple(found)


def _nodes(manifest: Mapping[str, Any], rows: list[dict[str, Any]]) -> tuple[NodeView, ...]:
    placed: dict[str, list[ReplicaView]] = {}
    used: dict[str, dict[str, Any]] = {}
    for stage in manifest["stages"]:
        own = [row for row in rows if row["kind"] == "stage" and row["name"] == stage]
        for node in str(own[-1].get("nodes") or "").split(",") if own else ():
            placed.setdefault(node, []).append(ReplicaView(stage, float(own[-1].get("share") or 0.0)))
    for row in rows:
        if row["kind"] == "node":
            used[row["name"]] = row
    far = distances_by_node(manifest) if manifest.get("network") else {}
    return tuple(
        NodeView(
            name=node["name"],
            role=node["role"],
            distance_ms=far.get(node["name"], 0.0),
            used_cores=used.get(node["name"], {}).get("used_cores"),
            quota_cores=node.get("cores"),
            replicas=tuple(placed.get(node["name"], ())),
        )
        for node in manifest["testbed"]["nodes"]
    )


def _agent(
    manifest: Mapping[str, Any], part: Mapping[str, Any], live: bool, events: list[dict[str, Any]]
) -> AgentView:
    decided = [e for e in events if e.get("what") == "decision"]
    when = f"last decision at {float(decided[-1]['at_s']):.0f} s" if decided else "no decision yet"
    state = "running" if live and part["state"] == "running" else "stopped"
    if not live and part["state"] == "running":
        state = "dead"
    return AgentView(str(manifest["app"]), str(part["policy"]), state, when)


def _notes(manifest: Mapping[str, Any], live: bool, at_s: float) -> list[str]:
    notes = []
    if manifest["state"] == "running" and not live:
        run = manifest["run"]
        notes.append(
            f"the run was killed after {at_s:.0f} s of this part: fogctl experiment run --resume {run}"
        )
    if manifest["state"] == "failed":
        notes.append("the run stopped before its end; what it measured is kept")
    if manifest["state"] == "done":
        notes.append("the run is done")
    return notes
