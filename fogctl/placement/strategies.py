"""Placements that look at slots alone: spread, pack and random, what `auto` is compared with. Pure."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from fogctl.placement.demand import StageDemand
from fogctl.placement.fit import Barred, allowed_nodes, completed, slots_left
from fogctl.placement.room import Room

Order = Callable[[Sequence[Room], dict[str, int]], Sequence[Room]]
"""Nodes in the order in which the next replica tries them, given how many replicas each has got so far."""


def spread(rooms: Sequence[Room], taken: dict[str, int]) -> Sequence[Room]:
    """The emptiest node first, as Flink does with slots spread out evenly: round robin on equal nodes.

    How full a node is counts the shares that other apps have of it.
    """

    def full(room: Room) -> float:
        if not room.slots:
            return 1.0
        return room.used_share + (1.0 - room.used_share) * taken[room.node] / room.slots

    return sorted(rooms, key=full)


def pack(rooms: Sequence[Room], _: dict[str, int]) -> Sequence[Room]:
    """The testbed's first node that has a slot, as Flink does by default: one is filled, then the next."""
    return rooms


def at_random(seed: int) -> Order:
    """Any order, the same for the same seed."""
    chance = random.Random(seed)

    def order(rooms: Sequence[Room], _: dict[str, int]) -> Sequence[Room]:
        return chance.sample(list(rooms), len(rooms))

    return order


def in_turn(
    demands: Sequence[StageDemand],
    rooms: Sequence[Room],
    order: Order,
    barred: Barred | None = None,
) -> dict[str, tuple[str, ...]]:
    """Stage by stage, each replica on the first node of the order that leaves room for the rest.

    All must fit (`require_fit`). `barred` are nodes by stage that must not be used for it.
    """
    allowed, slots = allowed_nodes(demands, rooms, barred), slots_left(demands, rooms)
    taken = dict.fromkeys(slots, 0)
    needs = {each.stage: each.replicas for each in demands}
    chosen: dict[str, tuple[str, ...]] = {each.stage: () for each in demands}
    for each in demands:
        for _ in range(each.replicas):
            needs[each.stage] -= 1
            for room in order(rooms, taken):
                if room.node not in allowed[each.stage] or slots[room.node] == 0:
                    continue
                left = {**slots, room.node: slots[room.node] - 1}
                still = {**allowed, each.stage: [n for n in allowed[each.stage] if n != room.node]}
                if completed(needs, still, left) is not None:
                    slots, allowed = left, still
                    taken[room.node] += 1
                    chosen[each.stage] = (*chosen[each.stage], room.node)
                    break
            else:
                raise AssertionError(f"no node for {each.stage}: require_fit was not asked")
    return chosen
