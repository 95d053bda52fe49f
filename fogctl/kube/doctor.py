"""What a testbed's cluster offers, what its account may and may not do, and what was left there."""

from __future__ import annotations

from fogctl.errors import FogError
from fogctl.kube import checks, names, rbac
from fogctl.kube.access import Access
from fogctl.kube.nodes import read_node
from fogctl.kube.objects import Objects
from fogctl.kube.rbac import Question
from fogctl.kube.running import KubeRunning
from fogctl.testbed import state
from fogctl.testbed.doctor import Finding, Verdict

RESIZE_SINCE = (1, 33)
"""The release from which on a pod's CPU can be changed while it runs."""


def examine(running: KubeRunning) -> list[Finding]:
    """Everything worth knowing about a testbed's cluster. Changes nothing."""
    name = running.testbed.name
    try:
        with running.access.sentences("asking for its version"):
            version = running.access.request("GET", "/version")
        objects = Objects(running.access)
        return [
            _version(name, version["gitVersion"], _release(version)),
            _nodes(running, objects),
            _may(running, objects),
            *_may_not(running, objects),
            *_others(running),
        ]
    except FogError as error:
        return [Finding(f"cluster of {name}", Verdict.problem, str(error), "fogctl up, once that is mended")]
    finally:
        running.access.close()


def _release(version: dict[str, str]) -> tuple[int, int]:
    return int(version["major"]), int("".join(sign for sign in version["minor"] if sign.isdigit()) or 0)


def _version(name: str, shown: str, release: tuple[int, int]) -> Finding:
    about = f"cluster of {name}"
    if release >= RESIZE_SINCE:
        return Finding(about, Verdict.ok, f"Kubernetes {shown}; shares are changed in place")
    older = f"Kubernetes {shown} cannot change the CPU of a running pod"
    return Finding(about, Verdict.lacking, older, "upgrade it: fogctl pi provision -p k3s")


def _nodes(running: KubeRunning, objects: Objects) -> Finding:
    there = {each.name: each for each in map(read_node, objects.list("Node"))}
    wrong = [
        f"{node.name} {'is not ready: ' + there[node.name].why if node.name in there else 'is missing'}"
        for node in running.testbed.nodes
        if node.name not in there or not there[node.name].ready
    ]
    about = f"nodes of {running.testbed.name}"
    if wrong:
        return Finding(about, Verdict.problem, "; ".join(wrong), "switch them on; fogctl pi check says more")
    return Finding(about, Verdict.ok, f"all {len(running.testbed.nodes)} are ready")


def _may(running: KubeRunning, objects: Objects) -> Finding:
    asked = rbac.operator_may(running.testbed)
    lacking = [question for question in asked if not checks.allowed(objects, question)]
    about = f"{names.OPERATOR} may"
    if lacking:
        return Finding(about, Verdict.problem, f"not {_listed(lacking)}", "fogctl up gives it its role back")
    return Finding(about, Verdict.ok, f"do all {len(asked)} things that a running testbed needs")


def _may_not(running: KubeRunning, objects: Objects) -> list[Finding]:
    own = {node.name for node in running.testbed.nodes}
    others = [
        each["metadata"]["name"] for each in objects.list("Node") if each["metadata"]["name"] not in own
    ]
    asked = rbac.operator_may_not(running.testbed, others)
    allowed = [question for question in asked if checks.allowed(objects, question)]
    about = f"{names.OPERATOR} may not"
    if allowed:
        fix = "look which role grants it: kubectl get rolebindings,clusterrolebindings -A -o wide"
        return [Finding(about, Verdict.problem, f"but can: {_listed(allowed)}", fix)]
    shown = _listed([asked[0], asked[9], asked[4], asked[6]])
    return [Finding(about, Verdict.ok, f"do any of {len(asked)} others: {shown}, …")]


def _others(running: KubeRunning) -> list[Finding]:
    """Testbeds on the same cluster of which this machine knows nothing; only an administrator sees them."""
    admin = Access.admin(running.testbed)
    if not admin.kubeconfig.is_file():
        return []
    try:
        found = Objects(admin).list("Namespace", selector=f"{names.MANAGED_BY}={names.MANAGER}")
    finally:
        admin.close()
    known = {folder.name for folder in state.remembered(running.folder.parent)}
    beds = {each["metadata"]["labels"].get(names.TESTBED, "") for each in found}
    return [
        Finding(
            "another testbed",
            Verdict.lacking,
            f"testbed {bed} is on the same cluster, but was not brought up from here",
            f"if its state was lost: {checks.removing(bed)}",
        )
        for bed in sorted(beds - known)
    ]


def _listed(questions: list[Question]) -> str:
    return "; ".join(question.describe() for question in questions)
