"""Latency emulation between the nodes of a testbed: plan, apply, verify, clear."""

from fognetem.apply import apply, change, clear, show
from fognetem.backend import Backend, Kernel, Step, UserSpace
from fognetem.choose import Choice, choose
from fognetem.endpoint import Endpoint
from fognetem.errors import NetemError
from fognetem.host import Host, LocalHost
from fognetem.matrix import LatencyMatrix, Path
from fognetem.plan import STEP_TYPES, difference, plan
from fognetem.verify import PairResult, Verification, verify

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
    "PairResult",
    "Path",
    "Step",
    "UserSpace",
    "Verification",
    "apply",
    "change",
    "choose",
    "clear",
    "difference",
    "plan",
    "show",
    "verify",
]
