"""Real kubelets: numbers are the same directly and through a real Prometheus; a lost node is missed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from fogctl.kube import names
from fogctl.kube.app_objects import EXECUTOR_ROLE, StageRef
from fogctl.runtime import app as apps
from fogctl.runtime import app_copy, deployment
from tests.kube.control_plane import until
from tests.kube.kubelets import ROOT, Kubelets
from tests.kube.pods import pod

NAME, APP, STAGE = "numbers", "identity", "copy"
REF = StageRef(NAME, APP, STAGE)
FILE = f"""\
name: {NAME}
kind: k3s
nodes:
  - {{name: cloud, role: control, board: host}}
  - {{name: broker, role: broker, board: host}}
  - {{name: pi1, role: edge, board: host}}
  - {{name: pi2, role: edge, board: host}}
kafka: {{servers: ["127.0.0.1:9"]}}
"""
ADVICE = ("agent", "run", "-a", APP, "-p", "gesscale", "--dry-run", "--every", "1s", "-o", "json")
Tell = Callable[[str], None]


class Lab:
    """The command line on a testbed whose nodes are real kubelets."""

    def __init__(self, kubelets: Kubelets) -> None:
        self.kubelets = kubelets
        self.file = kubelets.folder / "numbers.yaml"
        self.file.write_text(f"{FILE}kube: {{config: {kubelets.kubeconfig}}}\n")
        self.space = names.namespace(NAME)

    def fogctl(self, *arguments: str, code: int = 0) -> str:
        done = self.kubelets.fogctl(*arguments, "--testbed", str(self.file), timeout=600)
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def ready(self, node: str) -> str:
        """What the cluster says of a node's kubelet."""
        conditions = self.kubelets.plane.read("node", node)["status"]["conditions"]
        return next(str(each["status"]) for each in conditions if each["type"] == "Ready")

    def nodes(self, *more: str) -> dict[str, dict[str, Any]]:
        found = json.loads(self.fogctl("metrics", "show", "-o", "json", *more))
        return {node["node"]: node for node in found["nodes"]}


@pytest.fixture(scope="module")
def lab(kubelets: Kubelets) -> Iterator[Lab]:
    """A testbed with an app on record and something that works in its executor's place."""
    found = Lab(kubelets)
    found.fogctl("up")
    folder = kubelets.state_dir / NAME / "apps" / APP
    app = apps.load(APP)
    copy = app_copy.keep(app, folder)
    placed = replace(deployment.place(app, {STAGE: ["pi1"]}, []), app_file=str(copy.file))
    (folder / "deployment.json").write_text(json.dumps(deployment.to_json(placed)))
    busy = pod(
        found.space, "busy", "spin", cpu="200m", node="pi1",
        labels={**names.labels(NAME), **REF.role_labels(EXECUTOR_ROLE)},
    )  # fmt: skip
    kubelets.plane.apply(busy)
    kubelets.plane.kubectl(
        "wait", "pod", "busy", "-n", found.space, "--for=condition=Ready", "--timeout=150s"
    )
    yield found
    found.fogctl("down")


