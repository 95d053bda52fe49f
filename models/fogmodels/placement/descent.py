"""Local search for large problems: exchange tasks between workers while the worst loads go down."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fogmodels.placement.costs import LoadModel, Scale, latencies
from fogmodels.placement.problem import Floats, Ints, Problem

_SHARPNESS = (3.0, 12.0, 48.0)
_AMOUNTS = (1, 2, 5)
_MOST_STEPS = 600
_HOT = 12
_SHORTLIST = 24


@dataclass(slots=True)
class Found:
    """The best plan seen: its largest share of a threshold, and the plan."""

    objective: float
    plan: Ints


class Descent:
    """Descends the potential sum over workers and dimensions of exp(sharpness · share of the threshold).

    The potential is a sum over workers, so all exchanges (k tasks of operator i here for k of j there) are
    scored from one table of single-worker changes. Idle slots are exchanged like tasks.
    """

    def __init__(self, problem: Problem, alpha: Floats, only: tuple[int, ...] | None = None) -> None:
        self.problem = problem
        self.scale = Scale.of(problem)
        self.alpha = np.where(alpha <= 0, 1e-6, alpha)
        self.active = tuple(range(len(problem.dimensions))) if only is None else only
        self.capacity = problem.capacities().T
        self.loads_of = LoadModel(problem)
        span = np.where(self.scale.flat, np.inf, self.scale.worst - self.scale.least)
        per_load = 1.0 / (span * np.where(np.isinf(self.alpha), 1.0, self.alpha))
        self.per_load = np.where(np.isin(np.arange(len(span)), self.active), per_load, 0.0)
        idle = int(problem.slots.sum()) - problem.tasks
        workers = len(problem.workers)
        self.kinds = len(problem.operators) + (1 if idle else 0)
        self.lower = np.zeros((workers, self.kinds), dtype=np.int64)
        self.upper = np.tile(problem.slots[:, None], (1, self.kinds))
        self.lower[:, : len(problem.operators)] = problem.lower
        self.upper[:, : len(problem.operators)] = problem.upper
        self.changes = self._changes()

    def _changes(self) -> Ints:
        eye = np.eye(self.kinds, dtype=np.int64)
        once = eye[None, :, :] - eye[:, None, :]  # [i, j]: one i less, one j more
        return np.stack([k * once for k in _AMOUNTS])

    def objective(self, plan: Ints) -> float:
        """The largest share of a threshold a plan uses."""
        used = self._used(plan, np.arange(len(plan)))
        return max(float(used.max()), self._latency_share(plan))

    def _used(self, counts: Ints, rows: Ints) -> Floats:
        """Shares of the cpu, io and net thresholds that workers (numbered by rows) use with these counts."""
        loads = self.loads_of(counts[:, : len(self.problem.operators)]) / self.capacity[rows]
        return np.maximum((loads - self.scale.least[:3]) * self.per_load[:3], 0.0)

    def _latency_share(self, plan: Ints) -> float:
        if 3 not in self.active:
            return 0.0
        return float(
            latencies(self.problem, plan[None, :, : len(self.problem.operators)])[0] * self.per_load[3]
        )

    def run(self, plan: Ints, *, rounds: int = 0, good_enough: float = 0.0) -> Found:
        """Descend from a plan, ever sharper; then shake the best plan and descend again, `rounds` times.

        Stops as soon as the objective reaches `good_enough`. The same plan always gives the same answer.
        """
        best = Found(self.objective(plan), plan.copy())
        state = self._with_idle(plan)
        for sharpness in _SHARPNESS:
            state = self._descend(state, sharpness, best)
        rng = np.random.default_rng(0)
        for number in range(rounds):
            if best.objective <= good_enough + 1e-12:
                break
            shaken = self._shake(self._with_idle(best.plan), 2 + number % 5, rng)
            for sharpness in _SHARPNESS[1:]:
                shaken = self._descend(shaken, sharpness, best)
        return best

    def _with_idle(self, plan: Ints) -> Ints:
        spare = (self.problem.slots - plan.sum(axis=1))[:, None]
        return np.concatenate([plan, spare], axis=1) if self.kinds > plan.shape[1] else plan.copy()

    def _shake(self, state: Ints, exchanges: int, rng: np.random.Generator) -> Ints:
        """A few random exchanges of single tasks."""
        for _ in range(exchanges):
            a, b = rng.choice(len(state), 2, replace=False) if len(state) > 1 else (0, 0)
            i, j = rng.integers(self.kinds, size=2)
            trial = state.copy()
            trial[a] += self.changes[0, i, j]
            trial[b] += self.changes[0, j, i]
            inside = (trial >= self.lower).all() and (trial <= self.upper).all()
            if inside and self._keeps_moves(trial[:, : len(self.problem.operators)]):
                state = trial
        return state

    def _table(
        self, state: Ints, rows: Ints, sharpness: float, reference: float
    ) -> tuple[Floats, Floats, Floats]:
        """Shares and potential of the rows now, and its change per (amount, row, out, in); inf: barred."""
        after = state[rows][None, :, None, None, :] + self.changes[:, None]
        low, high = self.lower[rows][None, :, None, None], self.upper[rows][None, :, None, None]
        allowed = ((after >= low) & (after <= high)).all(axis=-1)
        owner = np.broadcast_to(rows[None, :, None, None], allowed.shape)[allowed]
        used = self._used(np.concatenate([state[rows], after[allowed]]), np.concatenate([rows, owner]))
        potential = _potential(used, sharpness, reference)
        now = potential[: len(rows)]
        table = np.full(allowed.shape, np.inf)
        table[allowed] = potential[len(rows) :]
        return used[: len(rows)], now, table - now[None, :, None, None]

    def _descend(self, state: Ints, sharpness: float, best: Found) -> Ints:
        everyone = np.arange(len(state))
        ops = len(self.problem.operators)
        reference = min(self.objective(state), 1e6)
        used, now, table = self._table(state, everyone, sharpness, reference)
        for _ in range(_MOST_STEPS):
            move = self._choose(state, now, table, sharpness, reference)
            if move is None:
                break
            k, a, b, i, j = move
            state = state.copy()
            state[a] += self.changes[k, i, j]
            state[b] += self.changes[k, j, i]
            pair = np.array([a, b])
            used[pair], now[pair], table[:, pair] = self._table(state, pair, sharpness, reference)
            objective = max(float(used.max()), self._latency_share(state))
            if objective < best.objective - 1e-12 and self._keeps_moves(state[:, :ops]):
                best.objective, best.plan = objective, state[:, :ops].copy()
        return state

    def _keeps_moves(self, plan: Ints) -> bool:
        return self.problem.max_moves is None or self.problem.moves(plan) <= self.problem.max_moves

    def _choose(
        self, state: Ints, now: Floats, table: Floats, sharpness: float, reference: float
    ) -> tuple[int, int, int, int, int] | None:
        """The exchange that lowers the potential most, or None."""
        hot = np.arange(len(state)) if len(state) <= _HOT else np.sort(np.argsort(-now, kind="stable")[:_HOT])
        gain = table[:, hot, None] + table.transpose(0, 1, 3, 2)[:, None]  # [amount, a, b, out of a, into a]
        gain[:, np.arange(len(hot)), hot] = np.inf
        if self.problem.max_moves is not None and self.problem.current is not None:
            gain = np.where(self._moves_after(state, hot) <= self._moves_allowed(state), gain, np.inf)
        latency = 3 in self.active
        if latency:
            gain = gain + self._latency_slope(state, hot, sharpness, reference)
        if not latency:
            spot = int(gain.argmin())
            if not gain.flat[spot] < -1e-9 * float(now.sum()):
                return None
            k, a, b, i, j = np.unravel_index(spot, gain.shape)
            return int(k), int(hot[a]), int(b), int(i), int(j)
        return self._exact_choice(state, hot, now, gain, sharpness, reference)

    def _moves_allowed(self, state: Ints) -> int:
        assert self.problem.max_moves is not None
        return max(self.problem.max_moves, self.problem.moves(state[:, : len(self.problem.operators)]))

    def _moves_after(self, state: Ints, hot: Ints) -> Ints:
        assert self.problem.current is not None
        ops = len(self.problem.operators)
        have = np.maximum(state[:, :ops] - self.problem.current, 0).sum(axis=1)
        after = (state[None, :, None, None, :] + self.changes[:, None])[..., :ops]
        change = (
            np.maximum(after - self.problem.current[None, :, None, None], 0).sum(axis=-1)
            - have[None, :, None, None]
        )
        total = int(have.sum()) + change[:, hot, None] + change.transpose(0, 1, 3, 2)[:, None]
        return np.asarray(total, dtype=np.int64)

    # -- latency ties workers together: score by its slope, then evaluate a short list exactly

    def _latency_potential(self, plans: Ints, sharpness: float, reference: float) -> Floats:
        used = latencies(self.problem, plans) * self.per_load[3]
        return _potential(used[:, None], sharpness, reference)

    def _latency_slope(self, state: Ints, hot: Ints, sharpness: float, reference: float) -> Floats:
        problem = self.problem
        assert problem.rtt_ms is not None
        ops = len(problem.operators)
        held = state[:, :ops].astype(float)
        slope = np.zeros((len(state), self.kinds))
        traffic = sum(
            op.net * op.parallelism
            for i, op in enumerate(problem.operators)
            if any(a == i for a, _ in problem.edges)
        )
        for i, op in enumerate(problem.operators):
            downs = [b for a, b in problem.edges if a == i]
            if not downs or op.net == 0:
                continue
            rate = op.net / float(problem.parallelism[downs].sum()) / traffic
            slope[:, i] += rate * problem.rtt_ms @ held[:, downs].sum(axis=1)
            for j in downs:
                slope[:, j] += rate * problem.rtt_ms @ held[:, i]
        here = float(self._latency_potential(state[None, :, :ops], sharpness, reference)[0])
        per_ms = sharpness * here * float(self.per_load[3])
        own = slope[:, None, :] - slope[:, :, None]  # [worker, out, in]
        pair = own[hot, None] + own.transpose(0, 2, 1)[None]
        return np.asarray(np.array(_AMOUNTS)[:, None, None, None, None] * pair[None] * per_ms)

    def _exact_choice(
        self, state: Ints, hot: Ints, now: Floats, gain: Floats, sharpness: float, reference: float
    ) -> tuple[int, int, int, int, int] | None:
        flat = gain.ravel()
        count = min(_SHORTLIST, len(flat))
        spots = np.argpartition(flat, count - 1)[:count]
        spots = spots[np.isfinite(flat[spots])]
        if len(spots) == 0:
            return None
        k, a, b, i, j = np.unravel_index(spots, gain.shape)
        plans = np.repeat(state[None], len(spots), axis=0)
        each = np.arange(len(spots))
        plans[each, hot[a]] += self.changes[k, i, j]
        plans[each, b] += self.changes[k, j, i]
        ops = len(self.problem.operators)
        before = float(now.sum()) + float(
            self._latency_potential(state[None, :, :ops], sharpness, reference)[0]
        )
        rows = np.tile(np.arange(len(state)), len(spots))
        used = self._used(plans.reshape(-1, self.kinds), rows)
        after = _potential(used, sharpness, reference).reshape(len(spots), -1).sum(axis=1)
        after = after + self._latency_potential(plans[:, :, :ops], sharpness, reference)
        first = int(after.argmin())
        if not after[first] < before * (1 - 1e-9):
            return None
        return int(k[first]), int(hot[a[first]]), int(b[first]), int(i[first]), int(j[first])


def _potential(used: Floats, sharpness: float, reference: float) -> Floats:
    """Grows steeply with the shares above the reference; summed over the dimensions (last axis)."""
    return np.asarray(np.exp(np.minimum(sharpness * (used - reference), 60.0)).sum(axis=-1))
