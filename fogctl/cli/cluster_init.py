"""`fogctl init --kind k3s --kubeconfig FILE`: a testbed of the nodes of a cluster that is there already."""

from __future__ import annotations

from pathlib import Path

from fogctl.cli.testbed import progress
from fogctl.errors import FogError
from fogctl.testbed import state
from fogctl.testbed.model import Testbed


def draft(name: str, kubeconfig: Path, context: str | None) -> str:
    """The testbed.yaml of a cluster's nodes; FogError if it does not answer."""
    from fogctl.kube import draft as cluster_draft
    from fogctl.kube.access import Access
    from fogctl.kube.objects import Objects

    file = kubeconfig.expanduser().absolute()
    access = Access(file, context)
    objects = Objects(access)
    try:
        nodes, classes = objects.list("Node"), objects.list("StorageClass")
        return cluster_draft.yaml_text(name, file, context, nodes, classes, access.url)
    finally:
        access.close()


def bring_up(bed: Testbed, file: Path) -> str:
    """Bring a testbed up on its cluster; says what was done, or in one sentence how to go on."""
    from fogctl.kube.cluster import Cluster

    again = "fogctl up" if file == Path("testbed.yaml") else f"fogctl up --testbed {file}"
    try:
        with progress("bringing up") as show:
            changes = Cluster(bed, state.writable_state_dir()).up(show)
    except FogError as error:
        raise FogError(
            f"{error}\n{file} stays as it is: mend what is said above, then run: {again}"
            f" (to undo what was made: {again.replace(' up', ' down')})",
            exit_code=error.exit_code,
        ) from error
    made = f"{len(bed.nodes)} nodes, {len(changes.made)} of {changes.whole} parts made; {changes.latency}"
    return (
        f'the testbed "{bed.name}" is up: {made}\nnext: fogctl status, fogctl doctor, fogctl app deploy taxi'
    )
