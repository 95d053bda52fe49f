"""Whether a port on a node is free: asked before a service starts, so that the answer is a sentence."""

from __future__ import annotations

import errno
import socket

from fognetem.linux import inside

from fogctl.errors import FAILED, FogError
from fogctl.testbed import names
from fogctl.testbed.running import Running

LOOPBACK = "127.0.0.1"


def require_free(running: Running, node: str, address: str, port: int, what: str) -> None:
    """FogError if something on the node listens there already."""
    with inside(running.namespace(node)), socket.socket() as probe:
        probe.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # as Java does: old connections do not count
        try:
            probe.bind((address, port))
            # Binding alone succeeds beside another socket that may be reused and does not listen yet.
            probe.listen(1)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise FogError(
                f"port {port} of node {node} is taken, and {what} needs it",
                hint=f"find out by whom and end it: fogctl exec {node} -- ss -ltnp",
                exit_code=FAILED,
            ) from None


def data_address(running: Running, node: str) -> str:
    """The address of a node on the impaired network."""
    return names.data_address([each.name for each in running.testbed.nodes].index(node))
