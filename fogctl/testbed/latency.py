"""How a testbed's latencies are injected: the seam between virtual nodes and fognetem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import fognetem
from fognetem.endpoint import Endpoint
from fognetem.matrix import LatencyMatrix

from fogctl.testbed import names
from fogctl.testbed.host import LinuxHost
from fogctl.testbed.model import Testbed
from fogctl.testbed.steps import STEP_TYPES, Step

ALL_STEP_TYPES: tuple[type, ...] = (*STEP_TYPES, *getattr(fognetem, "STEP_TYPES", ()))
"""Every class of step a ledger may hold."""


@dataclass(frozen=True, slots=True)
class Injection:
    """Which backend injects a testbed's latencies, and why that one."""

    backend: Any
    name: str
    why: str


def endpoints(testbed: Testbed) -> tuple[Endpoint, ...]:
    """Where each node's impaired interface is."""
    return tuple(
        Endpoint(node.name, names.namespace(testbed.name, node.name), names.DATA, names.data_address(index))
        for index, node in enumerate(testbed.nodes)
    )


def choose(testbed: Testbed, run_dir: str, host: LinuxHost) -> Injection | None:
    """The backend this kernel offers; None until there is one."""
    return None


def backend(testbed: Testbed, run_dir: str, name: str) -> Any:
    """The backend of that name, as chosen when the testbed came up."""
    raise NotImplementedError


def difference(old: LatencyMatrix, new: LatencyMatrix, backend: Any) -> list[Step]:
    """The steps that change what is injected from the old latencies to the new ones."""
    return []


def plan(latencies: LatencyMatrix, backend: Any) -> list[Step]:
    """The steps that inject these latencies."""
    return []
