"""A testbed of kind sim as commands show it: always up, exact, and with no machine behind its nodes."""

from __future__ import annotations

from fogctl.errors import FogError
from fogctl.testbed.model import Role, Testbed
from fogctl.testbed.status import NodeStatus, Status

HOW = "fogctl experiment run FILE --kind sim runs apps and policies on it; kind: virtual emulates it here"


def status(testbed: Testbed) -> Status:
    """The nodes of a model: what they may use and how far they are; nothing runs on them."""
    control = next((node.name for node in testbed.nodes if node.role is Role.control), None)
    return Status(
        name=testbed.name,
        kind=testbed.kind.value,
        state="up",
        latency_backend="the model",
        nodes=tuple(
            NodeStatus(
                name=node.name,
                role=node.role.value,
                site=node.site,
                board=node.board,
                address="–",
                management_address="–",
                cpu_quota_cores=node.cpu_cores,
                cpu_used_cores=None,
                cpu_throttled=None,
                memory_limit_bytes=node.memory_bytes,
                memory_used_bytes=None,
                processes=None,
                rtt_to_control_ms=None
                if control is None or control == node.name
                else testbed.latencies.rtt_ms(control, node.name),
            )
            for node in testbed.nodes
        ),
    )


def no_machine(name: str) -> FogError:
    """What to say when a command needs nodes that exist."""
    return FogError(f"testbed {name} is a model (kind: sim): no machine stands behind its nodes", hint=HOW)
