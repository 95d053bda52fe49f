"""A streaming app on emulated nodes: real Kafka, real Spark, scaled under load, every record counted."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fogctl.runtime.operate import Apps
from fogctl.testbed.running import Running

Fogctl = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def bed(fogctl: Fogctl, tmp_path: Path, name: str) -> Running:
    """A control node, a broker and three Pis, 5 ms away."""
    (tmp_path / "testbed.yaml").write_text(
        f"""
name: {name}
kind: virtual
scale: {{cpu: 10%, memory: 40%}}
nodes:
  - {{name: cloud, role: control, site: dc, board: host}}
  - {{name: broker, role: broker, site: dc, board: host}}
  - {{name: "pi[1-3]", role: edge, site: field, board: rpi4-2g}}
latency:
  sites: [{{between: [dc, field], rtt: 5ms}}]
"""
    )
    done = fogctl("up")
    assert done.returncode == 0, done.stderr
    return Running.load(name)


def ok(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout


def nodes_of(fogctl: Fogctl, app: str) -> list[str]:
    status = json.loads(ok(fogctl("app", "status", app, "-o", "json")))
    return sorted(executor["node"] for executor in status["stages"][0]["executors"])


def audited(fogctl: Fogctl, app: str, patience_s: float = 120) -> dict[str, int]:
    """The audit, asked again until nothing is on its way any more."""
    deadline = time.monotonic() + patience_s
    while (asked := fogctl("audit", app, "-o", "json")).returncode == 3 and time.monotonic() < deadline:
        time.sleep(1)
    found: dict[str, dict[str, int]] = json.loads(ok(asked))
    return next(iter(found.values()))


def test_a_stage_is_scaled_and_shared_under_load_and_loses_nothing(
    fogctl: Fogctl, fogctl_argv: list[str], bed: Running, tmp_path: Path
) -> None:
    ok(
        fogctl(
            "trace",
            "make",
            "rides.csv",
            "--days",
            "0.01",
            "--rides",
            "250000",
            "--start",
            "2013-05-01T08:00:00",
        )
    )
    ok(fogctl("app", "deploy", "identity", "--on", "pi1"))
    assert nodes_of(fogctl, "identity") == ["pi1"]
    replay = subprocess.Popen(
        [*fogctl_argv, "trace", "replay", "rides.csv", "--app", "identity", "--speed", "20", "-o", "json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        ok(fogctl("app", "scale", "identity", "copy", "--nodes", "pi1,pi2"))
        assert nodes_of(fogctl, "identity") == ["pi1", "pi2"]
        ok(fogctl("app", "share", "identity", "copy", "50%"))
        ok(fogctl("app", "scale", "identity", "copy", "--nodes", "pi2"))
        assert nodes_of(fogctl, "identity") == ["pi2"]
        said, complaint = replay.communicate(timeout=300)
    finally:
        replay.kill()
    assert replay.returncode == 0, complaint
    sent = json.loads(said)["records"]
    assert sent > 1000
    result = audited(fogctl, "identity")
    assert (result["sent"], result["lost"], result["foreign"]) == (sent, 0, 0)

    quota = Path(bed.part_groups("pi2", "identity-copy")[0])
    assert quota.is_dir()
    ok(fogctl("app", "rm", "identity"))
    assert not quota.exists()
    assert [status.service.name for status in Apps.on(bed).services.status()] == ["broker"]
    assert fogctl("app", "status", "identity").returncode == 1


def test_an_app_that_raises_is_refused_with_its_own_line_and_leaves_nothing(
    fogctl: Fogctl, bed: Running, tmp_path: Path
) -> None:
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "app.yaml").write_text(
        "name: broken\nstages:\n  - {name: boom, inputs: [a], output: b, partitions: 2}\n"
    )
    (folder / "app.py").write_text("def boom(records, options):\n    return records.select(1 / 0)\n")
    failed = fogctl("app", "deploy", "broken", "--on", "pi1")
    assert failed.returncode == 1
    assert "app.py:2: ZeroDivisionError" in failed.stderr.splitlines()[-1]
    assert "was undone" in failed.stderr.splitlines()[-1]
    assert [status.service.name for status in Apps.on(bed).services.status()] == ["broker"]
    assert Apps.on(bed).deployments() == []


BAD_INPUT = {
    ("app", "deploy", "identity", "--on", "pi9"): "has no node pi9",
    ("app", "deploy", "identity", "--on", "cloud"): "role control",
    ("app", "deploy", "nothing", "--on", "pi1"): 'there is no app "nothing"',
    ("app", "deploy", "identity", "--on", "copi=pi1"): "no stage copi",
    ("app", "scale", "identity", "copy", "--nodes", "pi1"): "is not deployed",
}


def test_bad_input_is_one_sentence_and_starts_nothing(fogctl: Fogctl, bed: Running) -> None:
    for arguments, sentence in BAD_INPUT.items():
        done = fogctl(*arguments)
        assert done.returncode in (1, 2)
        assert sentence in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    assert Apps.on(bed).services.status() == []
