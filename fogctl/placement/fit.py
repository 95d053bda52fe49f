"""Whether replicas still fit on nodes: a matching of stages' replicas to nodes' slots. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from fogctl.errors import REFUSED, FogError
from fogctl.placement.demand import StageDemand
from fogctl.placement.room import Room

_FEWER = "ask for fewer with --replicas, or free nodes: fogctl app list shows who uses them"
Allowed = Mapping[str, Sequence[str]]
"""By stage, the nodes that it may use."""
Barred = Mapping[str, Collection[str]]
"""By stage, nodes that it must not use."""


def allowed_nodes(
    demands: Sequence[StageDemand], rooms: Sequence[Room], barred: Barred | None = None
) -> dict[str, list[str]]:
    """By stage, the nodes with a slot and memory for a replica of it, but for those barred."""
    return {
        each.stage: [
            room.node
            for room in rooms
            if room.slots > 0
            and room.holds(each.memory_bytes)
            and room.node not in (barred or {}).get(each.stage, ())
        ]
        for each in demands
    }


def slots_left(demands: Sequence[StageDemand], rooms: Sequence[Room]) -> dict[str, int]:
    """By node, the replicas it takes: each has its share of the CPU, and memory whichever stage it is of."""
    found = {}
    for room in rooms:
        slots = room.slots
        if room.memory_bytes is not None:
            fitting = [each.memory_bytes for each in demands if room.holds(each.memory_bytes)]
            slots = min(slots, room.memory_bytes // max(fitting)) if fitting else 0
        found[room.node] = slots
    return found


def completed(
    needs: Mapping[str, int], allowed: Allowed, slots: Mapping[str, int]
) -> dict[str, list[str]] | None:
    """Nodes for every replica, at most one of a stage on a node and none over its slots; None if they do not
    fit. Augmenting paths (Kuhn): a replica that finds a node full may push one of the node's others away."""
    held: dict[str, list[str]] = {node: [] for node in slots}

    def put(stage: str, tried: set[str]) -> bool:
        for node in allowed[stage]:
            if node in tried or stage in held[node]:
                continue
            tried.add(node)
            if len(held[node]) < slots[node]:
                held[node].append(stage)
                return True
            for other in list(held[node]):
                held[node].remove(other)
                if put(other, tried):
                    held[node].append(stage)
                    return True
                held[node].append(other)
        return False

    for stage, replicas in needs.items():
        if not all(put(stage, set()) for _ in range(replicas)):
            return None
    return {stage: [node for node in slots if stage in held[node]] for stage in needs}


def require_fit(demands: Sequence[StageDemand], rooms: Sequence[Room], barred: Barred | None = None) -> None:
    """FogError, in one sentence, if there is no way to place all replicas."""
    allowed, slots = allowed_nodes(demands, rooms, barred), slots_left(demands, rooms)
    for each in demands:
        free = len(allowed[each.stage])
        if free < each.replicas:
            raise FogError(
                f"{each.stage} shall have {_replicas(each.replicas)}, each on its own node, but {free} of "
                f"{len(rooms)} nodes have a free slot and {each.memory_bytes >> 20} MiB for one",
                hint=_FEWER,
                exit_code=REFUSED,
            )
    needs = {each.stage: each.replicas for each in demands}
    if completed(needs, allowed, slots) is None:
        raise FogError(
            f"{_replicas(sum(needs.values()))} do not fit: of {len(rooms)} nodes, {sum(slots.values())} "
            "replicas have room",
            hint=_FEWER,
            exit_code=REFUSED,
        )


def _replicas(count: int) -> str:
    return "1 replica" if count == 1 else f"{count} replicas"
