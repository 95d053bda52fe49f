"""The example testbeds that ship, and how one is fitted to a host, a name and a number of nodes."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from fognetem.matrix import LatencyMatrix
from fognetem.matrix import Path as NetworkPath

from fogctl.config import source
from fogctl.config.boards import Board
from fogctl.config.shares import (
    HEAD_ROOM,
    LEAST_CORES,
    Capacity,
    cpu_share,
    largest_scale,
    memory_share,
    percent,
)
from fogctl.config.testbed_file import TestbedFile
from fogctl.config.validate import validate
from fogctl.errors import FogError
from fogctl.testbed.model import Kind
from fogctl.testbed.names import MOST_NODES

_FOLDER = Path(__file__).resolve().parent / "examples"
_EDGE_RANGE = re.compile(r'"([a-z]+)\[1-(\d+)\]"')
_FARTHEST_MS = 300.0

SCHEMA_COMMENT = "# yaml-language-server: $schema=testbed.schema.json"
"""What editors look for; `fogctl schema testbed --to testbed.schema.json` makes the file it names."""


class Example(StrEnum):
    """The testbeds that ship."""

    gesscale = "gesscale"
    city = "city"
    lab = "lab"


@dataclass(frozen=True, slots=True)
class Draft:
    """The files of a testbed, not yet written: name and text."""

    files: dict[str, str]
    scale_cpu: float
    scale_memory: float


def folder(example: Example) -> Path:
    """Where an example's files are."""
    return _FOLDER / example.value


def spread(nodes: int) -> LatencyMatrix:
    """The latencies of the gesscale example: cloud, broker and `nodes` Pis on a line of 0 to 300 ms.

    Gesscale (section V-A) gives the range only; the exponent makes near nodes plentiful and far ones rare.
    """
    places = {"cloud": 0.0, "broker": 0.0}
    for number in range(nodes):
        fraction = number / (nodes - 1) if nodes > 1 else 0.0
        places[f"pi{number + 1}"] = float(round(_FARTHEST_MS * fraction**1.5))
    names = tuple(places)
    made: dict[float, NetworkPath] = {}  # 1,000 nodes are half a million pairs

    def path(a: str, b: str) -> NetworkPath:
        apart = abs(places[a] - places[b])
        if apart not in made:
            made[apart] = NetworkPath(rtt_ms=apart)
        return made[apart]

    return LatencyMatrix(
        names, tuple((a, b, path(a, b)) for i, a in enumerate(names) for b in names[i + 1 :])
    )


def draft(
    example: Example,
    host: Capacity,
    boards: dict[str, Board],
    name: str | None = None,
    nodes: int | None = None,
    kind: Kind = Kind.virtual,
    matrix_name: str = "latencies.csv",
) -> Draft:
    """An example under another name and size, its scale a concrete number that fits the host."""
    text = (folder(example) / "testbed.yaml").read_text(encoding="utf-8")
    text = re.sub(r"\A# yaml-language-server:.*\n", SCHEMA_COMMENT + "\n", text)
    if name is not None:
        text = re.sub(r"(?m)^name: .*$", lambda _: f"name: {name}", text)
    text = re.sub(r"(?m)^kind: .*$", f"kind: {kind.value}", text)
    if nodes is not None:
        text = _resize(text, nodes)
    text = text.replace("matrix: latencies.csv", f"matrix: {matrix_name}")
    file = validate(source.parse(text, "testbed.yaml"), TestbedFile)
    if kind is Kind.sim:  # a model has no host to share: its boards are as fast as they are
        cpu, memory, why = 1.0, 1.0, "whole boards: nothing is shared in a model"
    else:
        cpu, memory = _fitting(file, host, boards)
        why = f"chosen for {host.cores:g} host cores"
    text = re.sub(
        r"(?m)^scale: .*$", f"scale: {{cpu: {percent(cpu)}, memory: {percent(memory)}}} # {why}", text
    )
    files = {"testbed.yaml": text}
    if file.latency.matrix is not None:
        stream = io.StringIO()
        spread(sum(len(entry.name) for entry in file.nodes) - 2).to_csv(stream)
        files[matrix_name] = stream.getvalue()
    return Draft(files, cpu, memory)


def _resize(text: str, nodes: int) -> str:
    """The same example with that many edge nodes, shared evenly among its sites."""
    groups = len(_EDGE_RANGE.findall(text))
    if not groups <= nodes <= MOST_NODES - 2:
        raise FogError(f"--nodes must be {groups} to {MOST_NODES - 2} for this example, not {nodes}")
    sizes = iter([nodes // groups + (number < nodes % groups) for number in range(groups)])
    return _EDGE_RANGE.sub(lambda match: f'"{match[1]}[1-{next(sizes)}]"', text)


def _fitting(file: TestbedFile, host: Capacity, boards: dict[str, Board]) -> tuple[float, float]:
    """The scales for CPU and memory that fit the host with head-room; memory at most the example's."""
    entries = [(entry, boards.get(entry.board)) for entry in file.nodes for _ in entry.name]
    cpus = [share for entry, board in entries if (share := cpu_share(board, entry.cpu)) is not None]
    memories = [share for entry, board in entries if (share := memory_share(board, entry.memory)) is not None]
    cpu = largest_scale(cpus, host.cores * HEAD_ROOM)
    if cpu is None or any(share.at(cpu) < LEAST_CORES * (1 - 1e-9) for share in cpus):
        fit = int(host.cores * HEAD_ROOM / LEAST_CORES)
        raise FogError(
            f"{len(cpus)} nodes do not fit on {host.cores:g} cores: "
            f"each needs {percent(LEAST_CORES)} of a core or more",
            hint=f"use --nodes {min(fit, MOST_NODES - 2)} or fewer",
        )
    memory = largest_scale(memories, host.memory_bytes * HEAD_ROOM)
    return cpu, min(file.scale.memory, memory or file.scale.memory)
