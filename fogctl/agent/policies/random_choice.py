"""Chance that is not: the node that a latency-unaware policy picks, the same for the same decision."""

from __future__ import annotations

import random
from collections.abc import Sequence


def pick(nodes: Sequence[str], seed: int, decision: int, stage: str) -> str:
    """One of the nodes, each as likely as the others over many decisions."""
    return random.Random(f"{seed}/{decision}/{stage}").choice(nodes)


def shuffled(nodes: Sequence[str], seed: int, decision: int, stage: str) -> list[str]:
    """The nodes in an order that depends on nothing but seed, decision and stage."""
    return random.Random(f"{seed}/{decision}/{stage}").sample(nodes, len(nodes))
