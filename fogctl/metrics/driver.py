"""Inside a stage's driver: looking at Spark and at the topics once a second, and keeping the window."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from fogctl.metrics.batch import Batch, Offsets, committed_offsets, read_batch
from fogctl.metrics.stage import Executor, Identity, Look, stage_metrics
from fogctl.metrics.values import WINDOW_S, StageMetrics
from fogctl.runtime.executor_list import Known, live_executors
from fogctl.runtime.kafka_config import KafkaConnection

LOOK_EVERY_S = 1.0
LONGEST_WINDOW_S = 300.0
"""How much is kept, for whoever asks for more than the usual window."""


_MOST_TASKS = 1000


class Topics(Protocol):
    """How much a stage's topics hold."""

    def begins(self) -> Offsets:
        """The first offset of each partition; empty if the broker does not answer."""
        ...

    def ends(self) -> Offsets:
        """The next offset of each partition; empty if the broker does not answer."""
        ...


class Driver(Protocol):
    """The Spark side of a stage."""

    def executors(self) -> Mapping[str, Executor]:
        """The executors the driver has."""
        ...

    def in_batch(self) -> bool:
        """Whether a batch is running."""
        ...


class StageWindow:
    """The batches and looks of the last minutes, and the metrics over them. Threads may share it."""

    def __init__(self, who: Identity, begin: Offsets) -> None:
        self._who = who
        self._begin = dict(begin)
        self._batches: deque[Batch] = deque()
        self._looks: deque[Look] = deque()
        self._lock = threading.Lock()

    def set_begin(self, begin: Offsets) -> None:
        """Where the query stands before its first batch, once that is known."""
        with self._lock:
            self._begin = {**begin, **self._begin}

    def add_batch(self, batch: Batch) -> None:
        """Keep a batch; what is too old to matter goes."""
        with self._lock:
            self._batches.append(batch)

    def add_look(self, look: Look) -> None:
        """Keep a look; what is too old to matter goes."""
        with self._lock:
            self._looks.append(look)
            oldest = look.at_s - LONGEST_WINDOW_S
            while self._looks[0].at_s < oldest:
                self._looks.popleft()
            # The newest batch with rows stays however old: an idle stage is known by it.
            keep = max((n for n, batch in enumerate(self._batches) if batch.rows), default=0)
            while keep > 0 and self._batches[0].ended_s < oldest:
                keep -= 1
                self._begin.update(self._batches.popleft().processed)

    def metrics(self, max_rows: int, window_s: float = WINDOW_S) -> StageMetrics | None:
        """The metrics over the window that ends with the newest look; None before the first."""
        with self._lock:
            batches, looks, begin = tuple(self._batches), tuple(self._looks), dict(self._begin)
        if not looks:
            return None
        return stage_metrics(self._who, batches, looks, begin=begin, max_rows=max_rows, window_s=window_s)


