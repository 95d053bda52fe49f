"""What an app keeps over redeployment and removal, what changes start it anew, and errors of its own code."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka import KafkaProducer
from live_testbed import Fogctl, audited, eventually, ok

from fogctl.runtime import kafka
from fogctl.runtime.control import ask, stage_socket
from fogctl.runtime.operate import Apps
from fogctl.runtime.service import Services
from fogctl.testbed.running import Running

pytestmark = pytest.mark.timeout(900)

YAML = """name: heat
stages:
  - {name: convert, inputs: [fahrenheit], output: celsius, partitions: 4, freshness: 2s, memory: 128MiB,
     options: {digits: 1}}
"""
NATIVE = """from pyspark.sql import functions as f

def convert(readings, options):
    value = f.round((f.col("value").cast("double") - 32) / 1.8, int(options["digits"])).cast("string")
    return readings.select("key", value.alias("value"))
"""
PYTHON = """from pyspark.sql import functions as f

@f.udf("string")
def celsius(value):
    return str((float(value) - 32) / 1.8)

def convert(readings, options):
    return readings.select("key", celsius("value").alias("value"))
"""


@pytest.fixture
def bed(bring_up: Callable[..., Running], tmp_path: Path) -> Running:
    """A control node, a broker and two Pis, the second without room for an executor."""
    heat = tmp_path / "heat"
    heat.mkdir()
    (heat / "app.yaml").write_text(YAML)
    (heat / "app.py").write_text(NATIVE)
    limits = {"pi1": "cpu: 100%, memory: 900MiB", "pi2": "cpu: 10%, memory: 256MiB"}
    nodes = (
        f"{{name: {pi}, role: edge, site: field, board: rpi4-2g, {limit}}}" for pi, limit in limits.items()
    )
    return bring_up(*nodes, scale=None)


def send(bed: Running, values: list[str]) -> None:
    """Numbered on from what was sent before."""
    found = Apps.on(bed)
    first = found.sent("heat")
    found.will_have_sent("heat", first + len(values))
    with kafka.reachable(bed) as where:
        producer = KafkaProducer(**where.for_kafka_python())
        for number, value in enumerate(values, first):
            producer.send("heat.fahrenheit", key=str(number).encode(), value=value.encode())
        producer.close()


def counted(fogctl: Fogctl) -> tuple[int, int, int]:
    """Sent, lost, duplicates, when nothing is on its way any more."""
    found = audited(fogctl, "heat")
    return found["sent"], found["lost"], found["duplicates"]


def options(bed: Running) -> dict[str, str]:
    """Those the stage runner was started with."""
    spec = json.loads((bed.state.folder / "apps" / "heat" / "convert" / "spec.json").read_text())
    found: dict[str, str] = spec["stage"]["options"]
    return found


def changes(done: subprocess.CompletedProcess[str]) -> list[str]:
    found: list[str] = json.loads(ok(done))["changes"]
    return found


def test_state_is_kept_changes_are_noticed_and_errors_name_their_line(
    fogctl: Fogctl, bed: Running, tmp_path: Path
) -> None:
    heat = tmp_path / "heat"
    refused = fogctl("app", "deploy", "heat", "--on", "pi1,pi2")
    assert refused.returncode == 2
    assert "node pi2 has no room" in refused.stderr
    assert Services(bed).status() == []

    ok(fogctl("app", "deploy", "heat", "--on", "pi1"))
    send(bed, ["50"] * 500)
    assert counted(fogctl) == (500, 0, 0)
    assert changes(fogctl("app", "deploy", "heat", "--on", "pi1", "-o", "json")) == []
    assert changes(fogctl("app", "scale", "heat", "convert", "--nodes", "pi1", "-o", "json")) == []
    would = changes(fogctl("app", "share", "heat", "convert", "50%", "--dry-run", "-o", "json"))
    assert would == ["share of convert on pi1: 100% to 50%"]
    assert Apps.on(bed).get("heat").stage("convert").replicas[0].share == 1.0

    # A new version that does not start: the old one runs again, with its own options, and says so.
    copies = list((bed.state.folder / "apps" / "heat" / ".source").iterdir())
    failed = fogctl("app", "deploy", "heat", "--on", "pi1", "--set", "convert.digits=many")
    assert failed.returncode == 1
    said = failed.stderr.splitlines()[-1]
    assert f"{heat}/app.py:4: ValueError: invalid literal for int() with base 10: 'many'" in said
    assert "what had been changed was undone, and convert runs as before" in said
    assert list((bed.state.folder / "apps" / "heat" / ".source").iterdir()) == copies
    assert options(bed) == {"digits": "1"}
    send(bed, ["55"] * 100)
    assert counted(fogctl) == (600, 0, 0)

    # Changed options start the stage anew, from where it was.
    (heat / "app.yaml").write_text(YAML.replace("digits: 1", "digits: 3"))
    dry = changes(fogctl("app", "deploy", "heat", "--on", "pi1", "--dry-run", "-o", "json"))
    assert dry[0] == "stop stage convert to start it anew: options changed"
    assert changes(fogctl("app", "deploy", "heat", "--on", "pi1", "-o", "json")) == dry
    assert options(bed) == {"digits": "3"}
    send(bed, ["60"] * 200)
    assert counted(fogctl) == (800, 0, 0)

    # So does an app that was away; and a function that raises on a record names its line.
    ok(fogctl("app", "rm", "heat", "--keep-state"))
    (heat / "app.py").write_text(PYTHON)
    ok(fogctl("app", "deploy", "heat", "--on", "pi1", "--set", "convert.digits=2"))
    assert options(bed) == {"digits": "2"}
    assert "convert: digits=2" in ok(fogctl("app", "status", "heat"))
    again = ("app", "deploy", "heat", "--on", "pi1", "--dry-run", "-o", "json")
    assert changes(fogctl(*again, "--set", "convert.digits=2")) == []
    assert "options changed" in changes(fogctl(*again))[0]
    send(bed, ["70"] * 200)
    assert counted(fogctl) == (1000, 0, 0)
    send(bed, ["mild"])
    socket = stage_socket(bed.state.folder, "heat", "convert")
    eventually(lambda: ask(socket, {"ask": "status"}, timeout_s=60)["error"], "it is known", pause_s=0.25)
    asked = fogctl("app", "status", "heat")
    assert asked.returncode == 1
    assert (
        asked.stderr.strip()
        .splitlines()[-1]
        .endswith(f"stage convert: {heat}/app.py:5: ValueError: could not convert string to float: 'mild'")
    )

    ok(fogctl("app", "rm", "heat"))
    assert not any(status.service.name.startswith("heat.") for status in Services(bed).status())
    assert not (bed.state.folder / "apps" / "heat").exists()
    with kafka.administration(kafka.reachable(bed)) as admin:
        assert not [topic for topic in admin.list_topics() if topic.startswith("heat.")]
