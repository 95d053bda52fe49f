"""A testbed's machines as Ansible sees them: groups by role, SSH that trusts recorded keys only. Pure."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from fogctl.errors import FogError
from fogctl.testbed.model import Role, SshHost, Testbed

REMOTE_FOLDER = "~/.fogctl-tmp"
"""Where Ansible puts its own files on a host; the role reset removes it."""


def require_hosts(testbed: Testbed, file: Path | str) -> tuple[SshHost, ...]:
    """The machines behind the nodes; FogError if the file names none."""
    if not testbed.hosts:
        raise FogError(
            "no machine is named for any node",
            file=file,
            key="hosts",
            hint="fogctl init --kind k3s --hosts hosts.txt writes them",
        )
    return testbed.hosts


def ssh_options(known_hosts: Path) -> list[str]:
    """Options for OpenSSH: no other configuration, recorded host keys only, never a question."""
    settings = {
        "UserKnownHostsFile": f'"{known_hosts}"',
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "yes",
        "BatchMode": "yes",
        "UpdateHostKeys": "no",
        # A board that lost power or its cable says no farewell: three minutes of silence are one.
        "ServerAliveInterval": "15",
        "ServerAliveCountMax": "12",
    }
    return ["-F", "none", *(part for key, value in settings.items() for part in ("-o", f"{key}={value}"))]


def inventory(testbed: Testbed, known_hosts: Path) -> dict[str, Any]:
    """Ansible's inventory as plain values: groups control, broker and edge, each node a host of its name."""
    groups: dict[str, dict[str, Any]] = {role.value: {"hosts": {}} for role in Role}
    for host in testbed.hosts:
        node = testbed.node(host.node)
        settings: dict[str, Any] = {
            "ansible_host": host.address,
            "ansible_port": host.port,
            "ansible_user": host.user,
            "fog_site": node.site,
            "fog_board": node.board,
        }
        if host.key is not None:
            settings["ansible_ssh_private_key_file"] = host.key
        if host.data_address is not None:
            settings["fog_data_address"] = host.data_address
        groups[node.role.value]["hosts"][host.node] = settings
    common = {
        "ansible_connection": "ssh",
        "ansible_python_interpreter": "/usr/bin/python3",
        "ansible_remote_tmp": REMOTE_FOLDER,
        "ansible_ssh_common_args": shlex.join(ssh_options(known_hosts)),
    }
    return {"all": {"vars": common, "children": groups}}