class StageObserver:
    """Looks at a stage once a second, in a thread of its own, until told to stop.

    What it found at its last look is what everybody is given, on the socket and over HTTP: two who ask
    between the same two looks get the same numbers.
    """

    def __init__(self, who: Identity, topics: Topics, checkpoint: Path, max_rows: Callable[[], int]) -> None:
        self.window = StageWindow(who, checkpoint_offsets(checkpoint) or {})
        self._topics = topics
        self._max_rows = max_rows
        self._newest: StageMetrics | None = None
        self._stop = threading.Event()

    def progress(self, event: Mapping[str, Any]) -> None:
        """A batch was processed."""
        self.window.add_batch(read_batch(event))

    def start(self, driver: Driver) -> None:
        """Begin to look."""
        threading.Thread(target=self._run, args=(driver,), name="metrics", daemon=True).start()

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()

    def metrics(self, window_s: float | None = None) -> StageMetrics | None:
        """What the last look gave; with a window of another length, computed anew."""
        if window_s is None or window_s == WINDOW_S:
            return self._newest
        return self.window.metrics(self._max_rows(), window_s)

    def _run(self, driver: Driver) -> None:
        known = False
        due = time.monotonic()
        while not self._stop.is_set():
            try:
                if not known and (begins := self._topics.begins()):
                    self.window.set_begin(begins)
                    known = True
                ends = self._topics.ends()
                self.window.add_look(Look(time.time(), driver.executors(), ends, driver.in_batch()))
                self._newest = self.window.metrics(self._max_rows())
            except Exception as error:
                # A driver that is going down, or a query that restarts: no reason to end the stage.
                if not self._stop.is_set():
                    print(f"metrics: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            due = max(due + LOOK_EVERY_S, time.monotonic())
            self._stop.wait(due - time.monotonic())


class KafkaTopics:
    """A stage's topics, asked of the broker through kafka-python.

    A question costs about 1 ms of CPU; through the driver's JVM it would be 50.
    """

    _TIMEOUT_MS = 1000

    def __init__(self, connection: KafkaConnection, topics: Sequence[str]) -> None:
        self._connection = connection
        self._names = topics
        self._consumer: Any = None

    def begins(self) -> Offsets:
        """The first offset of each partition; empty if the broker does not answer."""
        return self._ask("beginning_offsets")

    def ends(self) -> Offsets:
        """The next offset of each partition; empty if the broker does not answer."""
        return self._ask("end_offsets")

    def _ask(self, question: str) -> dict[str, int]:
        from kafka import KafkaConsumer, TopicPartition
        from kafka.errors import KafkaError

        try:
            if self._consumer is None:
                self._consumer = KafkaConsumer(
                    **self._connection.for_kafka_python(), enable_auto_commit=False
                )
            partitions = [
                TopicPartition(topic, number)
                for topic in self._names
                for number in sorted(self._consumer.partitions_for_topic(topic) or ())
            ]
            if not partitions:
                return {}
            found = getattr(self._consumer, question)(partitions, timeout_ms=self._TIMEOUT_MS)
            return {f"{where.topic}-{where.partition}": offset for where, offset in found.items()}
        except (KafkaError, OSError):
            return {}


class SparkDriver:
    """The status store of a driver, asked through py4j."""

    def __init__(self, session: Any, query: Callable[[], Any]) -> None:
        context = session.sparkContext
        self._context = context
        self._known: Known = {}
        self._store = context._jsc.sc().statusStore()
        jvm = context._jvm
        self._nothing = jvm.scala.Option.empty()
        self._running = jvm.java.util.ArrayList()
        self._running.add(jvm.org.apache.spark.status.api.v1.TaskStatus.RUNNING)
        self._query = query

    def executors(self) -> Mapping[str, Executor]:
        """The executors the driver has; tasks that run count with the time they took so far."""
        listed = live_executors(self._context, self._known)
        found = {each.id: Executor(each.node, each.slots, each.busy_ms / 1000) for each in listed}
        if any(each.active_tasks for each in listed):
            for name, run_s in self._running_s().items():
                if name in found:
                    found[name] = replace(found[name], run_s=found[name].run_s + run_s)
        return found

    def in_batch(self) -> bool:
        """Whether a batch is running."""
        query = self._query()
        return bool(query is not None and query.status["isTriggerActive"])

    def _running_s(self) -> dict[str, float]:
        """By executor, how long the tasks that run at this moment have run."""
        now_ms = time.time() * 1000
        found: dict[str, float] = {}
        stages = self._store.activeStages()
        for stage in (stages.apply(place) for place in range(stages.size())):
            tasks = self._store.taskList(
                *(stage.stageId(), stage.attemptId(), 0, _MOST_TASKS, self._nothing, False, self._running)
            )
            for task in (tasks.apply(place) for place in range(tasks.size())):
                elapsed = max(0.0, now_ms - task.launchTime().getTime()) / 1000
                found[task.executorId()] = found.get(task.executorId(), 0.0) + elapsed
        return found


def checkpoint_offsets(checkpoint: Path) -> dict[str, int] | None:
    """Where the query of a checkpoint stands; None if it has not committed anything."""

    def numbers(folder: str) -> dict[int, Path]:
        return {int(path.name): path for path in (checkpoint / folder).glob("[0-9]*") if path.name.isdigit()}

    planned, commits = numbers("offsets"), numbers("commits")
    done = sorted(planned.keys() & commits.keys())
    if not done:
        return None
    last = done[-1]
    try:
        return committed_offsets({last: ""}, {last: planned[last].read_text()})
    except (OSError, ValueError):
        return None
