"""Decides whether any plan keeps given limits, exactly and fast: reachable states as bits of one integer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fogmodels.placement.counting import TooLarge
from fogmodels.placement.problem import Bools, Ints
from fogmodels.placement.vectors import VectorSpace

_PAIRS_AT_ONCE = 2_000_000


@dataclass(frozen=True, slots=True, eq=False)
class _Moves:
    """The allowed vectors of one class, in lexicographic order of their steps."""

    numbers: Ints  # position in the class
    steps: Ints
    offsets: Ints  # step · strides: how far a state's bit moves
    rows: list[tuple[int, list[int], int]]  # (first coordinate that changed, step, offset)


class Reach:
    """Feasibility of rank limits over a vector space.

    A state says how much of each coordinate the first workers hold; bit number `state · strides` of a
    Python integer says whether it can be reached, so one shift moves all states by a vector. Half of the
    workers are filled from the front, half from the back, and the halves must meet.
    """

    def __init__(self, space: VectorSpace) -> None:
        self.space = space
        shape = [n + 1 for n in space.extent]
        self._strides = np.array([int(np.prod(shape[i + 1 :])) for i in range(len(shape))], dtype=np.int64)
        self._masks = [self._room(shape, i) for i in range(len(shape))]
        # Moves need not be used up: start from every number of them.
        self._start = (1 << (space.extent[-1] + 1)) - 1 if space.limits_moves else 1
        self._order = [c for c, cls in enumerate(space.classes) for _ in cls.members]
        self._sorted = [np.lexsort(c.steps.T[::-1]) for c in space.classes]

    def _room(self, shape: list[int], i: int) -> list[int]:
        """For n = 0, 1, ...: the states to which n more of coordinate i may still be added."""
        most = max((int(c.steps[:, i].max()) for c in self.space.classes if len(c.steps)), default=0)
        axis = np.arange(shape[i]).reshape([-1 if j == i else 1 for j in range(len(shape))])
        return [_to_integer(np.broadcast_to(axis + n < shape[i], shape).ravel()) for n in range(most + 1)]

    def _allowed(self, ranks: Ints) -> list[_Moves] | None:
        """Per class, the vectors within the ranks; None if some class has none."""
        made = []
        for order, cls in zip(self._sorted, self.space.classes, strict=True):
            numbers = order[(cls.ranks[order] <= ranks).all(axis=1)]
            if len(numbers) == 0:
                return None
            steps = cls.steps[numbers]
            offsets = steps @ self._strides
            changed = np.zeros(len(steps), dtype=np.int64)
            if len(steps) > 1 and steps.shape[1]:
                changed[1:] = (np.diff(steps, axis=0) != 0).argmax(axis=1)
            rows = list(zip(changed.tolist(), steps.tolist(), offsets.tolist(), strict=True))
            made.append(_Moves(numbers, steps, offsets, rows))
        return made

    def _advance(self, states: int, moves: _Moves) -> int:
        """All states reachable by one more worker."""
        width = len(self._masks)
        masks = self._masks
        prefix = [states] * (width + 1)  # states with room for the first i coordinates of the vector
        reached = 0
        for first, step, offset in moves.rows:
            for i in range(first, width):
                amount = step[i]
                prefix[i + 1] = prefix[i] & masks[i][amount] if amount else prefix[i]
            if prefix[width]:
                reached |= prefix[width] << offset
        return reached

    def _halves(self, allowed: list[_Moves]) -> tuple[list[int], list[int]]:
        """Reachable states after each of the first workers, and after each of the last (from the end)."""
        half = len(self._order) // 2
        head, tail = self._order[:half], self._order[half:][::-1]
        front = [self._start]
        for c in head:
            front.append(self._advance(front[-1], allowed[c]))
        shared = 0
        while shared < len(head) and head[shared] == tail[shared]:
            shared += 1  # the same classes from both ends have the same layers
        back = front[: shared + 1]
        for c in tail[shared:]:
            back.append(self._advance(back[-1], allowed[c]))
        return front, back

    def _mirror(self, states: int) -> int:
        """The states that complete the given ones to the full problem."""
        return int(format(states, f"0{self.space.states}b")[::-1], 2)

    def feasible(self, ranks: Ints) -> bool:
        """Whether any plan keeps these ranks."""
        allowed = self._allowed(ranks)
        if allowed is None:
            return False
        front, back = self._halves(allowed)
        return bool(front[-1] & self._mirror(back[-1]))

    def plan(self, ranks: Ints) -> Ints | None:
        """One plan (workers × operators) that keeps these ranks, or None."""
        allowed = self._allowed(ranks)
        if allowed is None:
            return None
        front, back = self._halves(allowed)
        meeting = front[-1] & self._mirror(back[-1])
        if not meeting:
            return None
        state = (meeting & -meeting).bit_length() - 1
        half = len(self._order) // 2
        head = self._trace(state, front, allowed, self._order[:half])
        tail = self._trace(self.space.states - 1 - state, back, allowed, self._order[half:][::-1])
        return np.asarray(self._assemble(np.array([head + tail[::-1]], dtype=np.int64))[0])

    def _trace(self, state: int, layers: list[int], allowed: list[_Moves], order: list[int]) -> list[int]:
        """The vectors by which `state` was reached, in the order of the workers."""
        found: list[int] = []
        extent = np.array(self.space.extent)
        for k in range(len(order), 0, -1):
            moves = allowed[order[k - 1]]
            here = (state // self._strides) % (extent + 1)
            fits = np.flatnonzero((moves.steps <= here).all(axis=1))
            before = layers[k - 1]
            pick = next(int(j) for j in fits if before >> (state - int(moves.offsets[j])) & 1)
            found.append(int(moves.numbers[pick]))
            state -= int(moves.offsets[pick])
        return found[::-1]

    def plans(self, ranks: Ints, most: int) -> Ints:
        """Every distinct plan (plans × workers × operators) that keeps these ranks; TooLarge above `most`."""
        workers, ops = len(self._order), len(self.space.problem.operators)
        allowed = self._allowed(ranks)
        if allowed is None:
            return np.zeros((0, workers, ops), dtype=np.int64)
        after = [self._start]  # after[k]: what the last k workers can hold
        for c in self._order[::-1]:
            after.append(self._advance(after[-1], allowed[c]))
        # Moves: the list needs each plan once, so count from none and let the end be free.
        left = self.space.states - 1
        rest = np.array([left], dtype=np.int64)
        chosen = np.zeros((1, 0), dtype=np.int64)
        if not after[workers] >> left & 1:
            return np.zeros((0, workers, ops), dtype=np.int64)
        for k, c in enumerate(self._order):
            moves = allowed[c]
            ok = _to_bools(after[workers - k - 1], self.space.states)
            same = k > 0 and self._order[k - 1] == c
            last = chosen[:, -1] if same else np.zeros(len(rest), dtype=np.int64)
            rest, chosen = self._extend(rest, chosen, last, moves, ok, most)
        picked = np.stack([allowed[c].numbers[chosen[:, k]] for k, c in enumerate(self._order)], axis=1)
        return self._assemble(picked)

    def _extend(
        self, rest: Ints, chosen: Ints, last: Ints, moves: _Moves, ok: Bools, most: int
    ) -> tuple[Ints, Ints]:
        """Give the next worker every vector that still leads to a full plan, not before the last one used."""
        extent = np.array(self.space.extent)
        batch = max(1, _PAIRS_AT_ONCE // len(moves.offsets))
        new_rest, new_chosen, total = [], [], 0
        for start in range(0, len(rest), batch):
            part = rest[start : start + batch]
            keep = last[start : start + batch, None] <= np.arange(len(moves.offsets))[None, :]
            for i, stride in enumerate(self._strides):
                keep &= (part // stride % (extent[i] + 1))[:, None] >= moves.steps[None, :, i]
            rows, cols = np.nonzero(keep)
            after = part[rows] - moves.offsets[cols]
            good = ok[after]
            rows, cols = rows[good], cols[good]
            new_rest.append(after[good])
            new_chosen.append(np.column_stack([chosen[start : start + batch][rows], cols]))
            total += len(rows)
            if total > most:
                raise TooLarge(f"more than {most} plans to list; set tighter limits or ask for one per cost")
        return np.concatenate(new_rest), np.concatenate(new_chosen)

    def _assemble(self, picked: Ints) -> Ints:
        """Plans from vector numbers, with rows in the order of the problem's workers."""
        problem = self.space.problem
        made = np.zeros((len(picked), len(problem.workers), len(problem.operators)), dtype=np.int64)
        column = 0
        for cls in self.space.classes:
            for worker in cls.members:
                made[:, worker] = cls.vectors[picked[:, column]]
                column += 1
        return made


def _to_integer(flags: Bools) -> int:
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def _to_bools(states: int, count: int) -> Bools:
    packed = np.frombuffer(states.to_bytes((count + 7) // 8, "little"), dtype=np.uint8)
    return np.unpackbits(packed, bitorder="little", count=count).astype(bool)
