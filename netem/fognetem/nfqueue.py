"""The kernel's NFQUEUE over a raw netlink socket: take packets, give verdicts, without a C library.

Message layout: linux/netfilter/nfnetlink_queue.h. The payload attribute is always the last one of a packet
message, so with a copy range of exactly one IPv4 header its fields are found from the end.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct

from fognetem.errors import NetemError
from fognetem.linux import inside, libc

NETLINK_NETFILTER = 12
SOL_NETLINK, NETLINK_NO_ENOBUFS = 270, 5
SO_RCVBUFFORCE = 33
_SUBSYSTEM_QUEUE = 3
_PACKET, _VERDICT, _CONFIG = 0, 1, 2
_NLM_F_REQUEST, _NLM_F_ACK, _NLMSG_ERROR = 1, 4, 2
_CFG_CMD, _CFG_PARAMS, _CFG_QUEUE_MAXLEN, _CFG_MASK, _CFG_FLAGS = 1, 2, 3, 4, 5
_CMD_BIND = 1
_COPY_PACKET = 2
F_FAIL_OPEN, F_CONNTRACK, F_GSO = 1, 2, 4
_VERDICT_HDR = 2
_NF_DROP, _NF_ACCEPT = 0, 1

IPV4_HEADER = 20
QUEUE_MAXLEN = 4_000_000
RECEIVE_BUFFER = 128 << 20
BATCH = 64
"""Most packets taken from a socket at once, so that no node keeps the others waiting."""
_SLOT = 512
_SHORTEST_PACKET = 64
_VERDICTS_PER_SEND = 128

ACCEPT = struct.pack("=IHHII", 32, (_SUBSYSTEM_QUEUE << 8) | _VERDICT, _NLM_F_REQUEST, 0, 0) + struct.pack(
    "=BB", 0, 0
)
"""A verdict message up to the queue's number."""
_VERDICT_ATTRIBUTE = struct.pack("=HH", 12, _VERDICT_HDR)
ACCEPTED = _VERDICT_ATTRIBUTE + struct.pack(">I", _NF_ACCEPT)
"""What stands between the queue's number and the packet's id when the packet may go."""
DROPPED = _VERDICT_ATTRIBUTE + struct.pack(">I", _NF_DROP)

_head = struct.Struct(">2s4x4s").unpack_from
_tail = struct.Struct(">H8x4s").unpack_from

Packet = tuple[bytes, bytes, bytes, int]
"""Queue number and packet id (both as on the wire), IPv4 source address, length in bytes."""


