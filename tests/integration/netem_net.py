"""Real namespaces on one bridge for the netem tests: made with iproute2, always cleaned."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from fognetem.endpoint import Endpoint


def ip(*arguments: str, check: bool = True) -> None:
    subprocess.run(["ip", *arguments], check=check, capture_output=True, text=True)


@contextmanager
def network(nodes: int) -> Iterator[tuple[Endpoint, ...]]:
    """So many nodes n0, n1 … with a data interface each, on a bridge in a namespace of its own."""
    prefix = f"fog-test-{os.getpid()}"
    switch = f"{prefix}-switch"
    made: list[str] = []
    try:
        ip("netns", "add", switch)
        made.append(switch)
        ip("-n", switch, "link", "add", "data0", "type", "bridge", "forward_delay", "0")
        ip("-n", switch, "link", "set", "data0", "up")
        endpoints = []
        for number in range(nodes):
            name = f"{prefix}-n{number}"
            ip("netns", "add", name)
            made.append(name)
            ip("-n", switch, "link", "add", f"d{number}", "type", "veth", "peer", "data0", "netns", name)
            ip("-n", switch, "link", "set", f"d{number}", "master", "data0", "up")
            address = f"10.77.{number // 250}.{number % 250 + 1}"
            ip("-n", name, "addr", "add", f"{address}/16", "dev", "data0")
            ip("-n", name, "link", "set", "data0", "up")
            ip("-n", name, "link", "set", "lo", "up")
            # Several CPUs may hand a veth's packets over in any order, one cannot: netem's order is tested.
            for namespace, interface in ((switch, f"d{number}"), (name, "data0")):
                one_cpu = f"echo 1 > /sys/class/net/{interface}/queues/rx-0/rps_cpus"
                ip("netns", "exec", namespace, "sh", "-c", one_cpu, check=False)
            endpoints.append(Endpoint(f"n{number}", name, "data0", address))
        yield tuple(endpoints)
    finally:
        for name in made:
            ip("netns", "del", name, check=False)
