"""Steps of the user-space backend: the delay-line process, the queue rules, and live changes."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from dataclasses import astuple, dataclass
from pathlib import Path as FilePath

from fognetem.backend import PlainPath
from fognetem.control import ask, end, find, socket_path
from fognetem.endpoint import Endpoint
from fognetem.errors import NetemError
from fognetem.host import Host, namespace_exists
from fognetem.matrix import LatencyMatrix
from fognetem.path import Path
from fognetem.rules import CHAIN, queue_rule

FILES = ("delayline.sock", "delayline.json", "delayline.log")
START_PATIENCE_S = 60.0

PlainEndpoint = tuple[str, str, str, str]
PlainPair = tuple[str, str, PlainPath]
PlainChange = tuple[str, str, PlainPath, PlainPath]


def plain(path: Path) -> PlainPath:
    """The path's fields in order."""
    return astuple(path)


@dataclass(frozen=True, slots=True)
class StartDelayLine:
    """The delay-line process with its nodes and their first paths."""

    run_dir: str
    endpoints: tuple[PlainEndpoint, ...]
    paths: tuple[PlainPair, ...]

    def _endpoints(self) -> list[Endpoint]:
        return [Endpoint(*entry) for entry in self.endpoints]

    def _matrix(self) -> LatencyMatrix:
        nodes = tuple(entry[0] for entry in self.endpoints)
        return LatencyMatrix(nodes, tuple((a, b, Path(*path)) for a, b, path in self.paths))

    def describe(self) -> str:
        """What the step makes."""
        return f"delay line in {self.run_dir}: {len(self.endpoints)} nodes, {len(self.paths)} impaired paths"

    def _same_nodes(self) -> bool:
        try:
            status = ask(self.run_dir, {"op": "status"})
        except NetemError:
            return False
        return [Endpoint(**entry) for entry in status["endpoints"]] == self._endpoints()

    def present(self, host: Host) -> bool:  # noqa: ARG002 - the process is looked up by its socket
        """Whether a delay line answers that serves exactly these nodes and paths."""
        return self._same_nodes() and shown(self.run_dir) == self._matrix()

    def apply(self, host: Host) -> None:  # noqa: ARG002
        """Start it and wait until it answers; one that serves the same nodes only gets the new paths."""
        if self._same_nodes():
            matrix = self._matrix()
            changes = [(a, b, path.to_dict()) for a, b, path in matrix.pairs()]
            ask(self.run_dir, {"op": "set", "changes": changes})
            return
        end(self.run_dir)
        folder = FilePath(self.run_dir)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        endpoints = [
            {"node": e.node, "namespace": e.namespace, "interface": e.interface, "address": e.address}
            for e in self._endpoints()
        ]
        config = {"endpoints": endpoints, "matrix": self._matrix().to_dict()}
        (folder / "delayline.json").write_text(json.dumps(config))
        (folder / "delayline.sock").unlink(missing_ok=True)
        argv = [sys.executable, "-m", "fognetem.delayline", socket_path(self.run_dir)]
        with (folder / "delayline.log").open("wb") as log:
            child = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )  # fmt: skip
        deadline = time.monotonic() + START_PATIENCE_S
        while True:
            try:
                ask(self.run_dir, {"op": "status"})
            except NetemError:
                if child.poll() is not None or time.monotonic() > deadline:
                    said = (folder / "delayline.log").read_text(errors="replace").strip().splitlines()
                    end(self.run_dir)
                    raise NetemError(
                        f"the delay line did not start: {said[-1] if said else 'no word'}"
                    ) from None
                time.sleep(0.01)
            else:
                # Not ours to wait for: it outlives this process on purpose.
                child.returncode = 0
                return

    def undo(self, host: Host) -> None:  # noqa: ARG002
        """End the process and remove its files."""
        end(self.run_dir)
        for name in FILES:
            FilePath(self.run_dir, name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            FilePath(self.run_dir).rmdir()


@dataclass(frozen=True, slots=True)
class QueueArrivals:
    """The firewall rule that hands what arrives at a node's data interface to the delay line."""

    namespace: str
    interface: str

    def describe(self) -> str:
        """What the step makes."""
        return f"in {self.namespace or 'this host'}: {' '.join(queue_rule('-A', self.interface))}"

    def present(self, host: Host) -> bool:
        """Whether the rule is there."""
        if not namespace_exists(self.namespace):
            return False
        wanted = " ".join(queue_rule("-A", self.interface)[4:])
        listed = host.run(self.namespace, ["iptables", "-w", *CHAIN, "-S", "PREROUTING"])
        return wanted in (line.strip() for line in listed.splitlines())

    def apply(self, host: Host) -> None:
        """Add the rule."""
        host.run(self.namespace, queue_rule("-A", self.interface))

    def undo(self, host: Host) -> None:
        """Remove the rule."""
        if self.present(host):
            host.run(self.namespace, queue_rule("-D", self.interface))


@dataclass(frozen=True, slots=True)
class ChangePaths:
    """A live change of some paths: nothing is lost, nothing overtakes."""

    run_dir: str
    changes: tuple[PlainChange, ...]
    """First node, second node, path before, path after."""

    def describe(self) -> str:
        """What the step makes."""
        parts = [f"{a}–{b}: {Path(*before)} → {Path(*after)}" for a, b, before, after in self.changes]
        return "change " + "; ".join(parts)

    def present(self, host: Host) -> bool:  # noqa: ARG002
        """Whether the delay line already has the new paths."""
        try:
            matrix = shown(self.run_dir)
        except NetemError:
            return False
        return all(matrix.path(a, b) == Path(*after) for a, b, _, after in self.changes)

    def apply(self, host: Host) -> None:  # noqa: ARG002
        """Tell the delay line."""
        changes = [(a, b, Path(*after).to_dict()) for a, b, _, after in self.changes]
        ask(self.run_dir, {"op": "set", "changes": changes})

    def undo(self, host: Host) -> None:  # noqa: ARG002
        """Tell the delay line the paths before, if it still runs."""
        if find(self.run_dir) is not None:
            changes = [(a, b, Path(*before).to_dict()) for a, b, before, _ in self.changes]
            ask(self.run_dir, {"op": "set", "changes": changes})


def shown(run_dir: str) -> LatencyMatrix:
    """The matrix the running delay line applies."""
    return LatencyMatrix.from_dict(ask(run_dir, {"op": "show"})["matrix"])
