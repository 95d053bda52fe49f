"""Replay and injection into a real broker: on schedule, interrupted, killed; every number accounted for."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from live_testbed import Fogctl, Tell, eventually, ok, records_in

from fogctl.runtime import app as apps
from fogctl.runtime import audit, broker, deployment, kafka
from fogctl.runtime.audit import Audit
from fogctl.runtime.operate import Apps
from fogctl.runtime.service import Services
from fogctl.testbed.running import Running

pytestmark = pytest.mark.timeout(600)
APP = "identity"


@pytest.fixture
def bed(fogctl: Fogctl, testbed_file: Callable[..., Path], name: str) -> Running:
    """A testbed whose broker runs, and an app of which only the topics and the record are there: no Spark."""
    testbed_file(pis=1)
    ok(fogctl("up"))
    running = Running.load(name)
    app = apps.load(APP)
    broker.start(running, Services(running))
    kafka.ensure_topics(kafka.reachable(running), app.topics)
    record = running.state.folder / "apps" / APP / "deployment.json"
    record.parent.mkdir(parents=True)
    wanted = deployment.place(app, {stage.name: ["pi1"] for stage in app.stages}, [])
    record.write_text(json.dumps(deployment.to_json(wanted)))
    made = ("--days", "0.01", "--rides", "3000000", "--start", "2013-05-01T12:00:00")
    ok(fogctl("trace", "make", "rides.parquet", *made))
    return running


def arrived(bed: Running) -> Audit:
    """What the app would find in its input."""
    app = apps.load(APP)
    with kafka.reachable(bed) as connection:
        keys = audit.keys_of(connection, app.topic(app.sources[0]))
    return audit.count(keys, Apps.on(bed).sent_numbers(APP).read())


def held(bed: Running) -> int:
    """How many records the app's input ever held."""
    app = apps.load(APP)
    return records_in(bed, app.topic(app.sources[0]))


def started(fogctl_argv: list[str], folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*fogctl_argv, "trace", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A test run that was started in the background hands on a Ctrl-C that is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def wait_until_sent(bed: Running, more_than: int) -> None:
    deadline = time.monotonic() + 90
    while int(Apps.on(bed).sent_numbers(APP).read().sure.sum()) <= more_than:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_every_number_is_accounted_for_whatever_happens_to_its_sender(
    fogctl: Fogctl, fogctl_argv: list[str], bed: Running, tmp_path: Path, tell: Tell
) -> None:
    replay = ("replay", "rides.parquet", "--app", APP, "--speed", "20", "-o", "json")

    killed = started(fogctl_argv, tmp_path, *replay)
    wait_until_sent(bed, 300)
    killed.kill()
    killed.communicate()
    found = arrived(bed)
    assert found.ok
    assert found.sent >= 300
    assert found.unsure < 5000  # of 36,000: those on their way, not all that were planned

    before = found.sent
    interrupted = started(fogctl_argv, tmp_path, *replay)
    wait_until_sent(bed, before + 300)
    interrupted.send_signal(signal.SIGINT)
    _, said = interrupted.communicate(timeout=60)
    assert interrupted.returncode == 130
    assert "interrupted after about" in said.strip().splitlines()[-1]
    now = arrived(bed)
    assert now.ok
    assert now.unsure == found.unsure
    # Ctrl-C in the very instant of a hand-over: that one record may have arrived without being counted.
    assert 0 <= now.seen - (found.seen + now.sent - before) <= 1

    whole = fogctl("trace", *replay, "--limit", "3000")
    figures = json.loads(whole.stdout)
    assert figures["records"] == 3000
    after = arrived(bed)
    assert (after.ok, after.sent) == (True, now.sent + 3000)
    tell(
        f"replay of {figures['records'] / figures['scheduled_s']:.0f} records/s: schedule error p50 "
        f"{figures['error_ms_p50']:.2f} ms, p99 {figures['error_ms_p99']:.2f} ms, "
        f"{figures['late_s'] * 1000:.1f} ms behind at the end"
    )

    hasty = fogctl("trace", *replay[:-4], "--speed", "1000000", "--copies", "10", "--limit", "5000")
    assert hasty.returncode == 1
    assert "the replay could not keep up" in hasty.stderr.splitlines()[-1]
    after = arrived(bed)
    assert after.ok

    sent = after.sent
    for library in ("librdkafka", "kafka-python"):
        if library == "librdkafka" and importlib.util.find_spec("confluent_kafka") is None:
            continue
        done = fogctl(
            *("trace", "inject", "rides.parquet", "--app", APP, "--records", "20000"),
            *("--processes", "2", "--library", library, "-o", "json"),
        )
        assert done.returncode == 0, done.stderr
        figures = json.loads(done.stdout)
        sent += 20_000
        found = arrived(bed)
        assert (found.ok, found.sent, found.duplicates) == (True, sent, 0)
        tell(
            f"injected by {library}, 2 processes: {figures['records_per_s']:,.0f} records/s, "
            f"{figures['cpu_us_per_record']:.1f} µs of CPU each, limited by the {figures['limited_by']}"
        )

    numbers = Apps.on(bed).sent_numbers(APP)
    in_doubt, before_it = int(numbers.read().unsure.sum()), held(bed)
    slow = started(
        fogctl_argv, tmp_path, "inject", "rides.parquet", "--app", APP, "--rate", "2000/s", "-o", "json"
    )
    deadline = time.monotonic() + 90
    while int(numbers.read().unsure.sum()) <= in_doubt:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    eventually(lambda: held(bed) > before_it, "it sends now")
    slow.send_signal(signal.SIGINT)
    said, complaint = slow.communicate(timeout=60)
    assert slow.returncode == 130, complaint
    assert said, complaint
    figures = json.loads(said)
    found = arrived(bed)
    assert (found.ok, found.sent, found.unsure) == (True, sent + figures["records"], after.unsure)

    kafka.delete_topics(kafka.reachable(bed), list(apps.load(APP).topics))
    refused = fogctl("trace", *replay)
    assert refused.returncode == 1
    assert "there is no topic identity." in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
