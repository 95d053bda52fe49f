"""The latency matrix: round-trip delay, jitter, loss and rate between every pair of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fognetem.path import UNIMPAIRED, Path

__all__ = ["UNIMPAIRED", "LatencyMatrix", "Path"]


@dataclass(frozen=True, slots=True)
class LatencyMatrix:
    """Symmetric paths between nodes; a pair that is not given has the default path (no impairment).

    Two matrices are equal when nodes (in order) and all paths are equal, however they were written.
    """

    nodes: tuple[str, ...]
    paths: tuple[tuple[str, str, Path], ...] = ()
    _by_pair: dict[tuple[str, str], Path] = field(init=False, repr=False, compare=False)
    _order: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        nodes = tuple(self.nodes)
        order: dict[str, int] = {}
        for node in nodes:
            if not isinstance(node, str) or not node.strip():
                raise ValueError(f"a node's name must be a non-empty text, not {node!r}")
            if node in order:
                raise ValueError(f'node "{node}" is named twice')
            order[node] = len(order)
        object.__setattr__(self, "nodes", nodes)
        object.__setattr__(self, "_order", order)
        by_pair: dict[tuple[str, str], Path] = {}
        for a, b, path in self.paths:
            if not isinstance(path, Path):
                raise ValueError(f"the path {a}–{b} must be a Path, not {path!r}")
            pair = self._pair(a, b)
            if a == b:
                raise ValueError(f'node "{a}" cannot have a path to itself')
            if by_pair.setdefault(pair, path) != path:
                raise ValueError(f"the path {a}–{b} is given twice and differs: {by_pair[pair]} and {path}")
        # The canonical form (node order, nothing that is not impaired) makes equality one of meaning.
        kept = {pair: path for pair, path in by_pair.items() if path != UNIMPAIRED}
        ordered = sorted(kept, key=lambda pair: (order[pair[0]], order[pair[1]]))
        object.__setattr__(self, "_by_pair", kept)
        object.__setattr__(self, "paths", tuple((a, b, kept[a, b]) for a, b in ordered))

    def __reduce__(self) -> tuple[Any, ...]:
        return (LatencyMatrix, (self.nodes, self.paths))

    def _pair(self, a: str, b: str) -> tuple[str, str]:
        for node in (a, b):
            if node not in self._order:
                known = ", ".join(self.nodes) or "none"
                raise ValueError(f'unknown node "{node}" (known: {known})')
        return (a, b) if self._order[a] <= self._order[b] else (b, a)

    @classmethod
    def uniform(cls, nodes: Iterable[str], path: Path) -> LatencyMatrix:
        """The same path between every two nodes."""
        names = tuple(nodes)
        return cls(names, tuple((a, b, path) for i, a in enumerate(names) for b in names[i + 1 :]))

    def path(self, a: str, b: str) -> Path:
        """What lies between a and b; unimpaired from a node to itself."""
        return self._by_pair.get(self._pair(a, b), UNIMPAIRED)

    def rtt_ms(self, a: str, b: str) -> float:
        """The round trip between a and b in milliseconds."""
        return self.path(a, b).rtt_ms

    def pairs(self) -> Iterator[tuple[str, str, Path]]:
        """Every unordered pair of nodes, impaired or not, in node order."""
        for i, a in enumerate(self.nodes):
            for b in self.nodes[i + 1 :]:
                yield a, b, self.path(a, b)

    def max_rtt_ms(self, nodes: Iterable[str] | None = None, origin: str | None = None) -> float:
        """The largest RTT between two of the nodes, or from `origin` to one of them; 0 without a pair."""
        chosen = self.nodes if nodes is None else tuple(nodes)
        if origin is not None:
            return max((self.rtt_ms(origin, node) for node in chosen), default=0.0)
        pairs = ((a, b) for i, a in enumerate(chosen) for b in chosen[i + 1 :])
        return max((self.rtt_ms(a, b) for a, b in pairs), default=0.0)

    def nearest(self, to: Iterable[str] | str, among: Iterable[str]) -> str:
        """The candidate whose largest RTT to the given nodes is smallest; the first in order on a tie."""
        return min(self._candidates(among), key=self._reach(to))

    def farthest(self, to: Iterable[str] | str, among: Iterable[str] | None = None) -> str:
        """The candidate (by default one of the given nodes) whose largest RTT to them is largest."""
        origins = (to,) if isinstance(to, str) else tuple(to)
        return max(self._candidates(origins if among is None else among), key=self._reach(origins))

    @staticmethod
    def _candidates(among: Iterable[str]) -> tuple[str, ...]:
        candidates = tuple(among)
        if not candidates:
            raise ValueError("there is no node to choose from")
        return candidates

    def _reach(self, to: Iterable[str] | str) -> Any:
        origins = (to,) if isinstance(to, str) else tuple(to)
        return lambda node: max((self.rtt_ms(node, origin) for origin in origins), default=0.0)

    def with_path(self, a: str, b: str, path: Path) -> LatencyMatrix:
        """The same matrix with another path between a and b."""
        pair = self._pair(a, b)
        others = tuple(entry for entry in self.paths if (entry[0], entry[1]) != pair)
        return LatencyMatrix(self.nodes, (*others, (a, b, path)))

    def restricted_to(self, nodes: Iterable[str]) -> LatencyMatrix:
        """The matrix of some of the nodes, in the order given."""
        names = tuple(nodes)
        for name in names:
            self._pair(name, name)
        kept = set(names)
        return LatencyMatrix(names, tuple(entry for entry in self.paths if {entry[0], entry[1]} <= kept))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; `from_dict` reads them back."""
        return {
            "nodes": list(self.nodes),
            "paths": [{"between": [a, b], **path.to_dict()} for a, b, path in self.paths],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> LatencyMatrix:
        """The inverse of `to_dict`."""
        if not isinstance(values, Mapping) or "nodes" not in values:
            raise ValueError('a latency matrix needs the key "nodes"')
        if unknown := sorted(set(values) - {"nodes", "paths"}):
            raise ValueError(f'a latency matrix has no key "{unknown[0]}" (known: nodes, paths)')
        paths: list[tuple[str, str, Path]] = []
        for number, entry in enumerate(values.get("paths", ())):
            between = entry.get("between") if isinstance(entry, Mapping) else None
            if not isinstance(between, list | tuple) or len(between) != 2:
                raise ValueError(f"paths[{number}]: between must name two nodes")
            rest = {key: value for key, value in entry.items() if key != "between"}
            try:
                paths.append((between[0], between[1], Path.from_dict(rest)))
            except ValueError as error:
                raise ValueError(f"paths[{number}] {between[0]}–{between[1]}: {error}") from None
        return cls(tuple(values["nodes"]), tuple(paths))

    @classmethod
    def from_csv(cls, file: Any) -> LatencyMatrix:
        """A square CSV of RTTs (a path or an open text file); see `fognetem.matrix_csv`."""
        from fognetem.matrix_csv import read

        return read(file)

    def to_csv(self, file: Any) -> None:
        """Write the RTTs as a square CSV; jitter, loss and rate have no place there (`to_dict` keeps all)."""
        from fognetem.matrix_csv import write

        write(self, file)

    def max_one_way_ms(self) -> float:
        """The longest a packet can be under way: half of the largest RTT with its jitter."""
        return max(((path.rtt_ms + path.jitter_ms) / 2 for _, _, path in self.paths), default=0.0)


def changed_pairs(old: LatencyMatrix, new: LatencyMatrix) -> tuple[tuple[str, str, Path, Path], ...]:
    """The pairs whose path differs, with the path before and after, in node order."""
    if set(old.nodes) != set(new.nodes):
        gone = sorted(set(old.nodes) ^ set(new.nodes))
        raise ValueError(f"the two matrices do not have the same nodes (only in one: {', '.join(gone)})")
    return tuple((a, b, old.path(a, b), path) for a, b, path in new.pairs() if old.path(a, b) != path)
