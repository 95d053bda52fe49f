"""What the commands do differently for each kind of testbed, in one place; nothing is imported in vain."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fogctl.errors import FogError
from fogctl.testbed import state
from fogctl.testbed.model import Kind, Testbed

if TYPE_CHECKING:
    from fogctl.kube.cluster import Cluster
    from fogctl.testbed.build import Progress
    from fogctl.testbed.doctor import Finding
    from fogctl.testbed.virtual import Virtual


def kind_of(testbed: Testbed, state_dir: Path) -> Virtual | Cluster:
    """What brings a testbed of its kind up, looks at it and takes it down."""
    if testbed.kind is Kind.k3s:
        from fogctl.kube.cluster import Cluster

        return Cluster(testbed, state_dir)
    from fogctl.testbed.virtual import Virtual

    return Virtual(testbed, state_dir)


def trouble(kind: Virtual | Cluster) -> str | None:
    """What a virtual testbed could not get from its host, if anything."""
    from fogctl.testbed import network
    from fogctl.testbed.virtual import Virtual

    return network.trouble(kind.running) if isinstance(kind, Virtual) else None


def recorded(folder: state.StateFolder) -> list[str]:
    """What taking a testbed down would remove."""
    if not folder.exists:
        return []
    if folder.kind is Kind.k3s:
        from fogctl.kube import removal

        return [entry.describe() for entry in removal.recorded(folder)]
    from fogctl.testbed import virtual
    from fogctl.testbed.host import LinuxHost

    return [step.describe() for step in virtual.recorded(folder, LinuxHost())]


def take_down(folder: state.StateFolder, show: Progress) -> list[str]:
    """Take a testbed of any kind down; answers what was removed."""
    if folder.kind is Kind.k3s:
        from fogctl.kube import removal

        return [entry.describe() for entry in removal.take_down(folder, show)]
    from fogctl.testbed import virtual
    from fogctl.testbed.host import LinuxHost

    if folder.ledger.exists():
        virtual.require_root()
    return [step.describe() for step in virtual.take_down(folder, LinuxHost(), show)]


def no_exec(folder: state.StateFolder, node: str) -> FogError:
    """The refusal to run a command on a real machine, with the way there."""
    bed = folder.load().testbed
    bed.require(node)
    ways = [f"ssh -p {each.port} {each.user}@{each.address}" for each in bed.hosts if each.node == node]
    hint = f"log in there: {ways[0]}" if ways else "log in there by SSH"
    return FogError(f"node {node} is a real machine, and fogctl runs nothing on it but pods", hint=hint)


def clusters() -> list[Finding]:
    """What there is to say about the clusters of the testbeds that are up."""
    folders = [folder for folder in state.remembered(state.state_dir()) if folder.kind is Kind.k3s]
    if not folders:
        return []
    from fogctl.kube import doctor as cluster_doctor
    from fogctl.kube.running import KubeRunning

    return [
        finding
        for folder in folders
        for finding in cluster_doctor.examine(KubeRunning.load(folder.name, folder.folder.parent))
    ]
