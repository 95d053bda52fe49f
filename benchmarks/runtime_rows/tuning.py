"""What each setting chosen for far replicas is worth: the shipped one beside the default it replaces."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.row import Row
from benchmarks.runtime_rows.bed import Bed, Settings, bed
from benchmarks.runtime_rows.throughput import saturated, warm
from fogctl.runtime import app_variant
from fogctl.runtime.app import App

_NODES = ["pi1", "pi2"]
_CPU_CORES = 0.25
_WORK = 2000
"""A tenth of what taxi does for a record: distance, not computing, is to decide."""
_FEW, _MANY = 1000, 8000
"""Records a batch; many are more than a default buffer holds."""
_BACKLOG = 30_000
_BUFFERS = {
    "consumer": {
        "fetch.max.wait.ms": 500,
        "max.poll.records": 500,
        "max.partition.fetch.bytes": 1 << 20,
        "receive.buffer.bytes": 64 << 10,
    },
    "producer": {"batch.size": 16 << 10, "send.buffer.bytes": 128 << 10},
}
"""Kafka's own."""

Place = tuple[float, int]
"""Round trip in ms, records a batch."""


@dataclass(frozen=True, slots=True)
class _Choice:
    """One choice, and a stage in which it is undone; keys as in app.yaml, on top of the shipped ones."""

    choice: str
    instead: str
    without: Mapping[str, Any]
    made: Mapping[str, Any] = field(default_factory=dict)
    batches: tuple[int, ...] = (_FEW,)


_CHOICES = (
    _Choice("4 slots a replica", "1 slot", {"slots": 1, "tasks": 8}),
    _Choice("results linger 50 ms", "0 ms", {"kafka": {"producer": {"linger.ms": 0}}}),
    _Choice("buffers of 256 KiB to 4 MiB", "Kafka's own", {"kafka": _BUFFERS}, batches=(_FEW, _MANY)),
    _Choice("24 partitions as 8 tasks", "24 tasks", {"partitions": 24, "tasks": 24}, {"partitions": 24}),
    _Choice("8 partitions", "24 partitions, 24 tasks", {"partitions": 24, "tasks": 24}),
)


def rows(settings: Settings) -> Iterator[Row]:
    """Records a second at saturation on two far nodes, with and without each choice."""
    rtts = (300.0,) if settings.quick else (50.0, 150.0, 300.0)
    known: dict[str, dict[Place, float]] = {}
    with tempfile.TemporaryDirectory() as folder, bed("taxi", len(_NODES), cpu_cores=_CPU_CORES) as here:
        for choice in _CHOICES:
            for changed in (choice.made, choice.without):
                if (key := repr(changed)) not in known:
                    app = _variant(here.app, Path(folder, f"taxi{len(known)}"), changed)
                    known[key] = _rates(replace(here, app=app), rtts, _batches(changed))
            for place in known[repr(choice.without)]:
                if place[1] not in choice.batches:
                    continue
                yield Row(
                    f"{choice.choice}, at {place[0]:g} ms, batches of {place[1]:,}",
                    known[repr(choice.made)][place],
                    "records/s",
                    peer=known[repr(choice.without)][place],
                    peer_name=choice.instead,
                    more_is_better=True,
                )


def _batches(changed: Mapping[str, Any]) -> list[int]:
    """The sizes that somebody wants to know of this stage."""
    mine = [choice for choice in _CHOICES if changed in (choice.made, choice.without)]
    return sorted({size for choice in mine for size in choice.batches})


def _variant(app: App, folder: Path, changed: Mapping[str, Any]) -> App:
    """The app with other keys in its stage, under the folder's name."""
    keys = {"options": {"work": _WORK}, **changed}
    return app_variant.write(app, folder, lambda stage: {**stage, **keys}, name=folder.name)


def _rates(here: Bed, rtts: Sequence[float], sizes: Sequence[int]) -> dict[Place, float]:
    """Records a second for each distance and batch size, by executors that are warm."""
    here.set_rtts(dict.fromkeys(_NODES, 5.0))
    here.deploy(_NODES)
    here.fill(_BACKLOG)
    warm(here, _FEW)
    found = {}
    for rtt_ms in rtts:
        here.set_rtts(dict.fromkeys(_NODES, rtt_ms))
        for size in sizes:
            found[rtt_ms, size] = saturated(here, size, 15)
    here.apps.remove(here.app.name)
    return found
