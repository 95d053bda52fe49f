"""The Linux host a testbed is built on: reading what is there and changing it, one small act at a time."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import struct
import subprocess
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fogctl.errors import FAILED, FogError
from fogctl.testbed import cgroups, kernel, neighbours, processes

NAMESPACES = str(Path("/var/run/netns").resolve())
"""Where iproute2 keeps named network namespaces."""
NETLINK_SOCKETS = 4
"""How many netlink sockets stay open at once: the switch's, the current node's, and some slack."""


@dataclass(frozen=True, slots=True)
class Link:
    """A network interface as the kernel shows it."""

    name: str
    up: bool
    bridge: str | None
    addresses: frozenset[str]


class LinuxHost:
    """This machine. Needs root to change anything. Also what fognetem's steps run on."""

    def __init__(self) -> None:
        self._sockets: OrderedDict[str, Any] = OrderedDict()
        self._links: dict[str, dict[str, Link]] = {}

    def close(self) -> None:
        """Close every netlink socket; an open one keeps its namespace alive."""
        for opened in self._sockets.values():
            opened.close()
        self._sockets.clear()
        self._links.clear()

    def __enter__(self) -> LinuxHost:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Facts

    def boot_id(self) -> str:
        """Changes with every boot."""
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()

    def cgroup_hierarchies(self) -> cgroups.Hierarchies:
        """Which control group hierarchies are mounted and what each offers."""
        return cgroups.detect(
            Path("/proc/self/mountinfo").read_text(),
            lambda root: Path(root, "cgroup.controllers").read_text(),
        )

    def mounted(self, path: str) -> bool:
        """Whether something is mounted at exactly that path."""
        return path in kernel.mount_points(Path("/proc/self/mountinfo").read_text())

    def namespace_file(self, name: str) -> str:
        """The file that names a network namespace."""
        return f"{NAMESPACES}/{name}"

    def namespace_inode(self, name: str) -> int | None:
        """The inode number of a named network namespace; None if there is none of that name."""
        try:
            found = Path(self.namespace_file(name)).stat()
        except FileNotFoundError:
            return None
        # A name whose namespace is not (or no longer) mounted on it is a plain file of the folder's device.
        return None if found.st_dev == Path(NAMESPACES).stat().st_dev else found.st_ino

    def links(self, namespace: str) -> dict[str, Link]:
        """The interfaces of a namespace by name; remembered until this object changes one of them."""
        if namespace not in self._links:
            if namespace and self.namespace_inode(namespace) is None:
                return {}
            self._links[namespace] = self._read_links(namespace)
        return self._links[namespace]

    def _read_links(self, namespace: str) -> dict[str, Link]:
        with self.netlink(namespace) as netlink:
            found = list(netlink.get_links())
            addresses: dict[int, set[str]] = {}
            for entry in netlink.get_addr(family=socket.AF_INET):
                text = f"{entry.get_attr('IFA_ADDRESS')}/{entry['prefixlen']}"
                addresses.setdefault(entry["index"], set()).add(text)
        names = {link["index"]: link.get_attr("IFLA_IFNAME") for link in found}
        return {
            names[link["index"]]: Link(
                name=names[link["index"]],
                up=bool(link["flags"] & 1),
                bridge=names.get(link.get_attr("IFLA_MASTER")),
                addresses=frozenset(addresses.get(link["index"], ())),
            )
            for link in found
        }

    # Namespaces

    @contextmanager
    def inside(self, namespace: str) -> Iterator[None]:
        """Run the body in a network namespace; "" is the caller's own."""
        if not namespace:
            yield
            return
        with kernel.network_kept():
            try:
                descriptor = os.open(self.namespace_file(namespace), os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                raise _gone(namespace) from None
            try:
                kernel.enter(descriptor)
            except OSError as error:
                raise _gone(namespace) if error.errno == errno.EINVAL else error from None
            finally:
                os.close(descriptor)
            yield

    def add_namespace(self, name: str) -> None:
        """A named network namespace with loopback up and IPv6 off. FileExistsError if the name is taken."""
        path = self.namespace_file(name)
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444))
        with kernel.network_kept():
            kernel.unshare(kernel.NEW_NETWORK)
            for which in ("all", "default"):
                setting = Path(f"/proc/sys/net/ipv6/conf/{which}/disable_ipv6")
                if setting.exists():
                    setting.write_text("1")
            _loopback_up()
            # Named last: whoever finds the name finds a namespace that is ready.
            kernel.mount("/proc/thread-self/ns/net", path, flags=kernel.BIND)

    def remove_namespace(self, name: str) -> None:
        """End what runs in a named namespace and remove the name; nothing happens if it is gone."""
        inode = self.namespace_inode(name)
        if inode is not None:
            processes.end((), {inode})
        self._forget(name)
        path = self.namespace_file(name)
        with contextlib.suppress(FileNotFoundError):
            if inode is not None:
                kernel.unmount(path, kernel.DETACH)
            Path(path).unlink()

    # Links

    @contextmanager
    def netlink(self, namespace: str) -> Iterator[Any]:
        """A netlink socket (pyroute2's IPRoute) in a namespace; "" is the caller's own."""
        from pyroute2 import IPRoute  # slow to import, and Linux only

        if namespace not in self._sockets:
            with self.inside(namespace):
                self._sockets[namespace] = IPRoute()
            while len(self._sockets) > NETLINK_SOCKETS:
                self._sockets.popitem(last=False)[1].close()
        self._sockets.move_to_end(namespace)
        yield self._sockets[namespace]

    @contextmanager
    def _changing_links(self, namespace: str) -> Iterator[Any]:
        """A netlink socket whose refusals are plain OSErrors."""
        with self.netlink(namespace) as netlink:
            from pyroute2.netlink.exceptions import NetlinkError

            try:
                yield netlink
            except NetlinkError as error:
                raise OSError(error.code, os.strerror(error.code), namespace) from error

    def add_bridge(self, namespace: str, name: str, address: str | None) -> None:
        """A bridge that forwards from its first moment, with an address of its own if given."""
        self._links.pop(namespace, None)
        with self._changing_links(namespace) as netlink:
            netlink.link("add", ifname=name, kind="bridge", br_forward_delay=0, br_mcast_snooping=0)
            index = netlink.link_lookup(ifname=name)[0]
            if address:
                netlink.addr(
                    "add", index=index, address=address.split("/")[0], prefixlen=int(address.split("/")[1])
                )
            netlink.link("set", index=index, state="up")

    def add_veth(
        self, namespace: str, interface: str, address: str, switch: str, port: str, bridge: str
    ) -> None:
        """An interface with an address in one namespace, wired to a bridge in another."""
        known = self._links.pop(switch, None)
        self._links.pop(namespace, None)
        node = os.open(self.namespace_file(namespace), os.O_RDONLY | os.O_CLOEXEC)
        try:
            with self._changing_links(switch) as netlink:
                master = netlink.link_lookup(ifname=bridge)
                if not master:
                    raise FogError(
                        f"bridge {bridge} in {switch} is gone", hint="run fogctl up", exit_code=FAILED
                    )
                there = {
                    "ifname": interface,
                    "net_ns_fd": node,
                    "address": neighbours.hardware_address(address.split("/")[0]),
                }
                netlink.link("add", ifname=port, kind="veth", peer=there, master=master[0], state="up")
        finally:
            os.close(node)
        with self._changing_links(namespace) as netlink:
            index = netlink.link_lookup(ifname=interface)[0]
            plain, length = address.split("/")
            netlink.addr("add", index=index, address=plain, prefixlen=int(length))
            netlink.link("set", index=index, state="up")
        if known is not None:
            # Reading a switch of hundreds of ports anew after each one would cost the square of their number.
            self._links[switch] = {**known, port: Link(port, True, bridge, frozenset())}

    def add_neighbours(self, namespace: str, interface: str, addresses: Sequence[str]) -> None:
        """Let a namespace know these addresses for good, so that it never asks for them."""
        with self.inside(namespace):
            neighbours.add(socket.if_nametoindex(interface), addresses)

    def neighbours(self, namespace: str, interface: str) -> dict[str, str]:
        """The addresses a namespace knows for good on an interface, with the hardware addresses."""
        if self.namespace_inode(namespace) is None or interface not in self.links(namespace):
            return {}
        with self.inside(namespace):
            return neighbours.permanent(socket.if_nametoindex(interface))

    def remove_link(self, namespace: str, name: str) -> None:
        """Remove an interface; nothing happens if it, or its namespace, is gone."""
        self._links.pop(namespace, None)
        if self.namespace_inode(namespace) is None:
            return
        with self._changing_links(namespace) as netlink:
            for index in netlink.link_lookup(ifname=name):
                netlink.link("del", index=index)

    def _forget(self, namespace: str) -> None:
        self._links.pop(namespace, None)
        opened = self._sockets.pop(namespace, None)
        if opened is not None:
            opened.close()

    # Control groups

    def add_group(self, path: str, delegate: tuple[str, ...]) -> None:
        """A control group that hands these controllers to the groups below it (version 2 only)."""
        Path(path).mkdir()
        for controller in delegate:
            self.write_kernel(f"{path}/cgroup.subtree_control", f"+{controller}")

    def remove_group(self, path: str) -> None:
        """End what runs in a control group and remove it with all below; nothing happens if it is gone."""
        processes.end((path,), set())
        deadline = time.monotonic() + processes.PATIENCE_S
        for folder, _, _ in os.walk(path, topdown=False):
            while True:
                try:
                    Path(folder).rmdir()
                except FileNotFoundError:
                    break
                except OSError as error:
                    # A process that just died may hold its group for a moment.
                    if error.errno != errno.EBUSY or time.monotonic() > deadline:
                        raise
                    processes.end((path,), set())
                    time.sleep(0.005)
                else:
                    break

    def write_kernel(self, path: str, text: str) -> None:
        """Write to a kernel file in one go; the kernel's refusal becomes a sentence."""
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(descriptor, text.encode())
            finally:
                os.close(descriptor)
        except OSError as error:
            raise FogError(f"cannot write {text!r} to {path}: {error.strerror}", exit_code=FAILED) from error

    # Commands

    def run(self, namespace: str, argv: list[str], stdin: str = "") -> str:
        """Run a command in a network namespace and answer what it printed."""
        try:
            with self.inside(namespace):
                done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
        except FileNotFoundError as error:
            raise FogError(
                f"{error.filename} is missing on this host", hint="fogctl doctor", exit_code=FAILED
            ) from None
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip()
            raise FogError(f"{' '.join(argv)}: {said or f'exit {done.returncode}'}", exit_code=FAILED)
        return done.stdout


def _gone(namespace: str) -> FogError:
    return FogError(f"network namespace {namespace} is gone", hint="run fogctl up", exit_code=FAILED)


def _loopback_up() -> None:
    """Bring lo up with an ioctl: no netlink socket needed for one flag."""
    set_flags, running = 0x8914, 0x1 | 0x40
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, set_flags, struct.pack("16sH14s", b"lo", running, b""))
