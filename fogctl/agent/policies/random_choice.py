"""Chance that is not: the node that a latency-unaware policy picks, the same in the same situation.

Nothing but the seed, the stage and the nodes decides. So two runs of one seed, live or simulated, pick the
same nodes for as long as they have the same ones, whatever happened at which look.
"""

from __future__ import annotations

import random
from collections.abc import Sequence


def pick(nodes: Sequence[str], seed: int, stage: str) -> str:
    """One of the nodes, each as likely as the others over many sets of nodes."""
    return shuffled(nodes, seed, stage)[0]


def shuffled(nodes: Sequence[str], seed: int, stage: str) -> list[str]:
    """The nodes in an order that depends on nothing but seed, stage and which nodes they are."""
    known = sorted(nodes)
    return random.Random(f"{seed}/{stage}/{','.join(known)}").sample(known, len(known))
