"""Sends a part's load from a process of its own, so that nothing the runner does holds a record up.

Started as `python -m fogctl.experiment.replayer MANIFEST PART`. It says `ready` once its records are made,
begins when it reads a line, and says at the end how well the schedule was held; each a line of JSON.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from fogctl.errors import FAILED, FogError

_PATIENCE_S = 120.0


class Replayer:
    """The process, as its parent sees it."""

    def __init__(self, manifest: Path, part: str, log: Path) -> None:
        self._log = log
        self._errors = log.open("ab")
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(manifest), part],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._said: list[dict[str, Any]] = []
        self._news = threading.Condition()
        threading.Thread(target=self._listen, daemon=True).start()

    def wait_until_ready(self) -> None:
        """Return when it can begin; FogError with what it said if it ends instead."""
        with self._news:
            self._news.wait_for(lambda: bool(self._said) or self._child.poll() is not None, _PATIENCE_S)
        if not self._said:
            raise FogError(self.trouble(), hint=f"its log: {self._log}", exit_code=FAILED)

    def go(self) -> None:
        """Begin to send."""
        if self._child.stdin is not None:
            self._child.stdin.write("go\n")
            self._child.stdin.flush()

    def ended(self) -> bool:
        """Whether everything has been sent; FogError if it failed."""
        code = self._child.poll()
        if code is not None and code != 0:
            raise FogError(self.trouble(), hint=f"its log: {self._log}", exit_code=FAILED)
        return code == 0

    def result(self) -> dict[str, Any] | None:
        """How well the schedule was held; None before the end."""
        return self._said[-1].get("replayed") if self._said else None

    def trouble(self) -> str:
        """The last thing it complained about."""
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return f"the replay failed: {lines[-1] if lines else 'it said nothing'}"

    def close(self) -> None:
        """End it, whatever it does."""
        if self._child.poll() is None:
            self._child.kill()
        self._child.wait()
        self._errors.close()

    def _listen(self) -> None:
        for line in self._child.stdout or ():
            with self._news:
                self._said.append(json.loads(line))
                self._news.notify_all()
        with self._news:
            self._news.notify_all()


def main(manifest_file: Path, key: str) -> None:
    """The process itself."""
    from fogctl.experiment import calibrate
    from fogctl.experiment.experiment import of_manifest
    from fogctl.runtime.grounds import ground_of
    from fogctl.runtime.kafka import require_topic
    from fogctl.runtime.operate import Apps
    from fogctl.trace.kafka_sink import KafkaSink
    from fogctl.trace.replay import promptly, replay

    experiment = of_manifest(json.loads(manifest_file.read_text()))
    if key == calibrate.part(experiment).key:
        load = calibrate.load(experiment)
    else:
        load = experiment.load(next(part.seed for part in experiment.parts if part.key == key))
    ground = ground_of(experiment.testbed.name)
    topics = [experiment.app.topic(stream) for stream in experiment.app.sources]
    if len(topics) != 1:
        raise FogError(f"an experiment feeds one input stream; app {experiment.app.name} has {len(topics)}")
    require_topic(ground.kafka(), topics[0])
    numbers = Apps(ground).sent_numbers(experiment.app.name)
    first = numbers.reserve(load.records)
    with ground.kafka() as connection:
        sink = KafkaSink(connection, topics[0], numbers, first, first + load.records)
    try:
        values = load.values()
        print(json.dumps({"ready": load.records}), flush=True)
        if not sys.stdin.readline():
            return
        with promptly(load.due_s):
            done = replay(values, load.due_s, sink, first_number=first)
    finally:
        sink.close()
    print(json.dumps({"replayed": {**dataclasses.asdict(done), "kept_up": done.kept_up}}), flush=True)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), sys.argv[2])
    except FogError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
