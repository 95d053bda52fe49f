"""What each setting chosen for far replicas is worth: the shipped one beside the default it replaces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from benchmarks.row import Row
from benchmarks.runtime_rows.bed import Bed, Settings, bed
from benchmarks.runtime_rows.throughput import saturated, warm
from fogctl.runtime import app as apps
from fogctl.runtime.app import Stage

_NODES = ["pi1", "pi2"]
_CPU_CORES = 0.25
_WORK = "2000"
"""A tenth of what taxi does for a record: distance, not computing, is to decide."""
_FEW, _MANY = 1000, 8000
"""Records a batch; many are more than a default buffer holds."""


@dataclass(frozen=True, slots=True)
class _Variant:
    """A stage with one choice undone."""

    choice: str
    instead: str
    stage: Stage
    shipped: Stage
    """The same with the choice made."""
    batches: tuple[int, ...] = (_FEW,)


def rows(settings: Settings) -> Iterator[Row]:
    """Records a second at saturation on two far nodes, with and without each choice."""
    rtts = (300.0,) if settings.quick else (50.0, 150.0, 300.0)
    taxi = apps.load("taxi")
    usual = replace(taxi.stages[0], options=tuple({**dict(taxi.stages[0].options), "work": _WORK}.items()))
    variants = _variants(usual)
    known: dict[Stage, dict[tuple[float, int], float]] = {}
    with bed("taxi", len(_NODES), rtt_ms=5, cpu_cores=_CPU_CORES) as here:
        for variant in variants:
            batches = {size for each in variants if each.shipped == variant.shipped for size in each.batches}
            for stage, sizes in ((variant.shipped, batches), (variant.stage, set(variant.batches))):
                if stage not in known:
                    app = replace(taxi, name=f"taxi{len(known)}", stages=(stage,))
                    known[stage] = _rates(replace(here, app=app), rtts, sorted(sizes))
            for place, rate in known[variant.stage].items():
                rtt_ms, size = place
                yield Row(
                    f"{variant.choice}, at {rtt_ms:g} ms, batches of {size:,}",
                    known[variant.shipped][place],
                    "records/s",
                    peer=rate,
                    peer_name=variant.instead,
                    more_is_better=True,
                )


def _variants(usual: Stage) -> tuple[_Variant, ...]:
    many = replace(usual, partitions=24)
    kafka_s_own = (
        *(("fetch.max.wait.ms", "500"), ("max.poll.records", "500")),
        *(("max.partition.fetch.bytes", str(1 << 20)), ("receive.buffer.bytes", str(64 << 10))),
    )
    small_batches = (("batch.size", str(16 << 10)), ("send.buffer.bytes", str(128 << 10)))
    return (
        _Variant("4 slots a replica", "1 slot", replace(usual, slots=1, tasks=usual.partitions), usual),
        _Variant("results linger 50 ms", "0 ms", replace(usual, producer=(("linger.ms", "0"),)), usual),
        _Variant(
            "buffers of 256 KiB to 4 MiB",
            "Kafka's own",
            replace(usual, consumer=kafka_s_own, producer=small_batches),
            usual,
            (_FEW, _MANY),
        ),
        _Variant("24 partitions as 8 tasks", "24 tasks", replace(many, tasks=24), many),
        _Variant("8 partitions", "24 partitions, 24 tasks", replace(many, tasks=24), usual),
    )


def _rates(here: Bed, rtts: tuple[float, ...], sizes: list[int]) -> dict[tuple[float, int], float]:
    """Records a second for each distance and batch size, by executors that are warm."""
    here.set_rtts(dict.fromkeys(_NODES, 5.0))
    here.deploy(_NODES)
    warm(here, _FEW)
    found = {}
    for rtt_ms in rtts:
        here.set_rtts(dict.fromkeys(_NODES, rtt_ms))
        for size in sizes:
            found[rtt_ms, size] = saturated(here, size, 20)
    here.apps.remove(here.app.name)
    return found
