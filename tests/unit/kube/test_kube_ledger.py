"""What was done to a cluster is remembered through kills and reboots of this machine."""

from __future__ import annotations

from pathlib import Path

from fogctl.kube.ledger import HostLatency, NodeLabel, open_ledger
from fogctl.kube.objects import Ref
from fogctl.testbed.state import StateFolder

ENTRIES = (Ref("Namespace", "fog-lab"), NodeLabel("pi1", "fogctl.io/testbed", "lab"), HostLatency("pi1"))


def folder(tmp_path: Path) -> StateFolder:
    (tmp_path / "lab").mkdir(exist_ok=True)
    return StateFolder.of("lab", tmp_path)


def test_entries_are_read_back_in_order(tmp_path: Path) -> None:
    ledger = open_ledger(folder(tmp_path))
    for entry in ENTRIES:
        ledger.record(entry)
    ledger.close()
    assert open_ledger(folder(tmp_path)).steps == ENTRIES


def test_what_is_undone_is_forgotten_and_a_torn_line_never_happened(tmp_path: Path) -> None:
    ledger = open_ledger(folder(tmp_path))
    for entry in ENTRIES:
        ledger.record(entry)
    ledger.forget(ENTRIES[1])
    ledger.close()
    with folder(tmp_path).ledger.open("a") as stream:
        stream.write('{"step": "NodeLabel", "node": "pi2"')
    assert open_ledger(folder(tmp_path)).steps == (ENTRIES[0], ENTRIES[2])


def test_an_identity_says_where_the_object_is() -> None:
    inside = Ref("ConfigMap", "a", "fog-lab")
    assert inside.path == "/api/v1/namespaces/fog-lab/configmaps/a"
    assert inside.describe() == "ConfigMap a in fog-lab"
    assert Ref("ClusterRole", "a").path == "/apis/rbac.authorization.k8s.io/v1/clusterroles/a"
