"""Latency rules merged into one matrix, field by field: link over site over matrix over default."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

from fognetem.matrix import LatencyMatrix, Path

from fogctl.config import source
from fogctl.config.problems import KeyPath, Problem, choice_hint, refuse
from fogctl.config.testbed_file import BetweenEntry, ChangeEntry, LatencyEntry, path_settings
from fogctl.config.units import quoted
from fogctl.errors import FogError
from fogctl.testbed.model import LatencyChange, Node

Pair = tuple[str, str]
Settings = dict[str, Any]

_LONGEST = 300
_LARGEST_MATRIX = 16 << 20
"""Bytes; 1,023 nodes with long names and decimals fit."""
_ROW = re.compile(r'row "([^"]*)"')


def read_matrix(path: FilePath, nodes: Sequence[Node]) -> LatencyMatrix:
    """The round-trip times of a matrix CSV; its nodes must be those of the testbed."""
    text = source.read_text(path, "latency matrix", _LARGEST_MATRIX)
    _refuse_unprintable(text, path)
    stream = io.StringIO(text, newline="")
    stream.name = str(path)
    try:
        matrix = LatencyMatrix.from_csv(stream)
    except ValueError as error:
        message = (
            str(error).removeprefix(f"{path}: ").replace("\n", " ").replace("\r", " ").replace("\t", " ")
        )
        message = message if len(message) < _LONGEST else message[:_LONGEST] + "…"
        row = _ROW.search(message)
        raise FogError(message, file=path, line=_line_of(text, row[1]) if row else 1) from None
    known = [node.name for node in nodes]
    unknown = [
        Problem(f"unknown node {quoted(name)}", _line_of(text, name), hint=choice_hint(name, known))
        for name in matrix.nodes
        if name not in set(known)
    ]
    absent = [
        Problem(f'the node "{name}" is not in the matrix', 1, hint="add its row and column; 0 means no delay")
        for name in known
        if name not in set(matrix.nodes)
    ]
    refuse(str(path), unknown)
    refuse(str(path), absent)
    return matrix


def _refuse_unprintable(text: str, path: FilePath) -> None:
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        if not line.replace("\t", " ").isprintable():
            message = "holds characters that are not text"
            raise FogError(message, file=path, line=number, hint="is it a CSV file?")


def _line_of(text: str, row: str) -> int:
    for number, line in enumerate(text.splitlines(), 1):
        if number > 1 and line.split(",", 1)[0].strip().strip('"') == row:
            return number
    return 1


@dataclass(slots=True)
class Rules:
    """The latency rules of one testbed, checked against its nodes; problems are gathered, not raised."""

    nodes: Sequence[Node]
    entry: LatencyEntry
    matrix: LatencyMatrix | None
    problems: list[Problem] = field(default_factory=list)
    _sites: dict[str, list[str]] = field(init=False)
    _places: dict[str, int] = field(init=False)
    _by_site: dict[Pair, tuple[int, Settings]] = field(init=False)
    _by_link: dict[Pair, tuple[int, Settings]] = field(init=False)

    def __post_init__(self) -> None:
        self._places = {node.name: place for place, node in enumerate(self.nodes)}
        self._sites = {}
        for node in self.nodes:
            self._sites.setdefault(node.site, []).append(node.name)
        self._by_site = self._collect("sites", self.entry.sites, list(self._sites), "site")
        self._by_link = self._collect("links", self.entry.links, list(self._places), "node")

    def _collect(
        self, where: str, entries: list[BetweenEntry], known: list[str], what: str
    ) -> dict[Pair, tuple[int, Settings]]:
        found: dict[Pair, tuple[int, Settings]] = {}
        for number, entry in enumerate(entries):
            key: KeyPath = ("latency", where, number, "between")
            if not self._known(entry.between, known, what, key):
                continue
            pair = _sorted(entry.between)
            if pair in found:
                self._add(
                    f"{pair[0]}–{pair[1]} is given twice, first in {where}[{found[pair][0]}]",
                    key,
                    "remove one",
                )
            elif what == "node" and pair[0] == pair[1]:
                self._add(f"a link needs two nodes, not {quoted(pair[0])} twice", key, "name another node")
            else:
                found[pair] = (number, path_settings(entry))
        return found

    def _known(self, names: Iterable[str], known: Sequence[str], what: str, key: KeyPath) -> bool:
        good = True
        for place, name in enumerate(names):
            if name not in known:
                kinds = "nodes" if what == "node" else "sites"
                shown = f"{kinds}: " + ", ".join(known[:12]) + (", …" if len(known) > 12 else "")
                self._add(f"unknown {what} {quoted(name)}", (*key, place), choice_hint(name, known, shown))
                good = False
        return good

    def _add(self, message: str, key: KeyPath, hint: str | None = None) -> None:
        self.problems.append(Problem(message, key=key, hint=hint))

    def latencies(self) -> LatencyMatrix:
        """The merged matrix; incomplete if problems were found."""
        default = path_settings(self.entry.default)
        made: dict[tuple[Any, ...], Path | None] = {}
        paths: list[tuple[str, str, Path]] = []
        if not (default or self.matrix or self._by_site or self._by_link):
            return LatencyMatrix(tuple(self._places))
        for place, a in enumerate(self.nodes):
            for b in self.nodes[place + 1 :]:
                rtt_ms = None if self.matrix is None else self.matrix.rtt_ms(a.name, b.name)
                site = self._by_site.get(_sorted((a.site, b.site)))
                link = self._by_link.get(_sorted((a.name, b.name)))
                recipe = (rtt_ms, None if site is None else site[0], None if link is None else link[0])
                if recipe not in made:
                    made[recipe] = self._merge(a.name, b.name, default, rtt_ms, site, link)
                path = made[recipe]
                if path is not None:
                    paths.append((a.name, b.name, path))
        return LatencyMatrix(tuple(self._places), tuple(paths))

    def _merge(
        self,
        a: str,
        b: str,
        default: Settings,
        rtt_ms: float | None,
        site: tuple[int, Settings] | None,
        link: tuple[int, Settings] | None,
    ) -> Path | None:
        key: KeyPath = ("latency", "default")
        merged = dict(default)
        if rtt_ms is not None:
            merged["rtt_ms"] = rtt_ms
        for where, rule in (("sites", site), ("links", link)):
            if rule is not None:
                key = ("latency", where, rule[0])
                merged |= rule[1]
        return self._path(a, b, merged, key)

    def _path(self, a: str, b: str, settings: Settings, key: KeyPath) -> Path | None:
        if settings.get("jitter_ms", 0.0) > settings.get("rtt_ms", 0.0):
            self._add(
                f"between {a} and {b} the jitter ({settings['jitter_ms']:g} ms) is more than "
                f"the round trip ({settings.get('rtt_ms', 0.0):g} ms)",
                key,
                "raise rtt or lower jitter; set jitter: 0ms where it should not apply",
            )
            return None
        if settings.get("rate_bit_s") == math.inf:
            settings = settings | {"rate_bit_s": None}
        return Path(**settings)

    def changes(self, entries: list[ChangeEntry], start: LatencyMatrix) -> Iterator[LatencyChange]:
        """The schedule: each change keeps whatever it does not mention, as it is at that moment."""
        now: dict[Pair, Path] = {}
        seen: dict[tuple[float, Pair], int] = {}
        before = 0.0
        for number, entry in enumerate(entries):
            key: KeyPath = ("schedule", number)
            if entry.at < before:
                self._add(
                    f"comes before the entry above it ({entry.at:g} s after {before:g} s)",
                    (*key, "at"),
                    "put the schedule in order of time",
                )
            before = max(before, entry.at)
            for a, b in self._changed_pairs(entry, key):
                pair = _sorted((a, b))
                if (entry.at, pair) in seen:
                    first = seen[entry.at, pair]
                    self._add(
                        f"{a}–{b} is changed twice at {entry.at:g} s, first in schedule[{first}]",
                        key,
                        "remove one",
                    )
                    continue
                seen[entry.at, pair] = number
                current = now.get(pair) or start.path(a, b)
                path = self._path(a, b, _settings(current) | path_settings(entry), key)
                if path is None:
                    break
                now[pair] = path
                yield LatencyChange(entry.at, a, b, path)

    def _changed_pairs(self, entry: ChangeEntry, key: KeyPath) -> list[Pair]:
        if entry.between is not None:
            a, b = entry.between
            if not self._known(entry.between, list(self._places), "node", (*key, "between")):
                return []
            if a == b:
                self._add(
                    f"a change needs two nodes, not {quoted(a)} twice", (*key, "between"), "name another node"
                )
                return []
            return [(a, b)]
        assert entry.sites is not None
        if not self._known(entry.sites, list(self._sites), "site", (*key, "sites")):
            return []
        here, there = entry.sites
        pairs = {
            tuple(sorted((a, b), key=self._places.__getitem__))
            for a in self._sites[here]
            for b in self._sites[there]
            if a != b
        }
        return sorted(
            ((a, b) for a, b in pairs), key=lambda pair: (self._places[pair[0]], self._places[pair[1]])
        )


def _settings(path: Path) -> Settings:
    return {
        "rtt_ms": path.rtt_ms,
        "jitter_ms": path.jitter_ms,
        "loss": path.loss,
        "rate_bit_s": path.rate_bit_s,
        "reorder": path.reorder,
    }


def _sorted(pair: Pair) -> Pair:
    a, b = pair
    return (a, b) if a <= b else (b, a)
