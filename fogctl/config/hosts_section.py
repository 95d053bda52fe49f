"""The `hosts:` section of testbed.yaml: how the real machine behind each node is reached over SSH."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from fogctl.config.fields import Entry
from fogctl.config.problems import Problem, choice_hint
from fogctl.config.units import quoted
from fogctl.testbed.model import Kind, SshHost

# A host name, an IPv4 or an IPv6 address (link-local ones with a zone); nothing that ssh takes for an option.
_ADDRESS = re.compile(
    r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*(%[A-Za-z0-9.-]+)?"
)
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
DEFAULT_USER = "pi"


def address(raw: object) -> str:
    """A host name or IP address that is safe to hand to ssh; ValueError otherwise."""
    if not isinstance(raw, str) or len(raw) > 253 or not _ADDRESS.fullmatch(raw):
        raise ValueError(f"{quoted(str(raw))} is neither a host name nor an IP address")
    if not re.search("[A-Za-z]", raw) or ":" in raw:  # then it can only be an address
        try:
            ipaddress.ip_address(raw)
        except ValueError:
            raise ValueError(f"{quoted(raw)} is not an IP address") from None
    return raw


def data_address(raw: object) -> str:
    """Where other nodes reach one, safe as an address is; ValueError also for IPv6, which is not delayed."""
    found = address(raw)
    if ":" in found:
        raise ValueError(
            f"{quoted(found)} is an IPv6 address, but latencies are added to IPv4 only "
            "(write the board's IPv4 address in that network, for example 10.0.0.11)"
        )
    return found


def user(raw: object) -> str:
    """A user name on a host; ValueError otherwise."""
    if not isinstance(raw, str) or not _USER.fullmatch(raw):
        raise ValueError(f"{quoted(str(raw))} is not a user name (write for example {DEFAULT_USER})")
    return raw


_Address = Annotated[
    str, BeforeValidator(address), WithJsonSchema({"type": "string", "maxLength": 253, "minLength": 1})
]
_DataAddress = Annotated[
    str, BeforeValidator(data_address), WithJsonSchema({"type": "string", "maxLength": 253, "minLength": 1})
]
_User = Annotated[
    str, BeforeValidator(user), WithJsonSchema({"type": "string", "pattern": f"^{_USER.pattern}$"})
]


class HostEntry(Entry):
    """How one machine is reached."""

    address: _Address = Field(description="host name or IP address", examples=["192.168.1.11"])
    user: _User = Field(
        default=DEFAULT_USER, description="who logs in; may use sudo without a password", examples=["pi"]
    )
    port: int = Field(default=22, ge=1, le=65535, examples=[22])
    key: str | None = Field(
        default=None,
        description="private key; default: the SSH agent's keys and the user's own",
        examples=["~/.ssh/id_ed25519"],
    )
    data_address: _DataAddress | None = Field(
        default=None,
        description="where the other nodes reach it, if that is another network than SSH's",
        examples=["10.0.0.11"],
    )


def hosts(
    entries: Mapping[str, HostEntry], nodes: Sequence[str], kind: Kind
) -> tuple[tuple[SshHost, ...], list[Problem]]:
    """The machines in the order of the nodes, and what is wrong with them."""
    problems = [
        Problem(f"there is no node {quoted(name)}", key=("hosts", name), hint=choice_hint(name, nodes))
        for name in entries
        if name not in nodes
    ]
    taken: dict[tuple[str, int], str] = {}
    data_addresses: dict[str, str] = {}
    for name, entry in entries.items():
        if entry.data_address is not None:
            other = data_addresses.setdefault(entry.data_address, name)
            if other != name:
                message = f"{entry.data_address} is the data address of {other} already"
                key = ("hosts", name, "data_address")
                problems.append(Problem(message, key=key, hint="give each node its own"))
        other = taken.setdefault((entry.address, entry.port), name)
        if other != name:
            message = f"{entry.address} port {entry.port} is the host of {other} already"
            problems.append(Problem(message, key=("hosts", name, "address"), hint="give each node its own"))
    missing = [name for name in nodes if name not in entries]
    if entries and missing and kind is Kind.k3s:
        message = f"no host is given for {', '.join(missing[:5])}{' …' if len(missing) > 5 else ''}"
        problems.append(
            Problem(message, key=("hosts",), hint=f"add for example {missing[0]}: {{address: 192.168.1.11}}")
        )
    found = [_host(name, entries[name]) for name in nodes if name in entries]
    return tuple(found), problems


def _host(node: str, entry: HostEntry) -> SshHost:
    key = None if entry.key is None else str(Path(entry.key).expanduser())
    return SshHost(node, entry.address, entry.user, entry.port, key, entry.data_address)
