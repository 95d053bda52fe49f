"""Taking a testbed off its cluster: the ledger backwards, nothing without our labels, until it is gone."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from functools import partial

from fogctl.errors import FAILED, FogError
from fogctl.kube import foreign, latency, names
from fogctl.kube.access import JSON_PATCH, Access
from fogctl.kube.ledger import Entry, HostLatency, NodeLabel, open_ledger
from fogctl.kube.nodes import read_node
from fogctl.kube.objects import Objects, Ref
from fogctl.kube.running import KubeRunning
from fogctl.testbed import lock
from fogctl.testbed.build import Progress, silent
from fogctl.testbed.ledger import Ledger
from fogctl.testbed.state import StateFolder

RESTART_PATIENCE_S = 90.0
EMPTY_PATIENCE_S = 60.0
GONE_PATIENCE_S = 300.0
"""How long pods may take to end and volumes to be given back."""


def recorded(folder: StateFolder) -> list[Entry]:
    """What taking the testbed down would undo, in that order."""
    return list(reversed(open_ledger(folder).steps))


def take_down(
    folder: StateFolder,
    progress: Progress = silent,
    admin: Access | None = None,
) -> tuple[Entry, ...]:
    """Undo everything in a testbed's ledger, whatever its file says by now; answers what that was."""
    if not folder.exists:
        return ()
    with lock.held(folder.folder):
        ledger = open_ledger(folder)
        held = ledger.steps
        try:
            if held:
                testbed = folder.load().testbed
                access = admin or Access.admin(testbed)
                try:
                    _end_what_runs_here(folder, access)
                    objects = Objects(access, RESTART_PATIENCE_S)
                    objects_first = Objects(access)  # who is not there at all is told at once
                    if any(isinstance(entry, Ref | NodeLabel) for entry in held):
                        objects_first.list(
                            "Namespace", fields=f"metadata.name={names.namespace(testbed.name)}"
                        )
                    remove(list(reversed(held)), ledger, objects, testbed.name, progress, folder)
                finally:
                    access.close()
            folder.remove()
        finally:
            ledger.close()
    return held


def remove(
    entries: Sequence[Entry],
    ledger: Ledger[Entry],
    objects: Objects,
    testbed: str,
    progress: Progress,
    folder: StateFolder | None = None,
) -> None:
    """Undo entries in the order given; one that fails does not stop the others, but is told at the end."""
    space = names.namespace(testbed)
    whole = Ref("Namespace", space)
    going = whole in entries
    strangers = foreign.inside(objects, space, testbed) if going else []
    failures: list[str] = []
    for number, entry in enumerate(entries):
        progress(number, len(entries), f"removing {entry.describe()}")
        inside = isinstance(entry, Ref) and entry.namespace == space
        if inside and going and not strangers:
            continue  # goes with the namespace
        if entry == whole and strangers:
            failures.append(
                f"namespace {space} stays, because {strangers[0]} is in it and fogctl did not make that"
            )
            continue
        try:
            _undo(entry, objects, testbed, folder, partial(progress, number, len(entries)))
        except FogError as error:
            failures.append(str(error))
            continue
        if entry == whole:
            for held in [each for each in ledger.steps if isinstance(each, Ref) and each.namespace == space]:
                ledger.forget(held)
        ledger.forget(entry)
    if failures:
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        raise FogError(f"{failures[0]}{more}", hint="mend that, then run it again", exit_code=FAILED)
    progress(len(entries), len(entries), "done")


def _undo(
    entry: Entry, objects: Objects, testbed: str, folder: StateFolder | None, say: Callable[[str], None]
) -> None:
    if isinstance(entry, NodeLabel):
        _unlabel(entry, objects)
    elif isinstance(entry, Ref):
        _delete(entry, objects, testbed, say)
    elif isinstance(entry, HostLatency) and folder is not None:
        latency.clear_host(folder.load().testbed, entry.node)


def _unlabel(entry: NodeLabel, objects: Objects) -> None:
    """Take our label off a node, and with it those of its stages; a label of another value is another's."""
    ref = Ref("Node", entry.node)
    node = objects.get(ref)
    labels = {} if node is None else node["metadata"].get("labels") or {}
    if labels.get(entry.key) != entry.value:
        return
    ours = [entry.key]
    if entry.key == names.TESTBED:
        ours += [key for key in labels if key.startswith(names.RUN_PREFIX)]
    operations = [{"op": "test", "path": _pointer(entry.key), "value": entry.value}]
    operations += [{"op": "remove", "path": _pointer(key)} for key in ours]
    objects.patch(ref, operations, JSON_PATCH)


def _pointer(key: str) -> str:
    return "/metadata/labels/" + key.replace("~", "~0").replace("/", "~1")


def _delete(ref: Ref, objects: Objects, testbed: str, say: Callable[[str], None]) -> None:
    """Remove an object of ours and wait until it is gone; one that is not ours is left alone."""
    found = objects.get(ref)
    if found is None or not names.is_ours(found["metadata"].get("labels"), testbed):
        return
    uid = found["metadata"]["uid"]
    if ref.kind == "Namespace":
        _empty(objects, ref.name, say)
    objects.delete(ref, uid)
    if ref.kind != "Namespace":
        objects.wait_gone(ref, GONE_PATIENCE_S, uid)
        return
    deadline = time.monotonic() + GONE_PATIENCE_S
    while True:
        try:
            objects.wait_gone(ref, 2.0, uid)
            return
        except FogError:
            if time.monotonic() > deadline:
                raise
        left = _let_go_of_lost_pods(objects, ref.name)
        say(f"waiting until {left} pods have ended" if left else f"waiting until {ref.name} is gone")


def _empty(objects: Objects, space: str, say: Callable[[str], None]) -> None:
    """Have the pods of a namespace end, and then give its volumes back, before it is removed itself.

    A cluster that still finds some of them in a namespace that is to go looks again many seconds later.
    """

    def remove_all(kind: str) -> None:
        for found in objects.list(kind, space):
            objects.delete(Ref(kind, found["metadata"]["name"], space), found["metadata"]["uid"])

    deadline = time.monotonic() + EMPTY_PATIENCE_S

    def wait(left: Callable[[], int], what: str) -> None:
        pause_s = 0.05
        while (number := left()) and time.monotonic() < deadline:
            say(f"waiting until {number} {what}")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 1.0)

    remove_all("StatefulSet")
    remove_all("Pod")
    wait(lambda: _let_go_of_lost_pods(objects, space), "pods have ended")
    remove_all("PersistentVolumeClaim")
    wait(lambda: len(objects.list("PersistentVolumeClaim", space)), "volumes are given back")


def _let_go_of_lost_pods(objects: Objects, space: str) -> int:
    """Pods on a machine that is away would be waited for as long as it is: nobody can confirm their end."""
    pods = objects.list("Pod", space)
    if not pods:
        return 0
    alive = {state.name for state in map(read_node, objects.list("Node")) if state.ready}
    for pod in pods:
        if (node := pod["spec"].get("nodeName")) is not None and node not in alive:
            objects.delete(Ref("Pod", pod["metadata"]["name"], space), pod["metadata"]["uid"], grace_s=0)
    return len(pods)


def _end_what_runs_here(folder: StateFolder, admin: Access) -> None:
    """Agents and faults of the testbed: what they keep alive must not come back while it goes."""
    from fogctl.kube import background, faults

    background.stop_all(folder.folder)
    # Labels and namespace are removed whatever a fault did; only a cordon would outlive them.
    with contextlib.suppress(FogError):
        faults.restore_all(KubeRunning(folder, folder.load(), admin))
