"""Steps of the kernel backend: an HTB tree per data interface with one netem per destination."""

from __future__ import annotations

import math
import socket
from dataclasses import dataclass
from typing import Any

from fognetem.backend import PlainPath
from fognetem.errors import NetemError
from fognetem.host import Host, namespace_exists
from fognetem.line import RATE_BUFFER_NS
from fognetem.path import Path

ROOT = 0xF060 << 16
"""Handle of our root qdisc; anything else on the interface is somebody else's and is not touched."""
_NETEM = 0x6000
_RTM_NEWQDISC = 36
_NLM_F_REQUEST, _NLM_F_ACK, _NLM_F_REPLACE, _NLM_F_CREATE = 0x1, 0x4, 0x100, 0x400
_ETH_P_IP = 0x0800
_UNLIMITED_BYTES_S = 0xFFFFFFFF
"""The highest rate netem's 32-bit field holds, 34 Gbit/s."""
_LIMIT = 1_000_000
_FRAME = 1514
_MAX_DELAY_US = 270_000_000
"""netem's 32-bit field holds 274 s."""

Destination = tuple[int, str, PlainPath]
"""Number of the destination's class, its address, the path to it."""


def netem_arguments(path: Path) -> dict[str, int | float]:
    """The path in netem's terms for one direction: microseconds, a fraction, bytes per second, packets.

    netem sorts packets by their time, whatever qdisc is below it, so jitter alone reorders them, and so does
    a delay that shrinks. With a rate, each packet is timed after the last one in the queue: order is kept.
    Where the path has no rate, the largest one that fits does that without slowing anything.
    """
    delay_us = round(path.rtt_ms * 500)
    if delay_us > _MAX_DELAY_US:
        raise NetemError(f"the kernel backend cannot delay by more than {_MAX_DELAY_US / 500_000:g} s of RTT")
    arguments: dict[str, int | float] = {
        "delay": delay_us,
        "jitter": round(path.jitter_ms * 500),
        "loss": path.loss,
        "limit": _LIMIT,
        "rate": 0 if path.reorder else _UNLIMITED_BYTES_S,
    }
    if path.rate_bit_s is not None:
        bytes_s = max(1, min(round(path.rate_bit_s / 8), _UNLIMITED_BYTES_S))
        held_s = RATE_BUFFER_NS / 1e9 + (path.rtt_ms + path.jitter_ms) / 2000
        arguments["rate"] = bytes_s
        arguments["limit"] = min(_LIMIT, math.ceil(bytes_s * held_s / _FRAME) + 10)
    return arguments


def netem_message(index: int, number: int, path: Path, flags: int = 0) -> Any:
    """The netlink message that puts the path's netem under the class of that number.

    Built by hand: pyroute2's own netem arguments turn times into fractions of ticks, which do not encode.
    """
    from pyroute2.netlink.rtnl.tcmsg import tcmsg
    from pyroute2.netlink.rtnl.tcmsg.common import tick_in_usec

    arguments = netem_arguments(path)
    rate = {"rate": arguments["rate"], "packet_overhead": 0, "cell_size": 0, "cell_overhead": 0}
    options = {
        "delay": round(arguments["delay"] * tick_in_usec),
        "limit": arguments["limit"],
        "loss": round(arguments["loss"] * (2**32 - 1)),
        "gap": 0,
        "duplicate": 0,
        "jitter": round(arguments["jitter"] * tick_in_usec),
        # Always sent: a change without it would keep the rate before.
        "attrs": [["TCA_NETEM_RATE", rate]],
    }
    message = tcmsg()
    message["header"]["type"] = _RTM_NEWQDISC
    message["header"]["flags"] = _NLM_F_REQUEST | _NLM_F_ACK | flags
    message["family"] = 0
    message["index"] = index
    message["handle"] = (_NETEM + number) << 16
    message["parent"] = ROOT | number
    message["attrs"] = [["TCA_KIND", "netem"], ["TCA_OPTIONS", options]]
    return message


def address_key(address: str) -> str:
    """The u32 match on an IPv4 destination address."""
    return f"0x{socket.inet_aton(address).hex()}/0xffffffff+16"


def _index(netlink: Any, namespace: str, interface: str) -> int:
    found = list(netlink.link_lookup(ifname=interface))
    if not found:
        raise NetemError(f"there is no interface {interface} in {namespace or 'this host'}")
    return int(found[0])


def _root_handle(netlink: Any, index: int) -> int:
    for qdisc in netlink.get_qdiscs(index=index):
        if qdisc["parent"] == 0xFFFFFFFF:
            return int(qdisc["handle"])
    return 0


def _add_root(netlink: Any, namespace: str, interface: str, index: int) -> None:
    present = _root_handle(netlink, index)
    if present == ROOT:
        return
    if present:
        where = f"{interface} in {namespace or 'this host'}"
        raise NetemError(
            f"{where} has a qdisc that is not ours ({present >> 16:x}:); "
            f"remove it with: tc qdisc del dev {interface} root"
        )
    # default 0: what no filter matches bypasses all classes, at full speed.
    netlink.tc("add", "htb", index, ROOT, default=0)


def _set_path(netlink: Any, index: int, number: int, address: str, path: Path, exists: bool) -> None:
    if exists:
        netlink.nlm_request_batch([netem_message(index, number, path)])
        return
    class_id = ROOT | number
    netlink.tc(
        "replace-class", "htb", index, class_id, parent=ROOT,
        rate=_UNLIMITED_BYTES_S, burst=4 << 20, cburst=4 << 20, quantum=200_000,
    )  # fmt: skip
    netlink.nlm_request_batch([netem_message(index, number, path, _NLM_F_CREATE | _NLM_F_REPLACE)])
    netlink.tc(
        "add-filter", "u32", index, parent=ROOT, prio=number, protocol=_ETH_P_IP,
        target=class_id, keys=[address_key(address)],
    )  # fmt: skip


