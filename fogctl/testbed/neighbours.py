"""Permanent neighbours: a node knows the others' hardware addresses instead of asking for them.

The kernel's table of learnt addresses is one for all namespaces and holds 1,024 entries by default: from some
33 nodes that all talk to each other, packets would be lost. Permanent entries are exempt from that limit.
The messages (linux/neighbour.h) are packed by hand: a testbed of 100 nodes has 9,900 of them.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable

_NEWNEIGH, _GETNEIGH, _ERROR, _DONE = 28, 30, 2, 3
_REQUEST, _ACK, _DUMP, _CREATE, _REPLACE = 0x1, 0x4, 0x300, 0x400, 0x100
_PERMANENT = 0x80
_DST, _LLADDR = 1, 2
_BATCH = 200
_HEADER = struct.Struct("=IHHII")
_NEIGHBOUR = struct.Struct("=B3xiHBB")


def hardware_address(address: str) -> str:
    """The hardware address of the interface with this IPv4 address: locally administered, one of each."""
    return "02:fc:" + ":".join(f"{int(part):02x}" for part in address.split("."))


def add(interface_index: int, addresses: Iterable[str]) -> None:
    """Make permanent neighbours of these addresses in the caller's namespace."""
    wanted = list(addresses)
    with socket.socket(
        socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE
    ) as netlink:
        netlink.settimeout(10)
        for start in range(0, len(wanted), _BATCH):
            batch = wanted[start : start + _BATCH]
            netlink.send(b"".join(_message(interface_index, address) for address in batch))
            answered = 0
            while answered < len(batch):
                answered += _acknowledged(netlink.recv(1 << 16))


def permanent(interface_index: int) -> dict[str, str]:
    """The permanent neighbours on an interface of the caller's namespace: address to hardware address."""
    found: dict[str, str] = {}
    with socket.socket(
        socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE
    ) as netlink:
        netlink.settimeout(10)
        body = _NEIGHBOUR.pack(socket.AF_INET, 0, 0, 0, 0)
        netlink.send(_HEADER.pack(_HEADER.size + len(body), _GETNEIGH, _REQUEST | _DUMP, 1, 0) + body)
        while True:
            data = netlink.recv(1 << 18)
            offset = 0
            while offset < len(data):
                length, kind, *_ = _HEADER.unpack_from(data, offset)
                if kind in (_DONE, _ERROR):
                    return found
                _, index, state, *_ = _NEIGHBOUR.unpack_from(data, offset + _HEADER.size)
                if index == interface_index and state & _PERMANENT:
                    attributes = _attributes(data[offset + _HEADER.size + _NEIGHBOUR.size : offset + length])
                    if _DST in attributes and _LLADDR in attributes:
                        found[socket.inet_ntoa(attributes[_DST])] = attributes[_LLADDR].hex(":")
                offset += length + -length % 4


def _message(index: int, address: str) -> bytes:
    hardware = bytes.fromhex(hardware_address(address).replace(":", ""))
    body = _NEIGHBOUR.pack(socket.AF_INET, index, _PERMANENT, 0, 0)
    body += struct.pack("=HH4s", 8, _DST, socket.inet_aton(address))
    body += struct.pack("=HH6s2x", 10, _LLADDR, hardware)
    flags = _REQUEST | _ACK | _CREATE | _REPLACE
    return _HEADER.pack(_HEADER.size + len(body), _NEWNEIGH, flags, 0, 0) + body


def _acknowledged(data: bytes) -> int:
    """How many acknowledgements these bytes hold; OSError for the first refusal among them."""
    offset = count = 0
    while offset < len(data):
        length, kind, *_ = _HEADER.unpack_from(data, offset)
        if kind == _ERROR:
            (refused,) = struct.unpack_from("=i", data, offset + _HEADER.size)
            if refused:
                raise OSError(-refused, "the kernel refused a neighbour")
            count += 1
        offset += length + -length % 4
    return count


def _attributes(data: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    offset = 0
    while offset + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, offset)
        if length < 4:
            break
        found[kind] = data[offset + 4 : offset + length]
        offset += length + -length % 4
    return found
