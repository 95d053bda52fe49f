"""Replicas added to stages or taken from them by strategy, all others staying where they are. Pure."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from fogctl.placement.demand import StageDemand
from fogctl.placement.fit import require_fit
from fogctl.placement.plan import NodesByStage, Strategy, problem_of, solved
from fogctl.placement.room import Room
from fogctl.placement.strategies import at_random, in_turn, pack, spread

Current = Mapping[str, Sequence[str]]


def changed(
    strategy: Strategy,
    demands: Sequence[StageDemand],
    rooms: Sequence[Room],
    current: Current,
    *,
    seed: int = 0,
) -> NodesByStage:
    """The nodes of every stage once it has as many replicas as its demand says; FogError if they do not fit.

    `rooms` have slots for the replicas that are there too. What is added does not count on a slot that
    something else gives up: additions may be made long before removals are.
    """
    now = {each.stage: tuple(current.get(each.stage, ())) for each in demands}
    fewer = [each for each in demands if 0 < each.replicas < len(now[each.stage])]
    more = [each for each in demands if each.replicas > len(now[each.stage])]
    found = dict(now)
    if fewer:
        found |= _kept(strategy, demands, rooms, now, {each.stage for each in fewer}, seed)
    if more:
        found |= _added(strategy, demands, rooms, now, {each.stage for each in more}, seed)
    return found


def _kept(
    strategy: Strategy,
    demands: Sequence[StageDemand],
    rooms: Sequence[Room],
    now: Mapping[str, tuple[str, ...]],
    shrinking: set[str],
    seed: int,
) -> NodesByStage:
    """Of stages that get smaller, the nodes that stay."""
    if strategy is Strategy.auto:
        there = [each for each in demands if now[each.stage]]
        smaller = [replace(each, replicas=min(each.replicas, len(now[each.stage]))) for each in there]
        best = _solved(smaller, rooms, now, keep_all=False)
        return {stage: best[stage] for stage in shrinking}
    wanted = {each.stage: each.replicas for each in demands}
    held = {room.node: sum(room.node in nodes for nodes in now.values()) for room in rooms}
    order = [room.node for room in rooms]
    chance = random.Random(seed)
    found: NodesByStage = {}
    for stage in (each.stage for each in demands if each.stage in shrinking):
        kept = sorted(now[stage], key=order.index)
        while len(kept) > wanted[stage]:
            if strategy is Strategy.spread:  # the fullest node is relieved
                gone = max(kept, key=lambda node: (held[node], order.index(node)))
            elif strategy is Strategy.pack:  # the last node is emptied
                gone = kept[-1]
            else:
                gone = chance.choice(kept)
            kept.remove(gone)
            held[gone] -= 1
        found[stage] = tuple(kept)
    return found


def _added(
    strategy: Strategy,
    demands: Sequence[StageDemand],
    rooms: Sequence[Room],
    now: Mapping[str, tuple[str, ...]],
    growing: set[str],
    seed: int,
) -> NodesByStage:
    """Of stages that get larger, the nodes that they have and get."""
    held = {room.node: sum(room.node in nodes for nodes in now.values()) for room in rooms}
    left = [
        replace(
            room,
            slots=room.slots - held[room.node],
            used_share=room.used_share + (1.0 - room.used_share) * held[room.node] / max(1, room.slots),
        )
        for room in rooms
    ]
    needs = [
        replace(each, replicas=each.replicas - len(now[each.stage]))
        for each in demands
        if each.stage in growing
    ]
    require_fit(needs, left, barred=now)
    if strategy is Strategy.auto:
        larger = [replace(each, replicas=max(each.replicas, len(now[each.stage]))) for each in demands]
        best = _solved(larger, rooms, now, keep_all=True)
        new = {stage: tuple(node for node in best[stage] if node not in now[stage]) for stage in growing}
    else:
        order = {Strategy.spread: spread, Strategy.pack: pack}.get(strategy) or at_random(seed)
        new = in_turn(needs, left, order, barred=now)
    # New ones after those that are there: guard rails that allow fewer take the first.
    return {stage: (*now[stage], *new[stage]) for stage in growing}


def _solved(
    demands: Sequence[StageDemand],
    rooms: Sequence[Room],
    now: Mapping[str, tuple[str, ...]],
    *,
    keep_all: bool,
) -> NodesByStage:
    """The best plan that keeps every replica there is, or else one that uses no other node than there is."""
    names = {each.stage for each in demands}
    linked = [
        replace(each, readers=tuple(reader for reader in each.readers if reader in names)) for each in demands
    ]
    problem = problem_of(linked, rooms)
    there = np.array(
        [[int(worker.name in now[op.id]) for op in problem.operators] for worker in problem.workers],
        dtype=np.int64,
    )
    if keep_all:
        bounded = replace(problem, lower=there, upper=np.maximum(problem.upper, there))
    else:
        bounded = replace(problem, upper=np.minimum(problem.upper, there))
    _, best = solved(bounded)
    return {
        each.stage: tuple(w.name for w in problem.workers if best.assignment[w.name].get(each.stage, 0))
        for each in demands
    }
