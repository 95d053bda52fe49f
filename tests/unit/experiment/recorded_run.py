"""Makes a run's folder from a small recorded story, for tests that read folders: no testbed is touched."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from fogctl.experiment import metrics
from fogctl.experiment.folder import RunFolder
from fogctl.experiment.metrics import Row

MST = (100.0, 190.0, 270.0)
NODES = ("cloud", "broker", "pi1", "pi2", "pi3")


def recorded(
    path: Path, policies: dict[str, int] | None = None, repetitions: int = 1, seconds: int = 120
) -> RunFolder:
    """A run in which each policy reacts to a day's curve so many seconds late; the sizes are exact."""
    folder = RunFolder(path)
    path.mkdir(parents=True)
    rows: list[Row] = []
    parts = []
    for label, late in (policies or {"slow": 20, "quick": 2}).items():
        for repetition in range(1, repetitions + 1):
            key = f"{label}.{repetition}"
            parts.append(_entry(key, label, repetition, seconds))
            rows += _rows(folder, key, label, repetition, late, seconds)
    lines = metrics.RowWriter(path / "all.jsonl")
    lines.write(rows)
    lines.close()
    metrics.save(metrics.read_lines(path / "all.jsonl"), folder.metrics_file)
    (path / "all.jsonl").unlink()
    folder.save_manifest(_manifest(path.name, parts))
    return folder


def demand(at_s: int, seconds: int) -> float:
    """Records a second of the story."""
    return 50.0 + 150.0 * (at_s > seconds / 3) * (at_s < 2 * seconds / 3)


def _needed(rate: float) -> int:
    return next((n for n, mst in enumerate(MST, 1) if mst >= rate), len(MST))


def _rows(folder: RunFolder, key: str, label: str, repetition: int, late: int, seconds: int) -> list[Row]:
    log = folder.log()
    rows = []
    lag, had = 0.0, 1
    for at_s in range(seconds + 10):
        rate = demand(at_s, seconds) if at_s < seconds else 0.0
        n = _needed(demand(max(0, at_s - late), seconds))
        if n != had:
            numbers = {"nearest.input_rate": rate, "nearest.replicas": float(n)}
            event = {"at_s": float(at_s), "part": key, "attempt": 1, "what": "decision", "app": "taxi"}
            direction = "out" if n > had else "in"
            event |= {"decision": at_s, "direction": direction, "changes": f"nearest on {n} nodes"}
            reason = f"{rate:.0f} records/s need {n} <replicas>"
            actions = [{"scale": "nearest", "nodes": list(NODES[2 : 2 + n]), "share": 1.0}]
            log.write({**event, "reason": reason, "actions": actions, "numbers": numbers})
            log.write({**event, "what": "applied", "seconds": 0.0})
            log.write({**event, "what": "observed", "stall_s": 1.5})
        had = n
        processed = min(MST[n - 1], rate + lag)
        lag = lag + rate - processed
        nodes = ",".join(NODES[2 : 2 + n])
        rows.append(
            Row(label, repetition, float(at_s), "stage", "nearest", rate, rate, processed, lag, n, 1.0,
                0.16 * n, nodes, 40.0 * n, 900.0, 100.0, 0.8)
        )  # fmt: skip
        for node in NODES[2:]:
            used = 0.12 if node in nodes else 0.01
            rows.append(Row(label, repetition, float(at_s), "node", node, used_cores=used, quota_cores=0.16))
        rows.append(Row(label, repetition, float(at_s), "host", "host", busy=0.5))
    uppers = [0.01 * 1.2**step for step in range(40)]
    counts = [100.0 * math.exp(-((step - 20) ** 2) / 40) for step in range(40)]
    told = {"at_s": float(seconds), "part": key, "attempt": 1, "what": "responses", "path": "nearest"}
    log.write({**told, "upper_s": uppers, "count": counts, "mean_s": 0.4, "p50_s": 0.38, "p95_s": 0.9})
    return rows


def _entry(key: str, label: str, repetition: int, seconds: int) -> dict[str, Any]:
    return {
        "key": key,
        "policy": label,
        "name": label,
        "repetition": repetition,
        "attempt": 1,
        "state": "done",
        "trace_s": float(seconds),
        "finished_s": seconds + 3.0,
        "audit": {"sent": 1000, "seen": 1000, "lost": 0, "duplicates": 2},
        "goal": {"mean_s": 0.5, "p95_s": 0.8},
        "replay": {"error_ms_p99": 3.0},
    }


def _manifest(name: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    rtts = [[abs(a - b) * 20.0 for b in range(len(NODES))] for a in range(len(NODES))]
    return {
        "format": 1,
        "run": name,
        "experiment": "story",
        "kind": "virtual",
        "state": "done",
        "began": "2026-05-01T10:00:00",
        "seed": 1,
        "app": "taxi",
        "stages": ["nearest"],
        "mst": {"nearest": list(MST)},
        "network": {
            "ok": True,
            "sentence": "10 pairs within ± 2 ms",
            "nodes": list(NODES),
            "asked_ms": rtts,
            "measured_ms": [[value * 1.01 for value in row] for row in rtts],
        },
        "tolerances": {"rtt_ms": 2.0, "host_busy": 0.95, "saturated": 0.05, "schedule_ms": 500.0},
        "parts": parts,
        "lost": [],
        "host": {"cores": 2, "machine": "x86_64"},
        "versions": {"fogctl": "0.1"},
        "config": "name: story\n",
        "command": "fogctl experiment run story",
    }
