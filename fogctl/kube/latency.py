"""Latencies between real machines: fognetem's tree on each of them over SSH, with a dead man's switch.

Only traffic to the other nodes' addresses is delayed. SSH, the API server and the kubelets stay free whatever
the destination, and this machine is no node: nobody can be locked out. What is not renewed is cleared by the
machine itself, so latencies never outlive a testbed of which nobody knows any more.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from fognetem import LatencyMatrix, NetemError, Verification
from fognetem.kernel import netem_arguments
from fognetem.matrix import changed_pairs
from fognetem.measure import Measurement, Samples
from fognetem.verify import judge

from fogctl.errors import FAILED, FogError
from fogctl.kube.background import Job, Jobs
from fogctl.kube.impaired_host import ImpairedHost, on_each
from fogctl.kube.ledger import Entry, HostLatency, open_ledger
from fogctl.kube.running import KubeRunning
from fogctl.testbed import lock
from fogctl.testbed.build import Progress
from fogctl.testbed.ledger import Ledger
from fogctl.testbed.model import SshHost, Testbed
from fogctl.testbed.state import Record

BACKEND = "kernel"
RENEWAL = "latencies"
"""The job in the background that keeps the switches from falling."""
PROBES = 20
PROBE_INTERVAL_S = 0.05


def words(testbed: Testbed) -> str:
    """How latencies are injected, for whoever brings the testbed up."""
    if not testbed.hosts:
        return "no latencies: the testbed names no hosts" if testbed.latencies.paths else "no latencies"
    return "latencies are injected by the hosts' kernels, over SSH"


def wanted(testbed: Testbed) -> list[HostLatency]:
    """On which hosts a testbed injects something."""
    return [HostLatency(host.node) for host in testbed.hosts] if testbed.latencies.paths else []


def lacking(running: KubeRunning, goal: LatencyMatrix | None = None) -> list[HostLatency]:
    """On which hosts something must be done to inject the goal, by default what should be there already."""
    goal = running.latencies if goal is None else goal
    if goal != running.latencies:
        return [HostLatency(host.node) for host in running.testbed.hosts]
    if not goal.paths:
        return []
    return [HostLatency(node) for node, whole in _whole(running).items() if not whole]


def require_possible(testbed: Testbed) -> None:
    """FogError if the latencies that a testbed asks for cannot be injected; asked before anything is made."""
    if not testbed.latencies.paths:
        return
    require_hosts(testbed)
    _check(testbed.latencies)
    on_each(_hosts(testbed), lambda host: host.devices())


def inject(running: KubeRunning, ledger: Ledger[Entry], progress: Progress) -> list[HostLatency]:
    """Have the testbed's own latencies injected, for `up`, which holds lock and ledger; what was done."""
    goal = running.testbed.latencies
    if not goal.paths and not running.latencies.paths:
        return []
    require_hosts(running.testbed)
    done = _apply(running, goal, ledger, lambda said: progress(0, 1, said))
    return [HostLatency(node) for node in done]


def change(
    running: KubeRunning,
    goal: LatencyMatrix,
    say: Callable[[str], None] = lambda _: None,
) -> KubeRunning:
    """Inject these latencies from now on; the testbed then. Refuses while another fogctl changes it."""
    require_hosts(running.testbed)
    with lock.held(running.folder):
        ledger = open_ledger(running.state)
        try:
            _apply(running, goal, ledger, say)
        finally:
            ledger.close()
    return KubeRunning.load(running.testbed.name, running.folder.parent)


def steps_to(running: KubeRunning, goal: LatencyMatrix) -> list[str]:
    """What `change` would do, in words."""
    require_hosts(running.testbed)
    _check(goal)
    return [
        f"on the hosts of {a} and {b}: {before} → {after}"
        for a, b, before, after in changed_pairs(running.latencies, goal)
    ]


