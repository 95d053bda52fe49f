"""The driver of one stage: builds its query from the app's function, runs it, and answers on a socket.

Run as `python -m fogctl.runtime.stage_runner SPEC.json` on the control node. The socket is a file in the
testbed's state folder that only its owner can open: no port, no token.
"""

from __future__ import annotations

import importlib.util
import json
import os
import socketserver
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery

from fogctl.runtime import realtime_plan
from fogctl.runtime.control import short_name
from fogctl.runtime.kafka_config import KafkaConnection
from fogctl.runtime.realtime import native_problem

StageFunction = Callable[..., DataFrame]


@dataclass(frozen=True, slots=True)
class Spec:
    """Everything a stage runner is told."""

    app: str
    stage: dict[str, Any]
    code: str
    settings: dict[str, str]
    kafka: KafkaConnection
    input_topics: tuple[str, ...]
    output_topic: str
    checkpoint: str
    socket: str
    progress: str
    max_rows: int

    @classmethod
    def read(cls, path: Path) -> Spec:
        """The specification in a JSON file."""
        data = json.loads(path.read_text())
        kafka = KafkaConnection.from_json(data["kafka"])
        return cls(**{**data, "kafka": kafka, "input_topics": tuple(data["input_topics"])})


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
    """Keeps each progress event of the query, in memory and in a file."""

    def __init__(self, state: State, file: Path) -> None:
        self._state = state
        self._file = file

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
        with self._file.open("a") as file:
            file.write(json.dumps(progress) + "\n")


