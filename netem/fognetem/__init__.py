"""Latency emulation between the nodes of a testbed: plan, apply, verify, clear."""

from fognetem.backend import Backend, Kernel, Step, UserSpace
from fognetem.choose import Choice, choose
from fognetem.endpoint import Endpoint
from fognetem.errors import NetemError
from fognetem.host import Host, LocalHost
from fognetem.matrix import LatencyMatrix, Path
from fognetem.plan import STEP_TYPES, difference, plan

__all__ = [
    "STEP_TYPES",
    "Backend",
    "Choice",
    "Endpoint",
    "Host",
    "Kernel",
    "LatencyMatrix",
    "LocalHost",
    "NetemError",
    "Path",
    "Step",
    "UserSpace",
    "choose",
    "difference",
    "plan",
]
