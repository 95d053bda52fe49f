"""How a virtual testbed's latencies are injected: the seam between its nodes and fognetem."""

from __future__ import annotations

import fognetem
from fognetem import Backend, Choice, Endpoint, Kernel, NetemError, UserSpace
from fognetem.userspace import ChangePaths

from fogctl.testbed import names
from fogctl.testbed.host import LinuxHost
from fogctl.testbed.model import Testbed
from fogctl.testbed.steps import STEP_TYPES, Step

ALL_STEP_TYPES: tuple[type, ...] = (*STEP_TYPES, *fognetem.STEP_TYPES)
"""Every class of step a ledger may hold."""
LIVE = (ChangePaths,)
"""Changes inside a process that the ledger holds already: they go with it."""


def endpoints(testbed: Testbed) -> tuple[Endpoint, ...]:
    """Where each node's impaired interface is."""
    return tuple(
        Endpoint(node.name, names.namespace(testbed.name, node.name), names.DATA, names.data_address(index))
        for index, node in enumerate(testbed.nodes)
    )


def choose(testbed: Testbed, run_dir: str, host: LinuxHost) -> Choice | None:
    """The backend this host can run. None if it can run none and the testbed asks for no impairment."""
    try:
        return fognetem.choose(endpoints(testbed), run_dir, "auto", host)
    except NetemError:
        if testbed.latencies.paths or testbed.schedule:
            raise
        return None


def backend(testbed: Testbed, run_dir: str, name: str) -> Backend:
    """The backend of that name, as chosen when the testbed came up."""
    return Kernel(endpoints(testbed)) if name == "kernel" else UserSpace(endpoints(testbed), run_dir)


def wants_steering(backend: str | None) -> bool:
    """Whether flows must be kept on one CPU each so that they stay in order."""
    return backend != "userspace"


def injects(step: Step) -> bool:
    """Whether a step is one of fognetem's."""
    return isinstance(step, fognetem.STEP_TYPES)
