"""Loading `testbed.yaml`: read, validate, and turn it into a Testbed, or say in sentences what to mend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from fogctl.config import boards as board_profiles
from fogctl.config import hosts_section, kafka_section, kube_section, source
from fogctl.config.boards import UNLIMITED, Board
from fogctl.config.latencies import Rules, read_matrix
from fogctl.config.problems import KeyPath, Problem, refuse
from fogctl.config.shares import (
    HEAD_ROOM,
    LEAST_CORES,
    LEAST_MEMORY_BYTES,
    Capacity,
    Share,
    cpu_share,
    largest_scale,
    memory_share,
    percent,
)
from fogctl.config.source import Document
from fogctl.config.testbed_file import NodeEntry, TestbedFile
from fogctl.config.units import SIZE, quoted
from fogctl.config.validate import validate
from fogctl.testbed.model import Kind, Node, Role, Testbed
from fogctl.testbed.names import MOST_NODES


def load(
    path: Path | str,
    host_cores: float | None = None,
    host_memory_bytes: float | None = None,
    boards: Mapping[str, Board] | None = None,
) -> Testbed:
    """The testbed a file describes; FogError (exit 2) if it is wrong or does not fit the host.

    `host_cores` and `host_memory_bytes` are what a virtual testbed may use; None means this machine's.
    """
    return build(source.read(Path(path), "testbed"), host_cores, host_memory_bytes, boards)


def build(
    document: Document,
    host_cores: float | None = None,
    host_memory_bytes: float | None = None,
    boards: Mapping[str, Board] | None = None,
) -> Testbed:
    """The testbed a parsed file describes; the matrix it names is read from beside it."""
    file = validate(document, TestbedFile)
    boards = board_profiles.load_all() if boards is None else boards
    here = Capacity.of_this_host()
    host = Capacity(
        here.cores if host_cores is None else host_cores,
        here.memory_bytes if host_memory_bytes is None else host_memory_bytes,
    )

    def stop_if(problems: list[Problem]) -> None:
        refuse(document.file, (_located(problem, document) for problem in problems))

    nodes, problems = _nodes(file, boards)
    stop_if(problems)
    if file.kind is Kind.virtual:
        stop_if(_host_problems(file, boards, host))
    matrix = None
    if file.latency.matrix is not None:
        matrix = read_matrix(_beside(document.file, file.latency.matrix), nodes)
    rules = Rules(nodes, file.latency, matrix)
    latencies = rules.latencies()
    schedule = tuple(rules.changes(file.schedule, latencies))
    stop_if(rules.problems)
    kafka = None
    if file.kafka is not None:
        kafka, problems = kafka_section.external(file.kafka, Path(document.file).parent)
        stop_if(problems)
    hosts, problems = hosts_section.hosts(file.hosts, [node.name for node in nodes], file.kind)
    stop_if(problems)
    cluster = kube_section.cluster(file.kube, Path(document.file).parent)
    return Testbed(
        file.name, file.kind, tuple(nodes), latencies, schedule, file.tolerance, kafka, hosts, cluster
    )


def _located(problem: Problem, document: Document) -> Problem:
    line = document.line(problem.key) if problem.line is None else problem.line
    return Problem(problem.message, line, problem.key, problem.hint, problem.file)


def _beside(file: str, name: str) -> Path:
    return (
        Path(file).parent / Path(name.replace("\0", "")).expanduser() if name.strip() else Path(file).parent
    )


def _nodes(file: TestbedFile, boards: Mapping[str, Board]) -> tuple[list[Node], list[Problem]]:
    """All nodes with ranges expanded, and what is wrong with them."""
    nodes: list[Node] = []
    problems: list[Problem] = []
    owner: dict[str, int] = {}
    for number, entry in enumerate(file.nodes):
        key: KeyPath = ("nodes", number)
        problems += _board_problems(file.kind, entry, boards, key)
        for name in entry.name:
            if name in owner:
                message = f'the node "{name}" is given twice, first in nodes[{owner[name]}]'
                problems.append(Problem(message, key=(*key, "name"), hint="rename one"))
            owner.setdefault(name, number)
        nodes += [_node(name, entry, file, boards) for name in entry.name]
    if len(nodes) > MOST_NODES:
        message = f"{len(nodes):,} nodes are more than the {MOST_NODES:,} ports of a Linux bridge"
        problems.append(Problem(message, key=("nodes",), hint="use fewer nodes"))
    controls = [
        number for number, entry in enumerate(file.nodes) for _ in entry.name if entry.role is Role.control
    ]
    if not controls:
        hint = "add for example {name: cloud, role: control, board: host}"
        problems.append(Problem("no node has the role control", key=("nodes",), hint=hint))
    elif len(controls) > 1:
        message = f"{len(controls)} nodes have the role control"
        problems.append(
            Problem(
                message, key=("nodes", controls[-1], "role"), hint="keep one; the others are edge or broker"
            )
        )
    return nodes, problems


def _board_problems(kind: Kind, entry: NodeEntry, boards: Mapping[str, Board], key: KeyPath) -> list[Problem]:
    key = (*key, "board")
    if entry.board == UNLIMITED:
        # The model must know how fast an edge node is; what control and broker cost it does not ask.
        if kind is not Kind.sim or entry.role is not Role.edge:
            return []
        message = f'"{UNLIMITED}" means "not limited", which an edge node of kind: sim cannot be'
        return [Problem(message, key=key, hint="name a board; see: fogctl board list")]
    if entry.board in boards:
        return []
    hint = board_profiles.unknown_hint(entry.board, list(boards))
    return [Problem(f"unknown board {quoted(entry.board)}", key=key, hint=hint)]


def _shares(entry: NodeEntry, boards: Mapping[str, Board]) -> tuple[Share | None, Share | None]:
    board = boards.get(entry.board)
    return cpu_share(board, entry.cpu), memory_share(board, entry.memory)


def _node(name: str, entry: NodeEntry, file: TestbedFile, boards: Mapping[str, Board]) -> Node:
    cpu, memory = _shares(entry, boards)
    if file.kind is Kind.k3s:  # a real board is limited by itself
        cpu = cpu if entry.cpu is not None else None
        memory = memory if entry.memory is not None else None
    return Node(
        name=name,
        role=entry.role,
        site=entry.site,
        board=entry.board,
        cpu_cores=None if cpu is None else cpu.at(file.scale.cpu),
        memory_bytes=None if memory is None else int(memory.at(file.scale.memory)),
    )


def _host_problems(file: TestbedFile, boards: Mapping[str, Board], host: Capacity) -> list[Problem]:
    """Shares that are too small to enforce, or that together exceed the host."""
    cpus: list[Share] = []
    memories: list[Share] = []
    problems: list[Problem] = []
    for number, entry in enumerate(file.nodes):
        cpu, memory = _shares(entry, boards)
        if cpu is not None:
            cpus += [cpu] * len(entry.name)
            if cpu.at(file.scale.cpu) < LEAST_CORES * (1 - 1e-9):
                problems.append(_too_little_cpu(cpu, number, entry, file.scale.cpu))
        if memory is not None:
            memories += [memory] * len(entry.name)
            if memory.at(file.scale.memory) < LEAST_MEMORY_BYTES:
                message = f"{entry.name[0]} would get {SIZE.show(memory.at(file.scale.memory))} of memory"
                hint = f"it needs {SIZE.show(LEAST_MEMORY_BYTES)}; raise scale.memory or the node's memory"
                problems.append(Problem(message, key=("nodes", number), hint=hint))
    if problems:
        return problems
    return [
        *_over("cpu", cpus, file.scale.cpu, host.cores, LEAST_CORES, _cores_text),
        *_over("memory", memories, file.scale.memory, host.memory_bytes, LEAST_MEMORY_BYTES, SIZE.show),
    ]


def _cores_text(cores: float) -> str:
    return f"{cores:.3g} cores"


def _too_little_cpu(cpu: Share, number: int, entry: NodeEntry, scale: float) -> Problem:
    message = f"{entry.name[0]} would get {percent(cpu.at(scale))} of a core"
    fix = (
        f"raise scale.cpu to {percent(LEAST_CORES / cpu.of_scale)}"
        if cpu.of_scale
        else "raise the node's cpu"
    )
    hint = f"the kernel enforces nothing below {percent(LEAST_CORES)}; {fix} or more"
    return Problem(message, key=("nodes", number), hint=hint)


def _over(
    what: str, shares: list[Share], scale: float, available: float, least: float, show: Callable[[float], str]
) -> list[Problem]:
    asked = sum(share.at(scale) for share in shares)
    if asked <= available * (1 + 1e-9):
        return []
    message = f"the nodes ask for {show(asked)} in all, but the host has {show(available)}"
    room = largest_scale(shares, available * HEAD_ROOM) or largest_scale(shares, available)
    if room is None:
        return [Problem(message, key=("nodes",), hint=f"lower the {what}: of the nodes that have one")]
    if any(share.at(room) < least for share in shares):
        return [Problem(message, key=("nodes",), hint="use fewer nodes: no scale gives each of them enough")]
    hint = f"lower scale.{what} to {percent(room)}, which leaves the host some head-room"
    return [Problem(message, key=("scale", what), hint=hint)]
