"""Asking all hosts at once: their keys at first contact, then their facts and what is wrong with them."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from fogctl.pi import contact
from fogctl.pi.contact import NoContactError
from fogctl.pi.facts import PROBE, Facts, parse
from fogctl.pi.findings import Finding, findings, unreachable
from fogctl.pi.known_hosts import HostKey, KnownHosts, Trust, changed_key
from fogctl.testbed.model import SshHost

AT_ONCE = 16
PROBE_TIMEOUT_S = 180

_Answer = TypeVar("_Answer")
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Preflight:
    """What all hosts answered."""

    facts: tuple[Facts, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class FirstContact:
    """The keys of hosts that were never seen before, and of those that do not answer why."""

    new: tuple[tuple[SshHost, HostKey], ...]
    silent: tuple[tuple[SshHost, str], ...]


def first_contact(
    hosts: Sequence[SshHost],
    known: KnownHosts,
    show: Progress,
    replace: Sequence[str] = (),
    every: bool = False,
) -> FirstContact:
    """Keys to be recorded; a host that shows another key than the recorded one is refused.

    `replace` names nodes whose recorded key is forgotten; `every` looks at hosts that are recorded too.
    """
    asked = [host for host in hosts if every or host.node in replace or not known.keys(host)]

    def ask(host: SshHost) -> HostKey | NoContactError:
        try:
            return contact.shown_key(host, [key.kind for key in known.keys(host)])
        except NoContactError as error:
            return error

    new: list[tuple[SshHost, HostKey]] = []
    silent: list[tuple[SshHost, str]] = []
    for host, shown in zip(asked, _all(asked, ask, show), strict=True):
        if isinstance(shown, NoContactError):
            silent.append((host, str(shown)))
        elif host.node in replace or known.judge(host, shown) is Trust.new:
            new.append((host, shown))
        elif known.judge(host, shown) is Trust.changed:
            raise changed_key(host, known.keys(host), shown)
    return FirstContact(tuple(new), tuple(silent))


def check(hosts: Sequence[SshHost], known: KnownHosts, boards: dict[str, str], show: Progress) -> Preflight:
    """Probe every host side by side and judge the answers; a changed host key is refused."""

    def ask(host: SshHost) -> Facts | Finding:
        try:
            return probe(host, known)
        except NoContactError as error:
            return unreachable(host.node, str(error))

    answers = _all(hosts, ask, show)
    facts = tuple(answer for answer in answers if isinstance(answer, Facts))
    silent = [answer for answer in answers if isinstance(answer, Finding)]
    return Preflight(facts, (*silent, *findings(facts, boards)))


def probe(host: SshHost, known: KnownHosts) -> Facts:
    """One host's facts."""
    script = PROBE.read_text(encoding="utf-8")
    asked_s = time.time()
    answer = contact.run(host, known, f"sh -c {shlex.quote(script)}", PROBE_TIMEOUT_S)
    answered_s = time.time()
    try:
        return parse(host.node, answer.stdout, asked_s, answered_s)
    except (ValueError, KeyError) as error:
        said = (answer.stderr.strip() or f"exit {answer.code}").splitlines()[-1]
        raise NoContactError(f"it does not say what it is like: {error}: {said}") from None


def _all(hosts: Sequence[SshHost], ask: Callable[[SshHost], _Answer], show: Progress) -> list[_Answer]:
    """Ask side by side; the answers come in the order of the hosts."""
    done = 0
    show(0, len(hosts), "")

    def one(host: SshHost) -> _Answer:
        nonlocal done
        answer = ask(host)
        done += 1
        show(done, len(hosts), host.node)
        return answer

    if not hosts:
        return []
    with ThreadPoolExecutor(min(AT_ONCE, len(hosts))) as pool:
        return list(pool.map(one, hosts))