def verify(
    running: KubeRunning,
    tolerance_ms: float,
    probes: int | None,
    progress: Callable[[float], None] | None,
) -> Verification:
    """Have every machine ping every other, and compare with what should be injected."""
    require_hosts(running.testbed)
    if running.latencies.paths and (gone := lacking(running)):
        raise FogError(
            f"the latencies are not all injected: {gone[0].node} has cleared them",
            hint="fogctl net apply injects them again",
            exit_code=FAILED,
        )
    began = time.monotonic()
    count = probes or PROBES
    addresses = _addresses(running.testbed)
    done = 0

    def probe(host: ImpairedHost) -> dict[str, list[float]]:
        nonlocal done
        seen = host.round_trips(count, PROBE_INTERVAL_S, addresses.values())
        done += 1
        if progress is not None:
            progress(done / len(addresses))
        return seen

    seen = on_each(_hosts(running.testbed), probe)
    own = [trip for node, trips in seen.items() for trip in trips.get(addresses[node], [])]
    baseline_ms = statistics.median(own) if own else 0.0
    pairs: dict[tuple[str, str], Samples] = {}
    for a, b, _ in running.latencies.pairs():
        trips = [*seen[a].get(addresses[b], []), *seen[b].get(addresses[a], [])]
        # A ping tells of the way there and the way back together only: half of it is put down to each.
        half = [trip / 2 for trip in trips]
        pairs[a, b] = Samples(2 * count, half, list(half), trips)
    measured = Measurement(pairs, baseline_ms, 0.0, time.monotonic() - began, 0.0, None)
    return judge(running.latencies, measured, tolerance_ms)


def clear_host(testbed: Testbed, node: str) -> None:
    """Take every latency off the machine of a node, for `down`."""
    for host in testbed.hosts:
        if host.node == node:
            ImpairedHost(host).clear()


def require_hosts(testbed: Testbed) -> tuple[SshHost, ...]:
    """The machines of the testbed; FogError if it names none, because only machines can delay packets."""
    if not testbed.hosts:
        raise FogError(
            f"testbed {testbed.name} names no hosts, so no latency can be injected between its nodes",
            key="hosts",
            hint="say in testbed.yaml how each node is reached over SSH",
        )
    return testbed.hosts


def keep_renewed(running: KubeRunning, needed: bool) -> None:
    """Have the job that renews the switches run, or not."""
    jobs = Jobs(running.folder)
    if not needed:
        jobs.stop(RENEWAL)
        return
    jobs.ensure(Job(RENEWAL, (sys.executable, "-P", "-m", "fogctl.kube.renewal", str(running.folder))))


def tend(running: KubeRunning) -> list[str]:
    """Put the clearing off on every machine, and inject anew what one has lost.

    Answers a sentence for each machine that could not be reached.
    """
    failures: list[str] = []

    def renew(host: ImpairedHost) -> None:
        try:
            host.renew()
        except FogError as error:
            failures.append(str(error))

    on_each(_hosts(running.testbed), renew)
    with contextlib.suppress(FogError):
        if not failures and lacking(running):
            change(running, running.latencies)
    return failures


def _apply(
    running: KubeRunning, goal: LatencyMatrix, ledger: Ledger[Entry], say: Callable[[str], None]
) -> list[str]:
    """Bring every machine to the goal; the nodes of those that were changed."""
    _check(goal)
    hosts = _hosts(running.testbed)
    addresses = _addresses(running.testbed)
    record = running.state.load()
    if not goal.paths:
        keep_renewed(running, needed=False)
        say("clearing the latencies")
        on_each(hosts, lambda host: host.clear())
        running.state.save(Record(record.testbed, goal, record.backend))
        for entry in [each for each in ledger.steps if isinstance(each, HostLatency)]:
            ledger.forget(entry)
        return list(hosts)
    for node in hosts:
        ledger.record(HostLatency(node))
    say("injecting the latencies")
    before = record.latencies

    def bring(host: ImpairedHost) -> bool:
        node = host.host.node
        paths = {other: goal.path(node, other) for other in goal.nodes if other != node}
        old = {other: before.path(node, other) for other in paths} if before.paths else None
        return host.bring_to(paths, old, addresses, _free_ports(running.testbed))

    changed = on_each(hosts, bring)
    running.state.save(Record(record.testbed, goal, BACKEND))
    keep_renewed(running, needed=True)
    return [node for node, did in changed.items() if did]


def _check(goal: LatencyMatrix) -> None:
    """What the kernel cannot hold is refused before anything is touched."""
    try:
        for _, _, path in goal.paths:
            netem_arguments(path)
    except NetemError as error:
        raise FogError(str(error)) from error


def _whole(running: KubeRunning) -> Mapping[str, bool]:
    others = len(running.testbed.nodes) - 1
    return on_each(_hosts(running.testbed), lambda host: host.injected() == others)


def _hosts(testbed: Testbed) -> dict[str, ImpairedHost]:
    return {host.node: ImpairedHost(host) for host in testbed.hosts}


def _addresses(testbed: Testbed) -> dict[str, str]:
    return {host.node: host.reached_at for host in testbed.hosts}


def _free_ports(testbed: Testbed) -> Sequence[int]:
    """SSH, the API server and the kubelets: the way to machines must not depend on what is injected."""
    return sorted({22, 6443, 10250, *(host.port for host in testbed.hosts)})
