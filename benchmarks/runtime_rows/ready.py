"""From nothing to a running app on 2, 4 and 8 nodes, and the memory its processes take."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.row import Row
from benchmarks.runtime_rows.bed import BROKER, CONTROL, Settings, bed


def rows(settings: Settings) -> Iterator[Row]:
    """Seconds until the app was ready, broker included; megabytes of each process."""
    sizes = (2,) if settings.quick else (2, 4, 8)
    for size in sizes:
        with bed("taxi", size) as here:
            took = here.deploy([f"pi{number}" for number in range(1, size + 1)])
            target = 60.0 if size == 8 else None
            yield Row(f"Kafka and Spark ready on {size} nodes", took, "s", target)
            if size != sizes[-1]:
                continue
            here.fill(2000)
            here.batches(10)
            replica = here.memory_mb("pi1")
            rss = sum(sizes[0] for sizes in replica.values())
            pss = sum(sizes[1] for sizes in replica.values())
            yield Row("RSS of a replica", rss, "MB", 400.0, note=", ".join(replica))
            yield Row("PSS of a replica", pss, "MB", 400.0, note=f"shared pages divided; {size} replicas")
            for kind, (own_rss, own_pss) in {
                **replica,
                **here.memory_mb(CONTROL),
                **here.memory_mb(BROKER),
            }.items():
                yield Row(f"RSS of a {kind}", own_rss, "MB", note=f"PSS {own_pss:.0f} MB")
