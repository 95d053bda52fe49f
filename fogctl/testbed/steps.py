"""All kinds of steps a virtual testbed consists of, and what sets some of them apart."""

from __future__ import annotations

from fogctl.testbed.file_steps import LinkFile, MakeFolder, MakeSharedFolder, WriteFile
from fogctl.testbed.group_steps import AddGroup, EnableController, LimitCpu, LimitMemory
from fogctl.testbed.network_steps import AddBridge, AddLink, AddNamespace, ShareMount
from fogctl.testbed.step import Exclusive, Step

__all__ = [
    "LASTING",
    "SHARED",
    "STEP_TYPES",
    "AddBridge",
    "AddGroup",
    "AddLink",
    "AddNamespace",
    "EnableController",
    "Exclusive",
    "LimitCpu",
    "LimitMemory",
    "LinkFile",
    "MakeFolder",
    "MakeSharedFolder",
    "ShareMount",
    "Step",
    "WriteFile",
    "goes_with",
]

STEP_TYPES: tuple[type, ...] = (
    MakeSharedFolder,
    ShareMount,
    EnableController,
    AddGroup,
    LimitCpu,
    LimitMemory,
    AddNamespace,
    AddBridge,
    AddLink,
    MakeFolder,
    WriteFile,
    LinkFile,
)
"""Every step class here; the ledger finds a step's class by its name."""

SHARED = (MakeSharedFolder, ShareMount, EnableController)
"""Steps that several testbeds, and others, may rely on at once."""

LASTING = (MakeSharedFolder, MakeFolder, WriteFile, LinkFile)
"""Steps whose result outlives a reboot of the host (a folder under /run does not: it is gone)."""


def goes_with(step: Step) -> Step | None:
    """The step whose undoing takes this one along, so that tearing down needs not undo both."""
    if isinstance(step, LimitCpu | LimitMemory):
        return AddGroup(step.group)
    # Interfaces, firewall rules and queueing disciplines, fognetem's included, live in a namespace.
    namespace = getattr(step, "namespace", "")
    return AddNamespace(namespace) if namespace else None