def load_function(code: Path, name: str) -> StageFunction:
    """The stage's function from the app's file."""
    spec = importlib.util.spec_from_file_location(f"fogapp_{code.stem}", code)
    if spec is None or spec.loader is None:
        raise ImportError(f"{code} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    function: StageFunction | None = getattr(module, name, None)
    if function is None:
        raise AttributeError(f"{code} has no function {name}")
    return function


def source(session: SparkSession, spec: Spec, topic: str, max_rows: int) -> DataFrame:
    """A topic as a stream of key, value (text) and timestamp."""
    reader = (
        session.readStream.format("kafka")
        .options(**spec.kafka.for_spark())
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", "true")
        .option("kafka.fetch.max.wait.ms", "100")
        .option("kafka.receive.buffer.bytes", str(1 << 20))
        .option("kafka.request.timeout.ms", "10000")
        .option("kafka.default.api.timeout.ms", "15000")
    )
    if spec.stage["mode"] != "real-time":  # there a batch has no bound: Spark refuses the option
        reader = reader.option("maxOffsetsPerTrigger", max_rows)
    raw = reader.load()
    return raw.select(col("key").cast("string"), col("value").cast("string"), col("timestamp"))


def start_query(session: SparkSession, spec: Spec, max_rows: int) -> StreamingQuery:
    """Build the stage's query and start it from its checkpoint."""
    function = load_function(Path(spec.code), spec.stage["function"])
    inputs = [source(session, spec, topic, max_rows) for topic in spec.input_topics]
    options: Mapping[str, str] = spec.stage["options"]
    result = function(*inputs, options)
    lacking = {"key", "value"} - set(result.columns)
    if lacking:
        raise ValueError(
            f"the function {spec.stage['function']} of {spec.code} returns the columns {result.columns}; "
            f"{' and '.join(sorted(lacking))} is missing"
        )
    writer = (
        result.select(col("key").cast("string"), col("value").cast("string"))
        .writeStream.format("kafka")
        .queryName(f"{spec.app}.{spec.stage['name']}")
        .options(**spec.kafka.for_spark())
        .option("kafka.acks", "all")
        .option("kafka.linger.ms", "5")
        .option("topic", spec.output_topic)
        .option("checkpointLocation", spec.checkpoint)
        .outputMode(spec.stage["output_mode"])
    )
    if spec.stage["mode"] == "real-time":
        if (problem := native_problem(realtime_plan.facts(result))) is not None:
            raise ValueError(problem)
        writer = writer.trigger(  # type: ignore[call-overload]
            realTime=f"{max(5, int(spec.stage['freshness_ms'] / 1000))} seconds"
        )
    return writer.start()


def executors(session: SparkSession) -> list[dict[str, Any]]:
    """The executors the driver has, without the driver itself."""
    driver = session.sparkContext.getConf().get("spark.driver.host")
    infos = session.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
    return [{"node": info.host(), "tasks": info.numRunningTasks()} for info in infos if info.host() != driver]


class Runner:
    """One stage at work."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.state = State(max_rows=spec.max_rows)
        self.query: StreamingQuery | None = None
        self.session: SparkSession | None = None
        self._stop = threading.Event()
        self._restart = threading.Event()

    def run(self) -> int:
        """Run until told to stop; answers the exit code."""
        server = _serve(self)
        try:
            builder = SparkSession.builder
            for key, value in self.spec.settings.items():
                builder = builder.config(key, value)
            self.session = builder.getOrCreate()
            self.session.streams.addListener(Progress(self.state, Path(self.spec.progress)))
            while not self._stop.is_set():
                self._restart.clear()
                self.query = start_query(self.session, self.spec, self.state.max_rows)
                self.state.state = "running"
                while self.query.isActive and not self._stop.is_set() and not self._restart.is_set():
                    self._stop.wait(0.1)
                if not self.query.isActive and not self._restart.is_set() and not self._stop.is_set():
                    failure = self.query.exception()
                    raise RuntimeError(str(failure) if failure is not None else "the query ended by itself")
                self.query.stop()
            self.state.state = "stopped"
            return 0
        except Exception as error:
            self.state.error = explain(error, self.spec.code)
            self.state.state = "failed"
            print(self.state.error, file=sys.stderr, flush=True)
            traceback.print_exc()
            # Stay long enough for somebody to ask why.
            self._stop.wait(30)
            return 1
        finally:
            server.shutdown()
            Path(self.spec.socket).unlink(missing_ok=True)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer one request on the socket."""
        ask = request.get("ask")
        if ask == "stop":
            self._stop.set()
            return {"ok": True}
        if ask == "batch":
            self.state.max_rows = int(request["max_rows"])
            self._restart.set()
            return {"ok": True}
        with self.state.lock:
            last = self.state.last
        return {
            "app": self.spec.app,
            "stage": self.spec.stage["name"],
            "state": self.state.state,
            "error": self.state.error,
            "max_rows": self.state.max_rows,
            "executors": executors(self.session)
            if self.session is not None and self.state.state == "running"
            else [],
            "last": last,
        }


def explain(error: BaseException, code: str) -> str:
    """One sentence: what the app's own code raised, with file and line, if it was the app's code."""
    text = str(error)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == code]
    if frames:
        return f"{code}:{frames[-1].lineno}: {type(error).__name__}: {text.splitlines()[0] if text else ''}"
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if f'File "{code}", line' in line:
            where = line.strip().removeprefix("File ").split(",")
            last = next(
                (later for later in lines[number:] if later and not later.startswith((" ", "\t"))), ""
            )
            return f"{code}:{where[1].strip().removeprefix('line ')}: {last.strip()}"
    # A failure inside the JVM: its own words stand in the second line, behind a colon.
    inside = next((line.removeprefix(": ") for line in lines if line.startswith(": ")), None)
    return (inside or (lines[0] if lines else type(error).__name__))[:500]


def _serve(runner: Runner) -> socketserver.BaseServer:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            line = self.rfile.readline()
            if line:
                reply = runner.answer(json.loads(line))
                self.wfile.write(json.dumps(reply).encode() + b"\n")

    class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
        daemon_threads = True

    path = Path(runner.spec.socket)
    path.unlink(missing_ok=True)
    before = os.umask(0o177)
    try:
        with short_name(path) as name:
            server = Server(name, Handler)
    finally:
        os.umask(before)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


if __name__ == "__main__":
    sys.exit(Runner(Spec.read(Path(sys.argv[1]))).run())
