"""The control plane the other tests stand on: it places, authorises, restarts, and ends for good."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kube.control_plane import ControlPlane, names_of, until
from tests.kube.pods import affinity, phase, placed, pod
from tests.kube.programs import SERVER, VERSION, Program

Nodes = Callable[..., list[str]]
Tell = Callable[[str], None]


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    with control_plane.namespace() as name:
        yield name


def test_the_server_is_the_pinned_kubernetes(control_plane: ControlPlane) -> None:
    version = json.loads(control_plane.kubectl("version", "-o", "json"))
    assert version["serverVersion"]["gitVersion"] == VERSION
    assert version["clientVersion"]["gitVersion"] == VERSION


def test_the_scheduler_places_pods_on_exactly_the_labelled_nodes(
    control_plane: ControlPlane, kwok_nodes: Nodes, namespace: str
) -> None:
    kwok_nodes([f"place-{number}" for number in range(4)])
    control_plane.kubectl("label", "node", "place-1", "place-3", "fogctl.test/run=yes")
    apart = affinity("fogctl.test/run", "one")
    control_plane.apply(
        *(pod(namespace, name, labels={"app": "one"}, affinity=apart) for name in ("a", "b", "c"))
    )
    until(
        lambda: len(placed(control_plane, namespace)) == 2,
        "two of three pods have a node",
    )
    assert set(placed(control_plane, namespace).values()) == {"place-1", "place-3"}
    (left,) = {"a", "b", "c"} - set(placed(control_plane, namespace))
    until(lambda: phase(control_plane, namespace, left) == "Pending", "the third waits")
    control_plane.kubectl("label", "node", "place-0", "fogctl.test/run=yes")
    until(
        lambda: placed(control_plane, namespace).get(left) == "place-0",
        "the third goes to the newly labelled node",
    )


def test_a_pod_on_a_played_node_runs_and_goes(
    control_plane: ControlPlane, kwok_nodes: Nodes, namespace: str
) -> None:
    kwok_nodes(["play-1"])
    control_plane.apply(pod(namespace, "a", cpu="1", memory="256Mi"))
    control_plane.kubectl("wait", "pod/a", "-n", namespace, "--for=condition=Ready", "--timeout=120s")
    status = control_plane.read("pod", "a", "-n", namespace)["status"]
    assert status["phase"] == "Running"
    assert status["podIP"] == status["hostIP"]  # hostNetwork
    (container,) = status["containerStatuses"]
    assert container["resources"]["limits"]["cpu"] == "1"
    control_plane.kubectl("delete", "pod", "a", "-n", namespace, "--timeout=60s")
    assert names_of(control_plane.read("pods", "-n", namespace)) == []


def test_a_claim_is_bound_to_a_volume_when_its_pod_is_placed(
    control_plane: ControlPlane, kwok_nodes: Nodes, namespace: str
) -> None:
    kwok_nodes(["keep-1"])
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "state", "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "local-path",
        },
    }
    control_plane.apply(claim, pod(namespace, "a", claim="state"))
    control_plane.kubectl("wait", "pod/a", "-n", namespace, "--for=condition=Ready", "--timeout=120s")
    assert control_plane.read("pvc", "state", "-n", namespace)["status"]["phase"] == "Bound"


def test_a_service_account_may_do_only_what_its_role_says(
    control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.kubectl("create", "serviceaccount", "reader", "-n", namespace)
    control_plane.kubectl("create", "role", "reads", "--verb=get,list", "--resource=pods", "-n", namespace)
    control_plane.kubectl(
        "create",
        "rolebinding",
        "reads",
        "--role=reads",
        f"--serviceaccount={namespace}:reader",
        "-n",
        namespace,
    )
    token = control_plane.kubectl("create", "token", "reader", "-n", namespace).strip()
    as_reader = control_plane.kubeconfig.with_name(f"{namespace}-reader.kubeconfig")
    known = json.loads(control_plane.kubeconfig.read_text())
    known["users"][0]["user"] = {"token": token}
    as_reader.touch(mode=0o600)
    as_reader.write_text(json.dumps(known))
    can = ("auth", "can-i")
    assert control_plane.kubectl(*can, "list", "pods", "-n", namespace, kubeconfig=as_reader).strip() == "yes"
    control_plane.refused(*can, "delete", "pods", "-n", namespace, kubeconfig=as_reader)
    control_plane.refused(*can, "list", "pods", "-n", "kube-system", kubeconfig=as_reader)
    assert "Forbidden" in control_plane.refused("get", "nodes", kubeconfig=as_reader)


def test_what_was_there_is_there_after_the_api_server_restarted(
    control_plane: ControlPlane, kwok_nodes: Nodes, namespace: str, tell: Tell
) -> None:
    kwok_nodes(["restart-1"])
    control_plane.apply(pod(namespace, "before"))
    control_plane.kubectl("wait", "pod/before", "-n", namespace, "--for=condition=Ready", "--timeout=120s")
    before = control_plane.processes
    control_plane.stop_api()
    assert "refused" in control_plane.refused("get", "pods", "-n", namespace)
    started = time.monotonic()
    control_plane.start_api()
    tell(f"API server ready again {time.monotonic() - started:.1f} s after its start")
    after = control_plane.processes
    assert {name for name in after if after[name] == before[name]} == {"etcd"}
    assert names_of(control_plane.read("pods", "-n", namespace)) == ["before"]
    # Scheduler and kwok, which start with it, know what is there.
    control_plane.apply(pod(namespace, "after"))
    control_plane.kubectl("wait", "pod/after", "-n", namespace, "--for=condition=Ready", "--timeout=120s")


def test_a_lost_node_is_noticed_its_pods_go_elsewhere_and_it_can_come_back(
    control_plane: ControlPlane,
    kwok_nodes: Nodes,
    lose_node: Callable[[str], None],
    find_node: Callable[[str], None],
    namespace: str,
    tell: Tell,
) -> None:
    kwok_nodes(["lost-1"])
    leaving = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}
        for key in ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready")
    ]
    template = pod(namespace, "unused", labels={"app": "stays"}, tolerations=leaving)
    control_plane.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "stays", "namespace": namespace},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"app": "stays"}},
                "template": {"metadata": {"labels": {"app": "stays"}}, "spec": template["spec"]},
            },
        }
    )
    until(
        lambda: set(placed(control_plane, namespace).values()) == {"lost-1"},
        "the pod is on the node to be lost",
    )
    kwok_nodes(["lost-2"])
    started = time.monotonic()
    lose_node("lost-1")
    tell(f"a silent node is lost after {time.monotonic() - started:.1f} s")
    until(
        lambda: (
            "node.kubernetes.io/unreachable"
            in [taint["key"] for taint in control_plane.read("node", "lost-1")["spec"].get("taints", ())]
        ),
        "the lost node is tainted",
    )
    until(lambda: "lost-2" in placed(control_plane, namespace).values(), "a new pod runs on the other node")
    find_node("lost-1")
    until(lambda: len(placed(control_plane, namespace)) == 1, "the old pod is gone when its node is back")
    assert set(placed(control_plane, namespace).values()) == {"lost-2"}


def test_a_hundred_nodes_are_ready_and_each_gets_its_pod(
    control_plane: ControlPlane, kwok_nodes: Nodes, namespace: str, tell: Tell
) -> None:
    names = [f"pi{number:03}" for number in range(100)]
    started = time.monotonic()
    kwok_nodes(names, labels={"fogctl.test/hundred": "yes"})
    tell(f"100 nodes ready after {time.monotonic() - started:.1f} s")
    started = time.monotonic()
    apart = affinity("fogctl.test/hundred", "each")
    control_plane.apply(
        *(pod(namespace, f"p{number:03}", labels={"app": "each"}, affinity=apart) for number in range(100))
    )
    until(lambda: len(placed(control_plane, namespace)) == 100, "100 pods have a node each")
    assert sorted(placed(control_plane, namespace).values()) == names
    tell(f"100 pods, one a node, placed after {time.monotonic() - started:.1f} s")


def test_a_scheduler_that_ends_is_started_again(
    control_plane: ControlPlane, kwok_nodes: Nodes, namespace: str
) -> None:
    before = control_plane.processes["kube-scheduler"]
    os.kill(before, signal.SIGKILL)
    kwok_nodes(["kept"])
    control_plane.apply(pod(namespace, "a"))
    until(lambda: placed(control_plane, namespace) == {"a": "kept"}, "the pod is placed")
    assert control_plane.processes["kube-scheduler"] != before


def test_a_killed_test_run_leaves_no_program_behind(
    program: Callable[[Program], Path], tmp_path: Path
) -> None:
    code = (
        "import sys, time; sys.path.insert(0, sys.argv[3])\n"
        "from pathlib import Path\n"
        "from tests.kube.control_plane import ControlPlane\n"
        "with ControlPlane(Path(sys.argv[1]), Path(sys.argv[2])) as plane:\n"
        "    print(*plane.processes.values(), flush=True); time.sleep(600)\n"
    )
    root = str(Path(__file__).resolve().parents[2])
    run = subprocess.Popen(
        [sys.executable, "-c", code, str(program(SERVER)), str(tmp_path), root],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert run.stdout is not None
    pids = [int(pid) for pid in run.stdout.readline().split()]
    assert len(pids) == 4
    run.send_signal(signal.SIGKILL)
    run.wait()
    run.stdout.close()
    until(lambda: not any(_alive(pid) for pid in pids), "all four programs have ended")


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
