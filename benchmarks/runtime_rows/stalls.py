"""How long the output pauses while a stage is scaled out and in and its shares change, under load."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence

from benchmarks.row import Row
from benchmarks.runtime_rows.bed import Bed, Settings, bed

_RATE_PER_S = 40.0
_AFTERWARDS_S = 6.0
_SETTLING_S = 20.0
_APART_S = 2.0
"""Between two changes, so that what the second does to the output is not counted as the first's."""
_CPU_CORES = 0.5
"""Two such nodes and what runs beside them fit on two cores; on a slower node an ordinary batch takes longer
than a scale-in may."""
Window = tuple[float, float]


def rows(settings: Settings) -> Iterator[Row]:
    """The longest time without a result around each change, beside the ordinary time between batches."""
    times = 2 if settings.quick else 8  # with those at the far distances, twenty in all
    for rtt_ms in (5.0, 50.0) if settings.quick else (5.0, 50.0, 150.0, 300.0):
        with bed("taxi", 2, rtt_ms=rtt_ms, cpu_cores=_CPU_CORES) as here:
            yield from _at(here, rtt_ms, times if rtt_ms <= 50 else 2)


def _at(here: Bed, rtt_ms: float, times: int) -> Iterator[Row]:
    here.deploy(["pi1"])
    out: list[Window] = []
    back: list[Window] = []
    shares: list[Window] = []
    calls_ms: list[float] = []
    with here.load(_RATE_PER_S):
        time.sleep(_SETTLING_S)  # the first batches are no ordinary ones
        calm = _window(lambda: time.sleep(20 + rtt_ms / 10))
        for _ in range(times):
            out.append(_window(lambda: here.apps.scale("taxi", "nearest", ["pi1", "pi2"])))
            back.append(_window(lambda: here.apps.scale("taxi", "nearest", ["pi1"])))
        for share in (0.8, 1.0) * (times // 2):
            shares.append(_window(lambda share=share: here.apps.share("taxi", "nearest", share)))  # type: ignore[misc]
            calls_ms.append((shares[-1][1] - shares[-1][0] - _AFTERWARDS_S) * 1000)
    audit = here.audit(120)
    written = here.output_times()
    usual = longest_gap(written, *calm)
    near = rtt_ms <= 50
    where = f"at {rtt_ms:g} ms"
    note = f"{times} times; ordinary longest {usual:.1f} s"
    for name, windows, target in (
        ("scale-out", out, 5.0),
        ("scale-in", back, 1.0),
        ("share change", shares, None),
    ):
        gaps = [longest_gap(written, *window) for window in windows]
        beyond = f"median {statistics.median(gaps):.1f} s; {note}"
        yield Row(f"{name} {where}, worst gap", max(gaps), "s", target if near else None, note=beyond)
    # A share is changed without a stall: what is seen are ordinary batches.
    longest = max(longest_gap(written, *window) for window in shares)
    yield Row(
        f"share change {where}, beyond the ordinary gap",
        max(0.0, longest - usual),
        "s",
        0.05 if near else None,
    )
    yield Row(f"share in the kernel {where}", statistics.median(calls_ms), "ms", 50.0)
    yield Row(f"lost {where}", audit.lost, "records", 0, note=f"of {audit.sent}; {audit.duplicates} twice")


def _window(change: Callable[[], object]) -> Window:
    """From before a change until a while after it, in seconds of the clock."""
    time.sleep(_APART_S)
    began = time.time()
    change()
    time.sleep(_AFTERWARDS_S)
    return began, time.time()


def longest_gap(times_s: Sequence[float], begin_s: float, end_s: float) -> float:
    """The longest time without a result within a window; the last result before it counts."""
    before = [each for each in times_s if each <= begin_s][-1:]
    inside = [*before, *(each for each in times_s if begin_s < each <= end_s)]
    after = [each for each in times_s if each > end_s][:1]
    marks = [*inside, *after] if inside else [begin_s, end_s]
    return max((late - early for early, late in itertools.pairwise(marks)), default=end_s - begin_s)
