"""A container's CPU limit written on its host, over SSH: for clusters that cannot resize pods in place."""

from __future__ import annotations

import re
import shlex
from typing import Any

from fogctl.errors import FAILED, FogError
from fogctl.testbed.model import Testbed

PERIOD_US = 100_000
_ID = re.compile(r"[0-9a-f]{32,128}")


def script(container_id: str, cores: float, root: str = "/sys/fs/cgroup") -> str:
    """A shell script for the host: finds the container's control group, of either version, and limits it."""
    quota = max(1000, round(cores * PERIOD_US))
    found = f"find {shlex.quote(root)} -type d -name {shlex.quote(f'*{container_id}*')} 2>/dev/null"
    return (
        f"for group in $({found}); do "
        f'if [ -e "$group/cpu.max" ]; then echo "{quota} {PERIOD_US}" > "$group/cpu.max" && ok=1; '
        f'elif [ -e "$group/cpu.cfs_quota_us" ]; then echo {quota} > "$group/cpu.cfs_quota_us" && ok=1; fi; '
        f'done; [ -n "$ok" ]'
    )


def container_of(pod: dict[str, Any], container: str) -> str | None:
    """The runtime's own id of a pod's container; None before it runs."""
    for status in (pod.get("status") or {}).get("containerStatuses") or []:
        found = str(status.get("containerID") or "").rpartition("/")[2]
        if status["name"] == container and _ID.fullmatch(found):
            return found
    return None


def set_limit(
    testbed: Testbed, node: str, pod: dict[str, Any], container: str, cores: float, where: str
) -> None:
    """Limit a pod's container on its host; FogError if the host is not known or refuses."""
    host = next((each for each in testbed.hosts if each.node == node), None)
    if host is None:
        raise FogError(
            f"the cluster is too old to change the CPU of {where} in place, and its host is not known",
            hint="Kubernetes 1.33 or later can; or give hosts: in testbed.yaml, and it is done over SSH",
            exit_code=FAILED,
        )
    running = container_of(pod, container)
    if running is None:
        raise FogError(f"{where} does not run yet, so its CPU cannot be limited", exit_code=FAILED)
    from fogctl.pi import contact, known_hosts

    become = "" if host.user == "root" else "sudo -n "
    command = f"{become}sh -c {shlex.quote(script(running, cores))}"
    try:
        done = contact.run(host, known_hosts.KnownHosts(known_hosts.default_file()), command)
    except contact.NoContactError as error:
        raise FogError(f"the CPU of {where} cannot be limited: {error}", exit_code=FAILED) from None
    if done.code != 0:
        raise FogError(
            f"{host.address} did not limit the CPU of {where}: {done.stderr.strip() or 'no control group'}",
            hint="its user must be allowed to use sudo without a password",
            exit_code=FAILED,
        )
