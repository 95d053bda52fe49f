"""The driver of one stage: builds its query from the app's function, runs it, and answers on a socket.

Run as `python -m fogctl.runtime.stage_runner SPEC.json` on the control node. The socket is a file in the
testbed's state folder that only its owner can open: no port, no token.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery

from fogctl.metrics.stage import Identity
from fogctl.metrics.stage_side import StageSide
from fogctl.runtime import batch_bound, progress, warm_up
from fogctl.runtime.batch_bound import BatchBound
from fogctl.runtime.control import serve
from fogctl.runtime.executor_list import live_executors
from fogctl.runtime.stage_errors import explain
from fogctl.runtime.stage_query import Spec, start_query

FIRST_PAUSE_S, LONGEST_PAUSE_S = 2.0, 30.0
"""How long a query that failed is left alone: longer each time, until a batch succeeds."""
MOST_PROGRESS_BYTES = 32 << 20
"""Of batches' progress in one file; so much again is kept in the one before."""
WARM_TASKS = 2
"""An executor that has completed so many has loaded what it needs."""


@dataclass(slots=True)
class State:
    """What the runner knows of itself; the socket answers from it."""

    state: str = "starting"
    error: str | None = None
    started_at: float = field(default_factory=time.time)
    last: dict[str, Any] | None = None
    max_rows: int = 0
    restarts: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class Progress(StreamingQueryListener):
    """Keeps each progress event of the query, in memory and in a file, and tells it on."""

    def __init__(self, state: State, file: Path, then: Callable[[dict[str, Any]], None]) -> None:
        self._state = state
        self._file = file
        self._then = then

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """The query started."""

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """The query waits for data."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """The query ended."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """A batch was processed."""
        progress = json.loads(event.progress.json)
        progress["at"] = time.time()
        with self._state.lock:
            self._state.last = progress
        if self._file.exists() and self._file.stat().st_size > MOST_PROGRESS_BYTES:
            self._file.replace(self._file.with_suffix(".old.jsonl"))
        with self._file.open("a") as file:
            file.write(json.dumps(progress) + "\n")
        self._then(progress)


class Extra(Protocol):
    """What a runner also does on some kinds of testbed."""

    def started(self, session: SparkSession) -> None:
        """The session is there."""
        ...

    def check(self, result: DataFrame) -> None:
        """ValueError, in words for the user, if this query cannot run here."""
        ...

    def answer(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """Answer a request of its own; None: it is not."""
        ...


def executors(session: SparkSession) -> list[dict[str, Any]]:
    """The executors the driver has."""
    found = live_executors(session.sparkContext)
    return [{"node": executor.node, "tasks": executor.active_tasks} for executor in found]


def lives(session: SparkSession) -> bool:
    """Whether the driver's JVM still works; without it, nothing can be started again here."""
    try:
        return not session.sparkContext._jsc.sc().isStopped()
    except Exception:
        return False