def injected(netlink: Any, index: int) -> dict[int, Path]:
    """What our tree on the interface does now, by class number; only classes that a filter leads to."""
    if _root_handle(netlink, index) != ROOT:
        return {}
    reached = set()
    for entry in netlink.get_filters(index=index, parent=ROOT):
        options = entry.get_attr("TCA_OPTIONS")
        class_id = options.get_attr("TCA_U32_CLASSID") if options is not None else None
        if class_id is not None:
            reached.add(class_id & 0xFFFF)
    paths: dict[int, Path] = {}
    for qdisc in netlink.get_qdiscs(index=index):
        number = qdisc["parent"] & 0xFFFF
        if (
            qdisc.get_attr("TCA_KIND") == "netem"
            and qdisc["parent"] >> 16 == ROOT >> 16
            and number in reached
        ):
            paths[number] = _path(qdisc.get_attr("TCA_OPTIONS"))
    return paths


def _path(options: Any) -> Path:
    from pyroute2.netlink.rtnl.tcmsg.common import tick_in_usec

    rate = options.get_attr("TCA_NETEM_RATE")
    bytes_s = rate["rate"] if rate else 0
    limited = bytes_s not in (0, _UNLIMITED_BYTES_S)
    return Path(
        rtt_ms=round(options["delay"] / tick_in_usec) / 500,
        jitter_ms=round(options["jitter"] / tick_in_usec) / 500,
        loss=round(options["loss"] / (2**32 - 1), 8),
        rate_bit_s=bytes_s * 8.0 if limited else None,
        reorder=bytes_s == 0,
    )


def _same(asked: Path, there: Path | None) -> bool:
    """Whether the kernel holds what was asked, to the precision of its fields."""
    if there is None:
        return False
    wanted, got = netem_arguments(asked), netem_arguments(there)
    return wanted.keys() == got.keys() and all(
        math.isclose(wanted[key], got[key], rel_tol=1e-6, abs_tol=1e-7 if key == "loss" else 0)
        for key in wanted
    )


@dataclass(frozen=True, slots=True)
class ShapeInterface:
    """The tree on one node's data interface with a netem for every impaired destination."""

    namespace: str
    interface: str
    destinations: tuple[Destination, ...]

    def describe(self) -> str:
        """What the step makes."""
        to = "; ".join(f"to {address}: {Path(*path)}" for _, address, path in self.destinations)
        return f"in {self.namespace or 'this host'}: netem on {self.interface}, {to}"

    def present(self, host: Host) -> bool:
        """Whether the tree is there with exactly these paths."""
        if not namespace_exists(self.namespace):
            return False
        with host.netlink(self.namespace) as netlink:
            found = list(netlink.link_lookup(ifname=self.interface))
            if not found or _root_handle(netlink, found[0]) != ROOT:
                return False
            there = injected(netlink, found[0])
        extra = set(there) - {number for number, _, _ in self.destinations}
        return not any(there[number] != Path(reorder=there[number].reorder) for number in extra) and all(
            _same(Path(*path), there.get(number)) for number, _, path in self.destinations
        )

    def apply(self, host: Host) -> None:
        """Build the tree, or bring the one that is there up to date."""
        with host.netlink(self.namespace) as netlink:
            index = _index(netlink, self.namespace, self.interface)
            _add_root(netlink, self.namespace, self.interface, index)
            there = injected(netlink, index)
            for number, address, path in self.destinations:
                _set_path(netlink, index, number, address, Path(*path), number in there)
            for number in set(there) - {number for number, _, _ in self.destinations}:
                _set_path(netlink, index, number, "", Path(), True)

    def undo(self, host: Host) -> None:
        """Remove the tree with all below it."""
        if not namespace_exists(self.namespace):
            return
        with host.netlink(self.namespace) as netlink:
            found = list(netlink.link_lookup(ifname=self.interface))
            if found and _root_handle(netlink, found[0]) == ROOT:
                netlink.tc("del", index=found[0], handle=ROOT, parent=0xFFFFFFFF)


@dataclass(frozen=True, slots=True)
class ChangeDestination:
    """A live change of the path from one interface to one destination."""

    namespace: str
    interface: str
    number: int
    address: str
    before: PlainPath
    after: PlainPath

    def describe(self) -> str:
        """What the step makes."""
        where = f"in {self.namespace or 'this host'}: netem on {self.interface} to {self.address}"
        return f"{where}: {Path(*self.before)} → {Path(*self.after)}"

    def _there(self, host: Host) -> Path | None:
        with host.netlink(self.namespace) as netlink:
            found = list(netlink.link_lookup(ifname=self.interface))
            return injected(netlink, found[0]).get(self.number) if found else None

    def present(self, host: Host) -> bool:
        """Whether the path already is the new one."""
        if not namespace_exists(self.namespace):
            return False
        there = self._there(host)
        # No class and a netem that does nothing are the same to a packet.
        return _same(Path(*self.after), there) or (there is None and Path(*self.after) == Path())

    def apply(self, host: Host) -> None:
        """Change the netem in place, or make one."""
        self._set(host, Path(*self.after))

    def undo(self, host: Host) -> None:
        """Put the path before back, if the tree is still there."""
        if namespace_exists(self.namespace) and self._there(host) is not None:
            self._set(host, Path(*self.before))

    def _set(self, host: Host, path: Path) -> None:
        with host.netlink(self.namespace) as netlink:
            index = _index(netlink, self.namespace, self.interface)
            _add_root(netlink, self.namespace, self.interface, index)
            _set_path(
                netlink, index, self.number, self.address, path, self.number in injected(netlink, index)
            )
