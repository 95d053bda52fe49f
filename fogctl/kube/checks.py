"""What is looked at before anything is changed on a cluster: permissions, nodes, storage, others' objects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fogctl.errors import REFUSED, FogError
from fogctl.kube import names
from fogctl.kube.access import Manifest
from fogctl.kube.ledger import Entry, NodeLabel
from fogctl.kube.nodes import read_node
from fogctl.kube.objects import Objects, Ref
from fogctl.kube.plan import Part
from fogctl.kube.rbac import Question
from fogctl.testbed.ledger import Ledger
from fogctl.testbed.model import Testbed


def allowed(objects: Objects, question: Question) -> bool:
    """Whether the account may do that, as the API server says."""
    answer = objects.ask(
        "review", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", question.to_json()
    )
    return bool((answer.get("status") or {}).get("allowed"))


def require_allowed(objects: Objects, questions: Iterable[Question]) -> None:
    """FogError with everything that the account lacks."""
    lacking = [question.describe() for question in questions if not allowed(objects, question)]
    if lacking:
        raise FogError(
            f"the account in {objects.access.kubeconfig} may not {'; '.join(lacking)}",
            hint="bring the testbed up with an administrator's kubeconfig (kube: {config: FILE})",
            exit_code=REFUSED,
        )


def require_nodes(testbed: Testbed, found: Sequence[Manifest]) -> None:
    """FogError if a node of the testbed is missing, not ready, or another testbed's."""
    there = {manifest["metadata"]["name"]: manifest for manifest in found}
    missing = [node.name for node in testbed.nodes if node.name not in there]
    if missing:
        raise FogError(
            f"the cluster has no node {', '.join(missing)}",
            hint=f"its nodes: {_some(sorted(there))}; a board joins it by fogctl pi provision",
            exit_code=REFUSED,
        )
    for node in testbed.nodes:
        manifest = there[node.name]
        owner = (manifest["metadata"].get("labels") or {}).get(names.TESTBED)
        if owner not in (None, testbed.name):
            raise FogError(
                f"node {node.name} belongs to testbed {owner}",
                hint=f"take that down first (fogctl down {owner}), or leave the node out",
                exit_code=REFUSED,
            )
        state = read_node(manifest)
        if not state.ready:
            raise FogError(
                f"node {node.name} is not ready: {state.why}",
                hint="is it switched on? journalctl -u k3s-agent there says more",
                exit_code=REFUSED,
            )


def require_storage(testbed: Testbed, objects: Objects) -> None:
    """FogError if the cluster has not the storage class that the testbed asks for."""
    wanted = testbed.kube.storage_class
    if objects.get(Ref("StorageClass", wanted)) is None:
        there = [each["metadata"]["name"] for each in objects.list("StorageClass")]
        raise FogError(
            f"the cluster has no storage class {wanted}",
            key="kube.storage_class",
            hint=f"it has: {_some(there)}" if there else "it has none: install a provisioner first",
            exit_code=REFUSED,
        )


def refuse_foreign(
    testbed: Testbed, wanted: Sequence[Part], there: dict[Ref, Manifest], ledger: Ledger[Entry]
) -> None:
    """Refuse if something that is not this testbed's stands where a part of it would be made."""
    for part in wanted:
        if isinstance(part.entry, NodeLabel) or (found := there.get(part.entry)) is None:
            continue
        if not names.is_ours(found["metadata"].get("labels"), testbed.name):
            raise FogError(
                f"{part.describe()} exists and was not made by fogctl, so it is left alone and nothing "
                "was changed",
                hint="remove it yourself if it is a leftover, or give the testbed another name",
                exit_code=REFUSED,
            )
        if part.entry not in ledger and not any(isinstance(entry, Ref) for entry in ledger.steps):
            raise FogError(
                f"testbed {testbed.name} is on this cluster already, but not brought up from here",
                hint=f"take it down where it was brought up; if its state was lost: {removing(testbed.name)}",
                exit_code=REFUSED,
            )


def removing(testbed: str) -> str:
    """How to remove a testbed of which nothing but the cluster knows any more."""
    return (
        f"kubectl delete namespaces,clusterroles,clusterrolebindings -l {names.selector(testbed)} and "
        f"kubectl label nodes -l {names.TESTBED}={testbed} {names.TESTBED}-"
    )


def _some(all_names: Sequence[str], most: int = 10) -> str:
    shown = ", ".join(all_names[:most]) or "none"
    return shown + (f" and {len(all_names) - most} more" if len(all_names) > most else "")
