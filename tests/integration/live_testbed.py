"""What live tests share: testbed.yaml, commands that must succeed, records that flow meanwhile, the audit."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from fogctl.runtime import kafka
from fogctl.testbed.running import Running

PATIENCE_S = 120.0
Fogctl = Callable[..., subprocess.CompletedProcess[str]]
Tell = Callable[[str], None]

PIS = '{name: "pi[1-2]", role: edge, site: field, board: rpi4-2g}'
"""Two nodes as fast and as large as the scale makes them."""


def described(
    name: str,
    *nodes: str,
    broker: str | None = "broker",
    scale: str | None = "{cpu: 10%, memory: 40%}",
    rtt: str = "5ms",
    more: str = "",
) -> str:
    """A control node, a broker node unless the control node carries it, and nodes in the field."""
    hosts = ["{name: cloud, role: control, site: dc, board: host}"]
    if broker is not None:
        hosts.append(f"{{name: {broker}, role: broker, site: dc, board: host}}")
    scaled = f"scale: {scale}\n" if scale is not None else ""
    listed = "".join(f"  - {node}\n" for node in (*hosts, *(nodes or (PIS,))))
    return (
        f"name: {name}\nkind: virtual\n{scaled}nodes:\n{listed}"
        f"latency:\n  sites: [{{between: [dc, field], rtt: {rtt}}}]\n{more}"
    )


@dataclass(frozen=True)
class SharedTestbed:
    """A testbed for all tests of a file, and a command line in its folder."""

    running: Running
    fogctl: Fogctl
    folder: Path


def ok(done: subprocess.CompletedProcess[str]) -> str:
    """What a command said that must have succeeded."""
    assert done.returncode == 0, done.stderr
    return done.stdout


def eventually(
    true: Callable[[], object], what: str, patience_s: float = PATIENCE_S, pause_s: float = 0.1
) -> None:
    """Return as soon as something is true; fail, saying what was waited for, if it does not become so."""
    deadline = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < deadline, f"not within {patience_s:.0f} s: {what}"
        time.sleep(pause_s)


def audited(fogctl: Fogctl, app: str) -> dict[str, Any]:
    """The audit of an app with one result, when nothing is on its way any more."""
    found = json.loads(ok(fogctl("audit", app, "--wait", f"{PATIENCE_S:.0f}s", "-o", "json")))
    (result,) = found.values()
    assert isinstance(result, dict)
    return result


def records_in(running: Running, topic: str) -> int:
    """How many records a topic of the testbed's broker ever held."""
    from kafka import KafkaConsumer, TopicPartition  # guests, which run no apps, do not have it

    with kafka.reachable(running) as connection:
        consumer = KafkaConsumer(**connection.for_kafka_python())
        try:
            parts = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
            return sum(consumer.end_offsets(parts).values())
        finally:
            consumer.close()


class Replay:
    """`fogctl trace replay` in the background, until the body ends or everything is sent."""

    def __init__(self, argv: Sequence[str], folder: Path, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [*argv, "trace", "replay", *arguments, "-o", "json"],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A test run that was started in the background hands on a Ctrl-C that is ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )

    def __enter__(self) -> Replay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def stop(self) -> None:
        """Press Ctrl-C; returns when everything sent is acknowledged."""
        assert self._process.poll() is None, "the replay ended before it was to"
        self._process.send_signal(signal.SIGINT)
        _, complaint = self._process.communicate(timeout=PATIENCE_S)
        assert "Traceback" not in complaint, complaint
        assert self._process.returncode == 130, complaint
