"""One real machine whose traffic to other nodes is delayed: fog-netem there, asked over SSH."""

from __future__ import annotations

import base64
import gzip
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from fognetem import batch
from fognetem.path import Path

from fogctl.errors import FAILED, FogError
from fogctl.testbed.model import SshHost

if TYPE_CHECKING:
    from fogctl.pi.contact import Answer

SWITCH_S = 600
"""After so long without a renewal a machine clears its latencies."""
_TOOL = "/usr/local/sbin/fog-netem"
_AT_ONCE = 16

T = TypeVar("T")
Run = Callable[[SshHost, str], "Answer"]


def over_ssh(host: SshHost, command: str) -> Answer:
    """Run a command on a host whose key is recorded."""
    # A client of SSH takes as long to load as the rest of a command: only those pay who need one.
    from fogctl.pi import contact, known_hosts

    return contact.run(host, known_hosts.KnownHosts(known_hosts.default_file()), command)


@dataclass(frozen=True, slots=True)
class ImpairedHost:
    """The machine of a node."""

    host: SshHost
    run: Run = field(default=over_ssh, repr=False)

    def bring_to(
        self,
        paths: Mapping[str, Path],
        old: Mapping[str, Path] | None,
        addresses: Mapping[str, str],
        free_ports: Sequence[int],
    ) -> bool:
        """Have exactly these paths to the other nodes; whether anything was changed.

        `old` is what was injected last, None if nothing was: if that is all there, only what differs is
        changed, in place. Otherwise the tree is made anew.
        """
        number = {node: place for place, node in enumerate(paths, start=1)}
        routes = self._routes([addresses[node] for node in paths])
        by_device: dict[str, list[batch.Target]] = {}
        for node, path in paths.items():
            ipv4, device = routes[addresses[node]]
            by_device.setdefault(device, []).append(batch.Target(number[node], ipv4, path))
        there = self.devices()
        lines: list[str] = []
        for device, targets in by_device.items():
            if old is not None and there.get(device) == len(targets):
                same = {number[node] for node, path in paths.items() if old.get(node) == path}
                lines += batch.change(device, [each for each in targets if each.number not in same])
            else:
                lines += batch.remove(device) if device in there else []
                lines += batch.build(device, targets, free_ports)
        for device in there.keys() - by_device.keys():
            lines += batch.remove(device)
        if lines:
            self._apply(lines)
        return bool(lines)

    def injected(self) -> int:
        """To how many destinations something is injected, on all interfaces together."""
        return sum(self.devices().values())

    def devices(self) -> dict[str, int]:
        """By interface with a tree of ours: how many destinations it has."""
        found: dict[str, int] = {}
        for line in self._ask("show").splitlines():
            words = line.split()
            if len(words) == 2 and words[1].isdigit():
                found[words[0]] = int(words[1])
        return found

    def renew(self) -> None:
        """Put the clearing off."""
        self._ask(f"renew {SWITCH_S}")

    def clear(self) -> None:
        """Take every latency off."""
        self._ask("clear")

    def round_trips(self, count: int, interval_s: float, addresses: Iterable[str]) -> dict[str, list[float]]:
        """Ping each address so often; by address the round trips that came back, in ms."""
        listed = " ".join(map(shlex.quote, addresses))
        found: dict[str, list[float]] = {}
        for line in self._ask(f"ping {count} {interval_s:g} {listed}").splitlines():
            address, *trips = line.split()
            found[address] = [float(trip) for trip in trips]
        return found

    def _routes(self, addresses: Sequence[str]) -> dict[str, tuple[str, str]]:
        """By address: the IPv4 address it stands for, and the interface that leads there."""
        said = self._ask(f"route {' '.join(map(shlex.quote, addresses))}")
        lines = [line.split() for line in said.splitlines()]
        found = {words[0]: (words[1], words[2]) for words in lines if len(words) == 3}
        for address in addresses:
            if address not in found:
                raise self._failed(f"there is no way from there to {address}")
            if found[address][1] == "lo":
                raise self._failed(
                    f"{address} leads back to the same machine: give each node its own address"
                )
        return found

    def _apply(self, lines: Sequence[str]) -> None:
        packed = base64.b64encode(gzip.compress("".join(f"{line}\n" for line in lines).encode())).decode()
        self._ask(f"apply {SWITCH_S}", f"echo {packed} | base64 -d | gunzip | ")

    def _ask(self, what: str, before: str = "") -> str:
        """What fog-netem there says; FogError with its sentence if it fails, or if it is not there."""
        from fogctl.pi.contact import NoContactError

        become = "" if self.host.user == "root" else "sudo -n "
        try:
            answer = self.run(self.host, f"{before}{become}{_TOOL} {what}")
        except NoContactError as error:
            raise self._failed(str(error)) from None
        if answer.code == 0:
            return answer.stdout
        said = (answer.stderr or answer.stdout).strip().splitlines()
        if "not found" in " ".join(said) or answer.code == 127:
            raise self._failed("it is not ready for latencies: fogctl pi provision -p netem makes it so")
        raise self._failed(
            said[-1].removeprefix("fog-netem: ") if said else f"{what} ended with {answer.code}"
        )

    def _failed(self, why: str) -> FogError:
        return FogError(f"{self.host.node}: {why}", exit_code=FAILED)


def on_each(hosts: Mapping[str, ImpairedHost], work: Callable[[ImpairedHost], T]) -> dict[str, T]:
    """Do the same on all machines at once; FogError with every machine that failed, after all have ended."""
    if not hosts:
        return {}
    with ThreadPoolExecutor(min(_AT_ONCE, len(hosts))) as pool:
        begun = {node: pool.submit(work, host) for node, host in hosts.items()}
    failures = [error for each in begun.values() if (error := each.exception()) is not None]
    for error in failures:
        if not isinstance(error, FogError):
            raise error
    if failures:
        raise FogError("\n".join(map(str, failures)), exit_code=FAILED)
    return {node: each.result() for node, each in begun.items()}
