"""The firewall rule that sends what arrives at a node's data interface to the delay line."""

from __future__ import annotations

CHAIN = ("-t", "mangle")
FIRST_QUEUE, LAST_QUEUE = 0, 15


def iptables(operation: str, interface: str) -> list[str]:
    """The command up to the target: operation is -A, -C or -D.

    The rule stands where packets arrive, not where they leave: a packet held on its way out stays charged to
    the sender's socket, and TCP, which allows itself about a millisecond of unsent data, would crawl.
    """
    return ["iptables", "-w", *CHAIN, operation, "PREROUTING", "-i", interface]


def queue_rule(operation: str, interface: str) -> list[str]:
    """The whole command. No --queue-bypass: without a delay line, packets are dropped, not let through."""
    balance = f"{FIRST_QUEUE}:{LAST_QUEUE}"
    return [*iptables(operation, interface), "-j", "NFQUEUE", "--queue-balance", balance]
