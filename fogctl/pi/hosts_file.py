"""`hosts.txt`: a line a board, turned into the testbed.yaml that describes them. Pure."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from fogctl.config import hosts_section
from fogctl.config.fields import node_name
from fogctl.config.problems import Problem, choice_hint, refuse
from fogctl.config.shipped import SCHEMA_COMMENT
from fogctl.config.units import quoted
from fogctl.testbed.model import Role

DEFAULT_BOARD = "rpi4-4g"
DEFAULT_SITE = "main"
_SETTINGS = ("role", "site", "board", "key", "data")
_WHERE = re.compile(
    r"(?:(?P<user>[^@]*)@)?(?:\[(?P<six>[^]]*)\]|(?P<plain>[^:]*|[^:]*:[^:]*:.*?))(?::(?P<port>\d+))?"
)

EXAMPLE = """\
# name   where              settings (all optional)
cloud    pi@192.168.1.10    role=control
pi1      pi@192.168.1.11    board=rpi4-4g site=north
pi2      pi2.local          key=~/.ssh/fog
"""


@dataclass(frozen=True, slots=True)
class Board:
    """One line: a board, how it is reached, and what it is for."""

    name: str
    address: str
    user: str = hosts_section.DEFAULT_USER
    port: int = 22
    role: Role = Role.edge
    site: str = DEFAULT_SITE
    board: str = DEFAULT_BOARD
    key: str | None = None
    data_address: str | None = None
    """Where the other boards reach it, if that is another network than SSH's."""


def read(text: str, file: str, known_boards: Sequence[str] | None = None) -> list[Board]:
    """The boards of a hosts file; FogError with a sentence for each line that is wrong.

    `known_boards`: the names that `board=` may have; None: any.
    """
    found: list[tuple[int, Board]] = []
    problems: list[Problem] = []
    # Editors of other systems begin a file with a mark.
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        try:
            found.append((number, _board(words)))
        except ValueError as error:
            problems.append(Problem(str(error), number))
    boards = [board for _, board in found]
    problems += _twice(found)
    if known_boards is not None:
        problems += [
            Problem(
                f"unknown board {quoted(board.board)}",
                number,
                hint=choice_hint(board.board, known_boards, "see: fogctl board list"),
            )
            for number, board in found
            if board.board not in known_boards
        ]
    if not boards and not problems:
        problems.append(Problem("names no board", hint="write a line a board: pi1 pi@192.168.1.11"))
    refuse(file, problems)
    if not any(board.role is Role.control for board in boards):
        boards[0] = dataclasses.replace(boards[0], role=Role.control)
    return boards


def _board(words: Sequence[str]) -> Board:
    name, *rest = words
    if not rest or "=" in rest[0]:
        # A host name says by itself how the node is called; an address does not.
        user, address, port = _where(name)
        label = address.split(".")[0]
        if not re.search("[A-Za-z]", label) or ":" in address:
            raise ValueError(f'"{name}" needs a name before it (write for example: pi1 {name})')
        settings = rest
        name = label.casefold()
    else:
        user, address, port = _where(rest[0])
        settings = rest[1:]
    said = _settings(settings)
    return Board(
        node_name(name),
        address,
        user,
        port,
        _role(said.get("role", Role.edge.value)),
        node_name(said.get("site", DEFAULT_SITE)),
        said.get("board", DEFAULT_BOARD),
        said.get("key"),
        hosts_section.data_address(said["data"]) if "data" in said else None,
    )


def _where(text: str) -> tuple[str, str, int]:
    """`user@address:port`, of which only the address must be there; IPv6 with a port is in brackets."""
    match = _WHERE.fullmatch(text)
    if match is None:
        raise ValueError(f'"{text}" is not a host (write for example pi@192.168.1.11 or pi@pi1.local:2222)')
    plain = match["plain"] or ""
    address = match["six"] or plain
    port = match["port"]
    if plain.count(":") > 1 and port is not None:  # an IPv6 address without brackets has no port
        address, port = f"{plain}:{port}", None
    user = hosts_section.user(match["user"]) if match["user"] is not None else hosts_section.DEFAULT_USER
    number = 22 if port is None else int(port)
    if not 0 < number < 65536:
        raise ValueError(f'"{text}": {number} is not a port')
    return user, hosts_section.address(address), number


def _settings(words: Sequence[str]) -> dict[str, str]:
    said: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not value:
            raise ValueError(f'"{word}" is not a setting (write for example role=edge)')
        if key not in _SETTINGS:
            raise ValueError(f'unknown setting "{key}" ({choice_hint(key, _SETTINGS)})')
        if key in said:
            raise ValueError(f"{key} is given twice")
        said[key] = value
    return said


def _role(word: str) -> Role:
    try:
        return Role(word)
    except ValueError:
        known = [role.value for role in Role]
        raise ValueError(f'unknown role "{word}" ({choice_hint(word, known)})') from None


def _twice(found: Sequence[tuple[int, Board]]) -> list[Problem]:
    names: dict[str, int] = {}
    places: dict[tuple[str, int], int] = {}
    data_addresses: dict[str, int] = {}
    controls: list[int] = []
    problems = []
    for number, board in found:
        if (first := names.setdefault(board.name, number)) != number:
            problems.append(Problem(f"the name {board.name} is taken by line {first}", number))
        if (first := places.setdefault((board.address, board.port), number)) != number:
            message = f"{board.address} port {board.port} is the host of line {first} already"
            problems.append(Problem(message, number, hint="give each board its own"))
        if board.data_address is not None:
            first = data_addresses.setdefault(board.data_address, number)
            if first != number:
                message = f"data={board.data_address} is that of line {first} already"
                problems.append(Problem(message, number, hint="give each board its own"))
        if board.role is Role.control:
            controls.append(number)
    if len(controls) > 1:
        message = f"the role control is taken by line {controls[0]}"
        problems.append(Problem(message, controls[1], hint="keep one; the others are edge or broker"))
    return problems


def yaml_text(boards: Sequence[Board], name: str) -> str:
    """The testbed.yaml of these boards: no latency is added until the user says which."""
    lines = [
        SCHEMA_COMMENT,
        "#",
        "# Real boards. Latencies are added between them as in any testbed: see docs/configuration.md.",
        f"name: {name}",
        "kind: k3s",
        "tolerance: 2ms",
        "nodes:",
    ]
    for each in boards:
        lines.append(
            f"  - {{name: {each.name}, role: {each.role.value}, site: {each.site}, "
            f"board: {_word(each.board)}}}"
        )
    lines += ["latency:", "  default: {rtt: 0ms} # nothing is added", "hosts:"]
    for each in boards:
        parts = [f"address: {json.dumps(each.address)}", f"user: {each.user}"]
        parts += [f"port: {each.port}"] if each.port != 22 else []
        parts += [f"key: {json.dumps(each.key)}"] if each.key is not None else []
        parts += [f"data_address: {json.dumps(each.data_address)}"] if each.data_address is not None else []
        lines.append(f"  {each.name}: {{{', '.join(parts)}}}")
    return "\n".join(lines) + "\n"


def _word(text: str) -> str:
    return text if re.fullmatch(r"[a-z][a-z0-9-]*", text) else json.dumps(text)