class Runner:
    """One stage at work."""

    def __init__(self, spec: Spec, extra: Extra | None = None) -> None:
        self.spec = spec
        self._extra = extra
        folder = Path(spec.progress).parent
        slots = int(spec.settings["spark.executor.cores"])
        self.bound = BatchBound(spec.stage["freshness_ms"], slots, folder / "batch_size.json")
        self.state = State(max_rows=self.bound.max_rows)
        self.metrics = StageSide(
            Identity(spec.app, spec.stage["name"]),
            *(spec.watch, spec.input_topics, Path(spec.checkpoint), lambda: self.state.max_rows),
        )
        self.query: StreamingQuery | None = None
        self.session: SparkSession | None = None
        self._stop = threading.Event()
        self._restart = threading.Event()
        self._warming = threading.Lock()
        self._cannot_warm = False

    def run(self) -> int:
        """Run until told to stop; answers the exit code."""
        server = serve(Path(self.spec.socket), self.answer)
        try:
            builder = SparkSession.builder
            for key, value in self.spec.settings.items():
                builder = builder.config(key, value)
            self.session = builder.getOrCreate()
            if self._extra is not None:
                self._extra.started(self.session)
            self.session.streams.addListener(
                Progress(self.state, Path(self.spec.progress), self._after_batch)
            )
            self.metrics.start(self.session, lambda: self.query)
            while not self._stop.is_set():
                try:
                    self._run_query(self.session)
                except Exception as error:
                    self._failed(error)
                    if not lives(self.session):
                        return 1  # started again as a whole, by the supervisor
                    self._stop.wait(min(FIRST_PAUSE_S * 2.0 ** min(self.state.restarts, 9), LONGEST_PAUSE_S))
                    self.state.restarts += 1
            self.state.state = "stopped"
            return 0
        except Exception as error:
            self._failed(error)
            # Stay long enough for somebody to ask why.
            self._stop.wait(LONGEST_PAUSE_S)
            return 1
        finally:
            self.metrics.stop()
            server.shutdown()
            Path(self.spec.socket).unlink(missing_ok=True)

    def _run_query(self, session: SparkSession) -> None:
        """Run the query until it fails, or is to be stopped or started anew."""
        self._restart.clear()
        check = None if self._extra is None else self._extra.check
        self.query = start_query(session, self.spec, self.bound.max_rows, check)
        self.state.state = "running"
        while self.query.isActive and not self._stop.is_set() and not self._restart.is_set():
            self._stop.wait(0.25)
        if not self.query.isActive and not self._restart.is_set() and not self._stop.is_set():
            failure = self.query.exception()
            raise RuntimeError(str(failure) if failure is not None else "the query ended by itself")
        self.query.stop()

    def _failed(self, error: Exception) -> None:
        """Remember why; the words stay until a batch succeeds."""
        self.state.error = explain(error, self.spec.code, self.spec.origin).sentence
        self.state.state = "failed"
        print(self.state.error, file=sys.stderr, flush=True)
        traceback.print_exc()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer one request on the socket."""
        ask = request.get("ask")
        if ask == "stop":
            self.stop()
            return {"ok": True}
        if self._extra is not None and (said := self._extra.answer(request)) is not None:
            return said
        if ask == "batch":
            return self._fix_bound(request["max_rows"])
        if ask == "warm":
            return {"warm": self._is_warm(request["node"])}
        if ask == "executors":
            return {"executors": self._executors()}
        if ask == "progress":
            folder = Path(self.spec.progress).parent
            return {"progress": progress.recorded(folder, float(request.get("since_s", 0.0)))}
        if ask == "metrics":
            return {"metrics": self.metrics.as_json(request.get("window_s"))}
        with self.state.lock:
            last = self.state.last
        return {
            "app": self.spec.app,
            "stage": self.spec.stage["name"],
            "state": self.state.state,
            "error": self.state.error,
            "max_rows": self.state.max_rows,
            "batch": self.bound.facts(),
            "executors": self._executors(),
            "last": last,
            "metrics": self.metrics.as_json(),
        }

    def stop(self) -> None:
        """End with the batch that runs."""
        self._stop.set()

    def _executors(self) -> list[dict[str, Any]]:
        if self.session is None or self.state.state != "running":
            return []
        return executors(self.session)

    def _fix_bound(self, rows: int | None) -> dict[str, Any]:
        """Keep to so many rows a batch, for measurements; None: let the freshness bound decide again."""
        self.bound.fix(None if rows is None else max(1, int(rows)))
        if self.state.last is not None:
            self._apply_bound(self.state.last)
        return {"ok": True, "max_rows": self.bound.max_rows}

    def _after_batch(self, progress: dict[str, Any]) -> None:
        self.metrics.progress(progress)
        self._keep_bound(progress)

    def _keep_bound(self, progress: dict[str, Any]) -> None:
        """After each batch: let the next one be as large as the freshness bound allows."""
        if progress.get("numInputRows"):
            self.state.error, self.state.restarts = None, 0
        if self.session is None or self.spec.real_time:
            return
        if self.bound.observe(progress, len(executors(self.session))):
            self._apply_bound(progress)

    def _apply_bound(self, progress: dict[str, Any]) -> None:
        began_with, self.state.max_rows = self.state.max_rows, self.bound.max_rows
        try:
            if self.query is not None:
                batch_bound.apply(self.query, self.bound.max_rows, progress)
        except Exception as error:
            # Another Spark: its query must be restarted, which is worth it for large corrections only.
            batch_bound.complain(error)
            if not 0.5 <= self.bound.max_rows / began_with <= 2:
                self._restart.set()

    def _is_warm(self, node: str) -> bool:
        """Whether the executor on a node has done its first tasks; if nobody gives it any, a warm-up does."""
        if self.session is None or self.state.state != "running":
            return False
        done = warm_up.tasks_done(self.session)
        if self._warming.locked() or node not in done:
            return False
        if done[node] >= WARM_TASKS or self._cannot_warm:
            return True
        idle = not any(executor["tasks"] for executor in executors(self.session))
        if idle and self._warming.acquire(blocking=False):
            threading.Thread(target=self._warm_up, args=(len(done),), daemon=True).start()
        return False

    def _warm_up(self, replicas: int) -> None:
        assert self.session is not None
        try:
            warm_up.run(
                self.session,
                self.spec,
                replicas * int(self.spec.settings["spark.executor.cores"]),
            )
        except Exception as error:
            # Some functions only run on streams, or raise on records that nobody sends: their first batch is
            # then the warm-up. Trying again would only take their CPU.
            self._cannot_warm = True
            print(f"warm-up left out: {explain(error, self.spec.code).sentence}", file=sys.stderr, flush=True)
        finally:
            self._warming.release()


if __name__ == "__main__":
    sys.exit(Runner(Spec.read(Path(sys.argv[1]))).run())
