"""Guard rails about amounts: nodes that may be used, replicas, steps, memory."""

from __future__ import annotations

from dataclasses import replace

from fogctl.agent.plan import Share
from fogctl.agent.wish import Context, Wish


def unknown_nodes(wish: Wish, at: Context) -> tuple[Wish, str | None]:
    """Replicas go only to edge nodes of the testbed that answer and have room."""
    if not wish.added or wish.scale is None:
        return wish, None
    edge = {node.name for node in at.known.edge}
    refused = {}
    for node in wish.added:
        if node not in edge:
            refused[node] = "is no edge node of the testbed"
        elif at.seen.node(node) is None:
            refused[node] = "does not answer"
        elif at.seen.free_share(node) + 1e-9 < wish.scale.share:
            refused[node] = f"has {at.seen.free_share(node):.0%} of its CPU free"
    if not refused:
        return wish, None
    nodes = tuple(node for node in wish.scale.nodes if node not in refused) or wish.before.nodes
    return wish.on(nodes), "; ".join(f"{node} {why}" for node, why in refused.items())


def replica_limits(wish: Wish, at: Context) -> tuple[Wish, str | None]:
    """No more and no fewer replicas than the user allows."""
    if wish.scale is None:
        return wish, None
    stage = at.known.stage(wish.stage)
    asked = len(wish.scale.nodes)
    if asked > stage.max_replicas and wish.added:
        kept = [node for node in wish.scale.nodes if node in wish.before.nodes]
        room = max(0, stage.max_replicas - len(kept))
        return wish.on((*kept, *wish.added[:room])), f"at most {stage.max_replicas} replicas, not {asked}"
    if asked < stage.min_replicas and wish.removed:
        back = at.known.nearest_first(wish.removed)[: stage.min_replicas - asked]
        return wish.on(_as_before(wish, back)), f"at least {stage.min_replicas} replicas, not {asked}"
    return wish, None


def largest_step(wish: Wish, at: Context) -> tuple[Wish, str | None]:
    """No more replicas at once, and no larger change of a share, than the user allows."""
    why = []
    if len(wish.added) > at.guard.most_added and wish.scale is not None:
        late = set(wish.added[at.guard.most_added :])
        why.append(f"{at.guard.most_added} replicas at a time are added, not {len(wish.added)}")
        wish = wish.on(tuple(node for node in wish.scale.nodes if node not in late))
    if len(wish.removed) > at.guard.most_removed:
        back = at.known.nearest_first(wish.removed)[: len(wish.removed) - at.guard.most_removed]
        why.append(f"{at.guard.most_removed} replicas at a time are removed, not {len(wish.removed)}")
        wish = wish.on(_as_before(wish, back))
    now = {replica.node: replica.share for replica in wish.before.replicas}
    step = at.guard.largest_share_step
    shares = []
    for share in wish.shares:
        old = min(now.values(), default=1.0) if share.node is None else now.get(share.node, share.share)
        bounded = min(max(share.share, old - step), old + step)
        if abs(bounded - share.share) > 1e-9:
            why.append(
                f"shares change by at most {step:.0%} at a time, not from {old:.0%} to {share.share:.0%}"
            )
        shares.append(Share(share.stage, share.node, bounded))
    return replace(wish, shares=tuple(shares)), "; ".join(dict.fromkeys(why)) or None


def memory(wish: Wish, at: Context) -> tuple[Wish, str | None]:
    """Nothing is added while the host is short of memory, and nothing to a node that is."""
    if not wish.added or wish.scale is None:
        return wish, None
    host = at.seen.host
    replica = at.known.stage(wish.stage).facts.replica_bytes
    why = []
    added = list(wish.added)
    if host is not None:
        floor = at.guard.host_memory_free * host.memory_total_bytes
        if replica:
            room = int(max(0.0, host.memory_available_bytes - floor) // replica)
        else:
            room = len(added) if host.memory_available_bytes > floor else 0
        if room < len(added):
            mib = host.memory_available_bytes / 2**20
            why.append(f"the host has {mib:.0f} MiB free, room for {room} more")
            added = added[:room]
    for node in list(added):
        metrics = at.seen.node(node)
        if metrics is None or metrics.memory_limit_bytes is None:
            continue
        free = metrics.memory_limit_bytes - metrics.memory_bytes
        if free - replica < at.guard.node_memory_free * metrics.memory_limit_bytes:
            why.append(f"{node} has {free / 2**20:.0f} MiB free")
            added.remove(node)
    if len(added) == len(wish.added):
        return wish, None
    kept = [node for node in wish.scale.nodes if node in wish.before.nodes]
    return wish.on((*kept, *added) or wish.before.nodes), "; ".join(why)


def _as_before(wish: Wish, back: tuple[str, ...]) -> tuple[str, ...]:
    """The nodes of a wish with some that it would remove put back, in the order they had."""
    assert wish.scale is not None  # something is removed
    kept = tuple(n for n in wish.before.nodes if n in wish.scale.nodes or n in back)
    return (*kept, *wish.added)