class _Iovec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _Msghdr(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint),
        ("iov", ctypes.POINTER(_Iovec)),
        ("iov_length", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class _Mmsghdr(ctypes.Structure):
    _fields_ = (("header", _Msghdr), ("length", ctypes.c_uint))


class Inbox:
    """Preallocated room for one batch of netlink messages; shared by all queues of a process."""

    def __init__(self) -> None:
        self.buffer = bytearray(_SLOT * BATCH)
        base = ctypes.addressof((ctypes.c_char * len(self.buffer)).from_buffer(self.buffer))
        self._vectors = (_Iovec * BATCH)()
        self.messages = (_Mmsghdr * BATCH)()
        for i in range(BATCH):
            self._vectors[i].base = base + i * _SLOT
            self._vectors[i].length = _SLOT
            self.messages[i].header.iov = ctypes.pointer(self._vectors[i])
            self.messages[i].header.iov_length = 1
        words = memoryview(self.messages).cast("B").cast("I")
        stride = ctypes.sizeof(_Mmsghdr) // 4
        self.lengths = words[_Mmsghdr.length.offset // 4 :: stride]


def config_message(queue: int, kind: int, value: bytes) -> bytes:
    """One NFQNL_MSG_CONFIG message with one attribute, acknowledged."""
    attribute = struct.pack("=HH", 4 + len(value), kind) + value
    attribute += b"\0" * (-len(attribute) % 4)
    body = struct.pack("=BB", 0, 0) + struct.pack(">H", queue) + attribute
    kind_of_message = (_SUBSYSTEM_QUEUE << 8) | _CONFIG
    return struct.pack("=IHHII", 16 + len(body), kind_of_message, _NLM_F_REQUEST | _NLM_F_ACK, 0, 0) + body


def flags_messages(queue: int, flags: int) -> bytes:
    """Sets exactly these NFQA_CFG_F_* flags on a queue; fail-open is always switched off."""
    mask = F_FAIL_OPEN | F_CONNTRACK | F_GSO
    # One message must hold both attributes: the kernel refuses flags without a mask.
    attributes = struct.pack("=HH", 8, _CFG_FLAGS) + struct.pack(">I", flags)
    attributes += struct.pack("=HH", 8, _CFG_MASK) + struct.pack(">I", mask)
    body = struct.pack("=BB", 0, 0) + struct.pack(">H", queue) + attributes
    kind = (_SUBSYSTEM_QUEUE << 8) | _CONFIG
    return struct.pack("=IHHII", 16 + len(body), kind, _NLM_F_REQUEST | _NLM_F_ACK, 0, 0) + body


class Queues:
    """All NFQUEUE queues of one network namespace behind one socket."""

    def __init__(self, namespace: str, numbers: range, *, gso: bool = True) -> None:
        self.namespace = namespace
        self._numbers = numbers
        self._gso: bool | None = None
        with inside(namespace):
            self.socket = socket.socket(
                socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_NETFILTER
            )
        self.socket.bind((0, 0))
        self.socket.setsockopt(SOL_NETLINK, NETLINK_NO_ENOBUFS, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER)
        self.socket.settimeout(5)
        for number in numbers:
            bind = struct.pack(">BBH", _CMD_BIND, 0, socket.AF_INET)
            self._configure(config_message(number, _CFG_CMD, bind))
            self._configure(
                config_message(number, _CFG_PARAMS, struct.pack(">IB", IPV4_HEADER, _COPY_PACKET))
                + config_message(number, _CFG_QUEUE_MAXLEN, struct.pack(">I", QUEUE_MAXLEN)),
                acknowledgements=2,
            )
        self.segment(not gso)
        self.socket.setblocking(False)
        # Only now: the first message to it is what loads the kernel's module.
        with inside(namespace):
            self._statistics = os.open(
                "/proc/thread-self/net/netfilter/nfnetlink_queue", os.O_RDONLY | os.O_CLOEXEC
            )

    def _configure(self, messages: bytes, acknowledgements: int = 1) -> None:
        self.socket.send(messages)
        for _ in range(acknowledgements):
            answer = self.socket.recv(4096)
            length, kind, _flags, _sequence, _port = struct.unpack_from("=IHHII", answer)
            error = -struct.unpack_from("=i", answer, 16)[0] if kind == _NLMSG_ERROR and length >= 20 else 71
            if error:
                where = self.namespace or "the host's own namespace"
                held = " (another program holds the queue)" if error in (1, 16) else ""
                raise NetemError(f"NFQUEUE in {where} was refused: {os.strerror(error)}{held}")

    def segment(self, wanted: bool) -> None:
        """Whether the kernel cuts large packets before it queues them: wanted where loss or rate apply."""
        if self._gso == (not wanted):
            return
        self._gso = not wanted
        messages = b"".join(flags_messages(number, 0 if wanted else F_GSO) for number in self._numbers)
        blocking = self.socket.gettimeout()
        if blocking:
            self.socket.send(messages)
            for _ in self._numbers:
                self.socket.recv(4096)
        else:  # packets may be in front of the answers; `take` skips those as too short to be packets
            self.socket.send(messages)

    def take(self, inbox: Inbox) -> list[Packet]:
        """Up to BATCH packets that wait; an empty list if there is none."""
        count = libc.recvmmsg(self.socket.fileno(), inbox.messages, BATCH, socket.MSG_DONTWAIT, None)
        if count <= 0:
            return []
        packets: list[Packet] = []
        buffer, offset = inbox.buffer, 0
        for size in inbox.lengths[:count].tolist():
            if size >= _SHORTEST_PACKET:
                queue, packet_id = _head(buffer, offset + 18)
                length, source = _tail(buffer, offset + size - 18)
                packets.append((queue, packet_id, source, length or 65535))
            offset += _SLOT
        return packets

    def send(self, verdicts: list[bytes]) -> None:
        """Give the verdicts (whole messages), many in one system call."""
        for start in range(0, len(verdicts), _VERDICTS_PER_SEND):
            self.socket.send(b"".join(verdicts[start : start + _VERDICTS_PER_SEND]))

    def dropped(self) -> tuple[int, int, int]:
        """Packets waiting for a verdict, dropped because a queue was full, dropped because the socket was."""
        waiting = queue_full = socket_full = 0
        for line in os.pread(self._statistics, 65536, 0).decode().splitlines():
            fields = line.split()
            if int(fields[0]) in self._numbers:
                waiting += int(fields[2])
                queue_full += int(fields[5])
                socket_full += int(fields[6])
        return waiting, queue_full, socket_full

    def close(self) -> None:
        """Give the queues up; the kernel drops what waits in them."""
        self.socket.close()
        os.close(self._statistics)
