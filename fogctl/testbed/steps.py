"""All kinds of steps a virtual testbed consists of, and what sets some of them apart."""

from __future__ import annotations

from fogctl.testbed.file_steps import LinkFile, MakeFolder, MakeSharedFolder, WriteFile
from fogctl.testbed.group_steps import AddGroup, EnableController, LimitCpu, LimitMemory
from fogctl.testbed.network_steps import (
    AddBridge,
    AddLink,
    AddNamespace,
    AddNeighbours,
    ShareMount,
    SteerFlows,
)
from fogctl.testbed.step import Exclusive, Step

__all__ = [
    "LASTING",
    "SHARED",
    "STEP_TYPES",
    "AddBridge",
    "AddGroup",
    "AddLink",
    "AddNamespace",
    "AddNeighbours",
    "EnableController",
    "Exclusive",
    "LimitCpu",
    "LimitMemory",
    "LinkFile",
    "MakeFolder",
    "MakeSharedFolder",
    "ShareMount",
    "SteerFlows",
    "Step",
    "WriteFile",
    "goes_with",
    "holds",
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
    AddNeighbours,
    SteerFlows,
    MakeFolder,
    WriteFile,
    LinkFile,
)
"""Every step class here; the ledger finds a step's class by its name."""

SHARED = (MakeSharedFolder, ShareMount, EnableController)
"""Steps that several testbeds, and others, may rely on at once."""

LASTING = (MakeSharedFolder, MakeFolder, WriteFile, LinkFile)
"""Steps whose result outlives a reboot of the host (a folder under /run does not: it is gone)."""


def holds(step: Step) -> str | None:
    """What a step makes that others stand in, and that takes them along when it is removed."""
    if isinstance(step, AddGroup):
        return step.path
    return f"namespace {step.name}" if isinstance(step, AddNamespace) else None


def goes_with(step: Step) -> str | None:
    """What a step stands in (see `holds`): tearing that down needs not undo the step as well."""
    if isinstance(step, LimitCpu | LimitMemory):
        return step.group
    # Interfaces, firewall rules and queueing disciplines, fognetem's included, live in a namespace.
    namespace = getattr(step, "namespace", "")
    return f"namespace {namespace}" if namespace else None
