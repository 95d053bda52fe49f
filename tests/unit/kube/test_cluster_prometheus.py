"""What Prometheus is told to scrape of a cluster: drivers by the proxy, kubelets at their nodes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fogctl.kube.kubelet import CPU, WANTED
from fogctl.kube.nodes import NodeState
from fogctl.kube.prometheus import settings
from fogctl.kube.targets import driver_targets, node_targets


def pod(name: str, phase: str = "Running", ports: tuple[str, ...] = ("control", "metrics")) -> dict[str, Any]:
    numbered = [{"name": each, "containerPort": 9300 + place} for place, each in enumerate(ports)]
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "driver", "ports": numbered}, {"name": "other"}]},
        "status": {"phase": phase},
    }


def test_a_driver_that_runs_is_scraped_through_the_api_server() -> None:
    running: Any = SimpleNamespace(
        access=SimpleNamespace(url="https://10.0.0.1:6443/k8s/c1"),
        namespace="fog-lab",
        testbed=SimpleNamespace(name="lab"),
    )
    found = driver_targets(
        running, [pod("taxi-0"), pod("young-0", "Pending"), pod("mute-0", ports=("control",))]
    )
    way = "/k8s/c1/api/v1/namespaces/fog-lab/pods/taxi-0:9301/proxy/metrics"
    labels = {"__metrics_path__": way, "instance": "taxi-0", "testbed": "lab"}
    assert found == [{"targets": ["10.0.0.1:6443"], "labels": labels}]


def test_a_kubelet_is_scraped_at_its_node() -> None:
    nodes = [
        NodeState("pi1", True, "", False, 4.0, 1, "10.0.0.11"),
        NodeState("pi2", False, "lost", False, 4.0, 1, "fd00::2", 10255),
    ]
    found = node_targets("lab", nodes)
    assert [each["targets"] for each in found] == [["10.0.0.11:10250"], ["[fd00::2]:10255"]]
    assert found[0]["labels"] == {"__metrics_path__": "/metrics/cadvisor", "node": "pi1", "testbed": "lab"}


@pytest.fixture
def jobs(tmp_path: Path) -> dict[str, Any]:
    made = settings("fog-lab", tmp_path, "http://127.0.0.1:9290")
    return {job["job_name"]: job for job in made["scrape_configs"]}


def kept(rules: list[dict[str, Any]], labels: dict[str, str]) -> dict[str, str] | None:
    """What Prometheus keeps of labels by these rules; None: the number is dropped."""
    for rule in rules:
        value = ";".join(labels.get(label, "") for label in rule.get("source_labels", []))
        if rule["action"] == "keep" and not re.fullmatch(rule["regex"], value):
            return None
        if rule["action"] == "labeldrop":
            labels = {key: text for key, text in labels.items() if not re.fullmatch(rule["regex"], key)}
    return labels


def test_of_a_kubelets_page_only_what_is_read_is_kept(jobs: dict[str, Any]) -> None:
    rules = jobs["fogctl-nodes"]["metric_relabel_configs"]
    for name in WANTED:
        assert kept(rules, {"__name__": name, "id": "/"}) is not None
    own = {"__name__": CPU, "id": "/kubepods/x", "namespace": "fog-lab", "pod": "p"}
    assert kept(rules, {**own, "name": "c", "image": "i"}) == own
    assert kept(rules, {**own, "namespace": "kube-system"}) is None
    assert kept(rules, {**own, "__name__": "container_fs_usage_bytes"}) is None


def test_the_token_is_in_a_file_of_its_own_and_certificates_are_checked(
    jobs: dict[str, Any], tmp_path: Path
) -> None:
    for job in jobs.values():
        assert job["authorization"] == {"type": "Bearer", "credentials_file": str(tmp_path / "token")}
        assert job["tls_config"] == {"ca_file": str(tmp_path / "ca.crt")}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="Debian's prometheus is not installed")
def test_prometheus_itself_accepts_the_settings(tmp_path: Path) -> None:
    made = settings("fog-lab", tmp_path, "http://127.0.0.1:9290", verify=False)
    (tmp_path / "token").write_text("secret")
    (tmp_path / "prometheus.yml").write_text(json.dumps(made))
    done = subprocess.run(
        ["promtool", "check", "config", str(tmp_path / "prometheus.yml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
