"""YAML as plain data plus the line of every key: strict, bounded, one sentence when it is bad."""

from __future__ import annotations

import re
import stat
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from fogctl.config.problems import KeyPath
from fogctl.config.units import quoted
from fogctl.errors import FogError

MAX_BYTES = 1 << 20
_MAX_VALUES = 50_000
_MAX_DEPTH = 20
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INT = re.compile(r"[+-]?(?:0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"[+-]?(?:[0-9]{1,18}\.[0-9]{0,18}|\.[0-9]{1,18})(?:[eE][+-]?[0-9]{1,3})?")
_WORDS: dict[str, Any] = {
    "": None,
    "~": None,
    "null": None,
    "true": True,
    "false": False,
    ".inf": float("inf"),
    "-.inf": float("-inf"),
    ".nan": float("nan"),
}
_NODE_RANGE = re.compile(r"[\w-]{1,30}\[\d{1,9}-\d{1,9}\]")
_PLAIN_TAGS = (None, "!", "tag:yaml.org,2002:str", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")


@dataclass(slots=True)
class Mark:
    """Where a value stands, and where its parts stand."""

    line: int
    parts: dict[Hashable, Mark] = field(default_factory=dict)
    size: int = 1


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed YAML file: its data, and where each part of it stands."""

    file: str
    data: Any
    mark: Mark

    def line(self, key: KeyPath) -> int:
        """The line of that key path, or of its nearest parent that exists."""
        mark = self.mark
        for part in key:
            inner = mark.parts.get(part)
            if inner is None:
                break
            mark = inner
        return mark.line


def read_text(path: Path, what: str = "file", most_bytes: int = MAX_BYTES) -> str:
    """The text of a small UTF-8 file; FogError in one sentence if it is anything else."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise FogError(f"is a folder, not a {what}", file=path, hint="name a file")
        if not stat.S_ISREG(mode):
            raise FogError("is not a regular file", file=path, hint=f"write the {what} to a plain file first")
        with path.open("rb") as stream:
            raw = stream.read(most_bytes + 1)
    except FileNotFoundError:
        raise FogError(
            "no such file", file=path, hint="check the name, or write one with: fogctl init"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FogError(f"cannot be read: {reason}", file=quoted(str(path))[1:-1]) from None
    return decode(raw, str(path), what, most_bytes)


def decode(raw: bytes, file: str, what: str = "file", most_bytes: int = MAX_BYTES) -> str:
    """Bytes as UTF-8 text, with a byte-order mark removed."""
    if len(raw) > most_bytes:
        raise FogError(
            f"is larger than {most_bytes >> 20} MiB, too large for a {what}", file=file, hint="check the name"
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise FogError(
            f"is not UTF-8 text (byte 0x{raw[error.start]:02x})",
            file=file,
            line=line,
            hint="save it as UTF-8",
        ) from None


def read(path: Path, what: str = "file") -> Document:
    """Read a YAML file."""
    return parse(read_text(path, what), str(path))


def parse(text: str, file: str) -> Document:
    """Parse YAML text; `file` is only named in errors."""
    loader = None
    try:
        loader = _LOADER(text)
        return _build(_events(loader), file)
    except yaml.YAMLError as error:
        raise _syntax_error(error, text, file) from None
    finally:
        if loader is not None:
            loader.dispose()


def _events(loader: Any) -> Iterator[Any]:
    while loader.check_event():
        yield loader.get_event()


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not been seen yet."""

    value: Any
    mark: Mark
    anchor: str | None
    key: Any = None
    key_line: int = 0
    wants_key: bool = False


def _build(events: Iterator[Any], file: str) -> Document:
    """Turn parser events into data and marks without recursion, so that depth and size can be bounded."""
    stack: list[_Open] = []
    anchors: dict[str, tuple[Any, Mark]] = {}
    root: list[tuple[Any, Mark]] = []
    values = 0

    def add(value: Any, mark: Mark) -> None:
        if not stack:
            root.append((value, mark))
            return
        top = stack[-1]
        top.mark.size += mark.size
        if isinstance(top.value, list):
            top.mark.parts[len(top.value)] = mark
            top.value.append(value)
        elif top.wants_key:
            _check_key(top, value, mark, file)
            top.key, top.key_line, top.wants_key = value, mark.line, False
        else:
            mark = Mark(top.key_line, mark.parts, mark.size)
            top.value[top.key], top.mark.parts[top.key], top.wants_key = value, mark, True

    for event in events:
        line = event.start_mark.line + 1
        kind = type(event)
        if kind is yaml.ScalarEvent:
            values += 1
            _check_tag(event, file, line)
            plain = not event.style and event.implicit[0]
            value = _scalar(event.value) if plain else event.value
            mark = Mark(line)
            if event.anchor:
                anchors[event.anchor] = (value, mark)
            add(value, mark)
        elif kind in (yaml.MappingStartEvent, yaml.SequenceStartEvent):
            values += 1
            _check_tag(event, file, line)
            if len(stack) >= _MAX_DEPTH:
                raise FogError("is nested too deeply", file=file, line=line, hint="see docs/configuration.md")
            mapping = kind is yaml.MappingStartEvent
            if mapping and stack and stack[-1].wants_key:
                raise FogError("a key must be a plain word", file=file, line=line, hint="write key: value")
            stack.append(_Open({} if mapping else [], Mark(line), event.anchor, wants_key=mapping))
        elif kind in (yaml.MappingEndEvent, yaml.SequenceEndEvent):
            done = stack.pop()
            if done.anchor:
                anchors[done.anchor] = (done.value, done.mark)
            add(done.value, done.mark)
        elif kind is yaml.AliasEvent:
            if event.anchor not in anchors:
                raise FogError(f"the alias *{event.anchor} has no anchor before it", file=file, line=line)
            value, mark = anchors[event.anchor]
            # An alias costs as much as what it stands for: that is what stops nested aliases from exploding.
            values += mark.size
            add(value, Mark(line, mark.parts, mark.size))
        elif kind is yaml.DocumentStartEvent and root:
            raise FogError(
                "holds a second YAML document", file=file, line=line, hint="keep one, without a second ---"
            )
        if values > _MAX_VALUES:
            raise FogError(
                f"holds more than {_MAX_VALUES:,} values", file=file, line=line, hint="make it smaller"
            )
    if not root or root[0][0] is None:
        raise FogError("is empty", file=file, hint="start from an example: fogctl init --no-up")
    return Document(file, *root[0])


def _check_key(top: _Open, key: Any, mark: Mark, file: str) -> None:
    if not isinstance(key, str):
        raise FogError(
            f"a key must be a word, not {quoted(str(key))}", file=file, line=mark.line, hint="quote it"
        )
    if key in top.value:
        first = top.mark.parts[key].line
        raise FogError(
            f"the key {quoted(key)} is given twice, first on line {first}",
            file=file,
            line=mark.line,
            hint="remove one of them",
        )


def _check_tag(event: Any, file: str, line: int) -> None:
    if event.tag not in _PLAIN_TAGS:
        raise FogError(
            f"the YAML tag {quoted(event.tag)} is not supported", file=file, line=line, hint="remove it"
        )


def _scalar(text: str) -> Any:
    """A plain scalar by YAML 1.2's rules (so `no` and `1:30` stay words), bounded in length."""
    if text in _WORDS:
        return _WORDS[text]
    first = text[0]
    if first.isdigit() or first in "+-.":
        if _INT.fullmatch(text):
            return int(text)
        if _FLOAT.fullmatch(text):
            return float(text)
    return text


def _syntax_error(error: yaml.YAMLError, text: str, file: str) -> FogError:
    """The parser's complaint as one sentence, with the usual causes named."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line = mark.line + 1 if mark is not None else None
    if mark is None and getattr(error, "position", None) is not None:
        line = text[: error.position].count("\n") + 1  # type: ignore[attr-defined]
        return FogError(
            "holds characters that are not text", file=file, line=line, hint="is it a binary file?"
        )
    lines = text.splitlines()
    near = lines[line - 1] if line is not None and 0 < line <= len(lines) else ""
    if "control characters" in str(error) or "special characters" in str(error):
        return FogError(
            "holds characters that are not text", file=file, line=line, hint="is it a binary file?"
        )
    if near[: len(near) - len(near.lstrip())].count("\t") or (near and "\\t" in str(error)):
        return FogError("a tab is used for indentation", file=file, line=line, hint="use spaces")
    if (found := _NODE_RANGE.search(near)) and "{" in near:
        return FogError("is not valid YAML", file=file, line=line, hint=f'quote the node range: "{found[0]}"')
    problem = getattr(error, "problem", None) or "it cannot be parsed"
    hint = "check indentation, quotes and brackets on this line and the one before"
    return FogError(f"is not valid YAML: {problem}", file=file, line=line, hint=hint)