def test_the_first_look_has_an_answer_too_and_never_calls_a_working_node_idle(lab: Lab) -> None:
    """Each command is a first look of its own; here a node's root group is the whole host, which works."""
    found: dict[str, dict[str, Any]] = {}

    def told() -> bool:
        found.update(lab.nodes())
        assert set(found) == {"cloud", "broker", "pi1", "pi2"}
        used = [node["cpu_used_cores"] for node in found.values()]
        assert all(cores is None or cores > 0 for cores in used), "not known yet, but never idle"
        return None not in used

    until(told, "every kubelet has seen its node twice, and a first look tells what it uses")
    for node in found.values():
        assert node["memory_bytes"] > 0
    assert found["pi1"]["cpu_quota_cores"] == pytest.approx(0.6)
    assert found["pi1"]["memory_limit_bytes"] == pytest.approx(1200 << 20, rel=0.05)


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="Debian's prometheus is not installed")
def test_numbers_are_the_same_directly_and_through_prometheus_and_show_the_limit(
    lab: Lab, tell: Tell
) -> None:
    started = json.loads(lab.fogctl("metrics", "up", "--prometheus", "-o", "json"))["started"]
    assert started == ["metrics.targets", "metrics.prometheus"]
    assert json.loads(lab.fogctl("metrics", "up", "--prometheus", "-o", "json"))["started"] == []
    script = [sys.executable, "-m", "tests.kube.same_numbers", NAME, str(lab.kubelets.state_dir), "3", "400"]
    done = subprocess.run(
        lab.kubelets.inside(script),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    compared = json.loads(done.stdout)
    tell(f"kubelets' numbers compared with Prometheus': {compared['same']} equal looks, none different")
    pi1 = next(node for node in compared["nodes"] if node["node"] == "pi1")
    assert pi1["cpu_used_by_part"].keys() == {f"{APP}-{STAGE}"}
    used = pi1["cpu_used_by_part"][f"{APP}-{STAGE}"]
    assert 0.02 < used < 0.25, "it wants all, may have 0.2 cores, and gets less on a busy host"
    assert pi1["cpu_throttled"] > 0
    tell(
        f"a pod limited to 0.2 cores used {used:.3f}, held back in {pi1['cpu_throttled']:.0%} of the periods"
    )
    assert lab.nodes("--prometheus").keys() == {"cloud", "broker", "pi1", "pi2"}
    said = lab.fogctl(*ADVICE, "--prometheus", "--for", "3s")
    told = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert [event["what"] for event in told[:2]] == ["agent started", "decision"], "no node is missed"
    assert json.loads(lab.fogctl("metrics", "down", "-o", "json"))["stopped"] == [
        "metrics.prometheus",
        "metrics.targets",
    ]


def test_a_node_that_lost_its_power_is_missed_at_once_and_the_agent_says_so(lab: Lab, tell: Tell) -> None:
    script = [sys.executable, "-m", "tests.kube.looks", NAME, str(lab.kubelets.state_dir), "pi2"]
    watching = subprocess.Popen(
        lab.kubelets.inside(script),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert watching.stdout is not None
        assert watching.stdout.readline() == "known\n"
        lab.kubelets.unplug("pi2")
        try:
            said = lab.fogctl(*ADVICE, "--for", "8s")
            told = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
            assert [event["node"] for event in told if event["what"] == "node lost"] == ["pi2"]
            assert set(lab.nodes()) == {"cloud", "broker", "pi1"}
            until(lambda: lab.ready("pi2") == "Unknown", "the cluster misses it, too")
        finally:
            lab.kubelets.plug_in("pi2")
        until(lambda: set(lab.nodes()) == {"cloud", "broker", "pi1", "pi2"}, "it answers again")
        out, err = watching.communicate(timeout=120)
    finally:
        watching.kill()
        watching.wait()
    assert watching.returncode == 0, err
    (looks,) = [json.loads(line) for line in out.splitlines()]
    tell(f"a node plugged in again, look after look: {looks}")
    assert looks[0] == "lost"
    assert looks[-1] == "known"
    assert "idle" not in looks


def test_whoever_is_not_the_testbeds_account_learns_nothing_from_kubelets(lab: Lab) -> None:
    """The right to ask kubelets is the operator's alone: the drivers' account is refused."""
    token = lab.kubelets.plane.kubectl("create", "token", names.DRIVER, "-n", lab.space).strip()
    probe = (
        "import ssl, sys, urllib.request, urllib.error\n"
        "context = ssl.create_default_context(cafile=sys.argv[1])\n"
        "request = urllib.request.Request('https://10.77.0.3:10250/metrics/cadvisor',"
        " headers={'Authorization': 'Bearer ' + sys.stdin.read()})\n"
        "try:\n    print(urllib.request.urlopen(request, context=context, timeout=20).status)\n"
        "except urllib.error.HTTPError as error:\n    print(error.code)\n"
    )
    done = subprocess.run(
        lab.kubelets.inside([sys.executable, "-c", probe, str(lab.kubelets.plane.ca_file)]),
        input=token,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout.strip() == "403", done.stdout + done.stderr
