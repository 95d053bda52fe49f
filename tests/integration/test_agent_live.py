"""The agent on a real testbed: it scales a stage out under load and in again, and is killed in between."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fogctl.agent import service
from fogctl.runtime import events
from fogctl.runtime.app import find
from fogctl.runtime.operate import Apps
from fogctl.runtime.service import Services
from fogctl.testbed.running import Running

Fogctl = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.timeout(900)

APP = """
name: toil
stages:
  - {name: nearest, inputs: [rides], output: places, partitions: 6, freshness: 2s, memory: 256MiB,
     options: {work: 40000}}
"""
AGENT = """
every: 2s
guard: {window: 8s, stale_after: 60s, stabilise: 2s, scale_in_delay: 4s, catch_up: 10s, max_replicas: 2}
"""


def ok(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout


def until(what: Callable[[], object], why: str, patience_s: float = 240.0) -> None:
    deadline = time.monotonic() + patience_s
    while not what():
        assert time.monotonic() < deadline, why
        time.sleep(0.3)


@pytest.fixture
def bed(fogctl: Fogctl, tmp_path: Path, name: str) -> Running:
    """A control node, a broker and three Pis at 5, 40 and 5 ms."""
    (tmp_path / "testbed.yaml").write_text(
        f"""
name: {name}
kind: virtual
scale: {{cpu: 10%, memory: 40%}}
nodes:
  - {{name: cloud, role: control, site: dc, board: host}}
  - {{name: broker, role: broker, site: dc, board: host}}
  - {{name: pi1, role: edge, site: near, board: rpi4-2g}}
  - {{name: pi2, role: edge, site: far, board: rpi4-2g}}
  - {{name: pi3, role: edge, site: near, board: rpi4-2g}}
latency:
  sites: [{{between: [dc, near], rtt: 5ms}}, {{between: [dc, far], rtt: 40ms}}]
"""
    )
    ok(fogctl("up"))
    return Running.load(name)


def test_an_agent_scales_out_and_in_and_goes_on_after_kill_9(
    fogctl: Fogctl, fogctl_argv: list[str], bed: Running, tmp_path: Path
) -> None:
    folder = tmp_path / "toil"
    folder.mkdir()
    (folder / "app.yaml").write_text(APP)
    shutil.copy(find("taxi").parent / "app.py", folder / "app.py")
    (tmp_path / "agent.yaml").write_text(AGENT)
    ok(
        fogctl(
            "trace",
            "make",
            "rides.csv",
            "--days",
            "0.006",
            "--rides",
            "400000",
            "--start",
            "2013-05-01T08:00:00",
        )
    )
    ok(fogctl("app", "deploy", "toil", "--on", "pi1"))
    apps, services, me = Apps.on(bed), Services(bed), service.name("toil")

    def nodes() -> tuple[str, ...]:
        return apps.get("toil").stage("nearest").nodes

    advice = ok(
        fogctl(
            "agent", "run", "--app", "toil", "--policy", "gesscale", "--dry-run", "--for", "3s", "-o", "json"
        )
    )
    assert [json.loads(line)["what"] for line in advice.splitlines()][:2] == ["agent started", "decision"]
    assert all(event["what"] != "agent started" for event in events.read(bed.state.folder))
    replay = subprocess.Popen(
        [*fogctl_argv, "trace", "replay", "rides.csv", "--app", "toil", "--speed", "40", "-o", "json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        ok(
            fogctl(
                "agent",
                "run",
                "--app",
                "toil",
                "--policy",
                "gesscale",
                "--config",
                "agent.yaml",
                "--background",
            )
        )
        until(lambda: len(nodes()) == 2, "no replica was added")
        assert nodes() == ("pi1", "pi3")  # the nearest
        first = services.pid(me)
        assert first is not None
        os.kill(first, signal.SIGKILL)
        until(lambda: services.pid(me) not in (None, first), "the agent was not started again")
        said, complaint = replay.communicate(timeout=300)
    finally:
        replay.kill()
    assert replay.returncode == 0, complaint
    sent = json.loads(said)["records"]
    until(lambda: nodes() == ("pi1",), "the replica was not removed again")
    status = json.loads(ok(fogctl("agent", "status", "-o", "json")))
    assert [(agent["app"], agent["policy"], agent["state"]) for agent in status] == [
        ("toil", "gesscale", "running")
    ]
    ok(fogctl("agent", "stop", "toil"))
    assert services.pid(me) is None

    found = [event for event in events.read(bed.state.folder) if event.get("app") == "toil"]
    started = [event for event in found if event["what"] == "agent started"]
    # The kill may come between a change, its outcome in the log and its outcome in the state: then the next
    # agent finds it done, and says so of the same decision.
    made = [
        event
        for event in found
        if event["what"] == "applied" or (event["what"] == "resumed" and event["found"] != "not begun")
    ]
    numbers = [event["decision"] for event in found if event["what"] == "decision"]
    assert len(started) == 2
    assert numbers == sorted(set(numbers)), "a decision was made twice"
    applied = [event["decision"] for event in made if event["what"] == "applied"]
    resumed = [event for event in made if event["what"] == "resumed"]
    assert len({event["decision"] for event in made}) == 2, made
    assert len(applied) == len(set(applied)), "a change was made twice"
    assert all(event["found"] == "done" for event in resumed if event["decision"] in applied), made
    assert not [event for event in found if event["what"] in ("failed", "policy failed")]
    effects = [event for event in found if event["what"] == "observed"]
    for event in found:
        if event["what"] in ("decision", "applied", "observed"):
            print(json.dumps(event))
    assert effects
    assert effects[0]["observed"]["nearest.replicas"] == 2.0
    shown = ok(fogctl("agent", "events", "toil"))
    assert "overloaded" in shown
    deadline = time.monotonic() + 120
    while (asked := fogctl("audit", "toil", "-o", "json")).returncode == 3 and time.monotonic() < deadline:
        time.sleep(1)
    (audit,) = json.loads(ok(asked)).values()
    assert (audit["sent"], audit["lost"]) == (sent, 0)
