"""An injection: how many records, how fast, from how many processes; and what came of it."""

from __future__ import annotations

import contextlib
import functools
import itertools
import multiprocessing
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from fogctl.errors import FAILED, FogError
from fogctl.inject import senders
from fogctl.inject.senders import Library, Sender
from fogctl.runtime.kafka_config import KafkaConnection
from fogctl.runtime.sent_numbers import SentNumbers

TICK_S = 0.005
"""At a given rate, records go out in bundles this far apart."""
_BUNDLE = 1000
_LATE_S = 0.25
"""An injection that ends so much behind its schedule did not hold its rate."""
_MOSTLY = 0.2
"""A process that waited this share of its time for the broker was not what held things up."""


@dataclass(frozen=True, slots=True)
class Load:
    """What to inject. `rate_per_s` None: as fast as it goes."""

    records: int
    rate_per_s: float | None = None
    processes: int = 1
    library: Library = Library.kafka_python

    def __post_init__(self) -> None:
        if self.records < 1:
            raise ValueError(f"at least one record must be sent, not {self.records}")
        if self.rate_per_s is not None and not 0 < self.rate_per_s < float("inf"):
            raise ValueError(f"the rate must be above 0, not {self.rate_per_s}")
        if not 1 <= self.processes <= 64:
            raise ValueError(f"between 1 and 64 processes can send, not {self.processes}")

    def shares(self, first: int) -> list[tuple[int, int]]:
        """The numbers that each process sends, from start to stop - 1: equal but for one."""
        edges = [first + self.records * part // self.processes for part in range(self.processes + 1)]
        return list(itertools.pairwise(edges))


@dataclass(frozen=True, slots=True)
class Part:
    """What one process did."""

    sent: int
    wall_s: float
    """From its first record until the last one was acknowledged."""
    cpu_s: float
    blocked_s: float
    late_s: float
    """How far behind its schedule the last record was handed over."""
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Injected:
    """What an injection did."""

    records: int
    wall_s: float
    records_per_s: float
    cpu_us_per_record: float
    """CPU time of all sending processes for each record."""
    asked_per_s: float | None
    late_s: float
    limited_by: str | None
    """None: it held the rate asked for; else `broker` or `injector`: what could not go faster."""
    processes: int
    library: str

    @property
    def kept_up(self) -> bool:
        """Whether the rate asked for was held; flat out there is none."""
        return self.asked_per_s is None or self.limited_by is None


def summary(load: Load, parts: Sequence[Part]) -> Injected:
    """What the processes did together."""
    sent = sum(part.sent for part in parts)
    wall_s = max(part.wall_s for part in parts)
    late_s = max(part.late_s for part in parts)
    held = load.rate_per_s is not None and late_s <= _LATE_S
    blocked = sum(part.blocked_s for part in parts) / max(sum(part.wall_s for part in parts), 1e-9)
    return Injected(
        records=sent,
        wall_s=wall_s,
        records_per_s=sent / wall_s if wall_s > 0 else 0.0,
        cpu_us_per_record=1e6 * sum(part.cpu_s for part in parts) / max(sent, 1),
        asked_per_s=load.rate_per_s,
        late_s=late_s,
        limited_by=None if held else ("broker" if blocked > _MOSTLY else "injector"),
        processes=load.processes,
        library=load.library.value,
    )


def inject(
    load: Load,
    values: Sequence[bytes],
    connection: KafkaConnection,
    topic: str,
    numbers: SentNumbers,
    on_progress: Callable[[int], None] | None = None,
) -> Injected:
    """Send records with the values in turn, numbered from the next free number on.

    To be called where the broker can be reached: the processes are forked from here. Ctrl-C stops them; what
    they sent until then is acknowledged and counts.
    """
    first = numbers.reserve(load.records)
    context = multiprocessing.get_context("fork")
    counts = context.Array("q", load.processes, lock=False)
    stop = context.Event()
    workers = []
    make_sender = functools.partial(senders.sender, load.library, connection, topic)
    for place, (start, end) in enumerate(load.shares(first)):
        ours, theirs = context.Pipe(duplex=False)
        rate_per_s = None if load.rate_per_s is None else load.rate_per_s / load.processes
        share = Share(start, end, rate_per_s, values)
        progress = functools.partial(counts.__setitem__, place)
        process = context.Process(
            target=_worker, args=(share, make_sender, numbers, progress, stop.is_set, theirs), daemon=True
        )
        process.start()
        theirs.close()
        workers.append((process, ours))
    try:
        parts = _gather(workers, counts, stop, on_progress)
    finally:
        for process, _ in workers:
            process.join(timeout=1)
            if process.is_alive():
                process.kill()
    if failures := [part.failure for part in parts if part.failure]:
        raise FogError(
            f"not every record arrived: {failures[0]}",
            hint="what was acknowledged counts in the audit, the rest is in doubt",
            exit_code=FAILED,
        )
    return summary(load, parts)


@dataclass(frozen=True, slots=True)
class Share:
    """What one process has to send: the numbers from start to stop - 1, values in turn."""

    start: int
    stop: int
    rate_per_s: float | None
    values: Sequence[bytes]


def _gather(
    workers: Sequence[tuple[Any, Connection]],
    counts: Any,
    stop: Any,
    on_progress: Callable[[int], None] | None,
) -> list[Part]:
    """Wait for every process's answer; Ctrl-C asks them to stop and goes on waiting."""
    parts: list[Part] = []
    with _interruptible() as interrupted:
        for _, answer in workers:
            while not answer.poll(0.2):
                if interrupted():
                    stop.set()
                if on_progress is not None:
                    on_progress(sum(counts))
            try:
                parts.append(answer.recv())
            except EOFError:
                raise FogError("a sending process was killed", exit_code=FAILED) from None
    return parts


@contextlib.contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    """In the body Ctrl-C raises nothing, wherever it comes; what is yielded says whether it came."""
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield lambda: bool(came)
    finally:
        signal.signal(signal.SIGINT, before)


def _worker(
    share: Share,
    make_sender: Callable[[], Sender],
    numbers: SentNumbers,
    progress: Callable[[int], None],
    stopped: Callable[[], bool],
    answer: Connection,
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent says when to stop
    try:
        part = send_share(share, make_sender(), numbers, progress, stopped)
    except Exception as error:
        part = Part(0, 0.0, 0.0, 0.0, 0.0, failure=f"{type(error).__name__}: {error}")
    answer.send(part)
    answer.close()


def send_share(
    share: Share,
    sender: Sender,
    numbers: SentNumbers,
    progress: Callable[[int], None] = lambda _: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Part:
    """Send one process's records, on schedule if there is a rate; the schedule is absolute, never shifted."""
    numbers.taken(share.start, share.stop)
    began, cpu = time.monotonic(), time.process_time()
    number, rate, values, send = share.start, share.rate_per_s, share.values, sender.send
    while number < share.stop and not stopped():
        end = min(number + _BUNDLE, share.stop)
        if rate is not None:
            due = share.start + int((time.monotonic() - began) * rate) + 1
            if due <= number:
                time.sleep(TICK_S)
                continue
            end = min(end, due)
        for each in range(number, end):
            send(each, values[each % len(values)])
        number = end
        progress(number - share.start)
    sent = number - share.start
    late_s = 0.0
    if rate is not None and sent:
        late_s = max(0.0, time.monotonic() - began - (sent - 1) / rate)
    failure = sender.flush()
    sender.close()
    if failure is None:
        numbers.acknowledged(share.start, number)
        numbers.returned(number, share.stop)
    cpu_s = time.process_time() - cpu
    return Part(sent, time.monotonic() - began, cpu_s, sender.blocked_s, late_s, failure)
