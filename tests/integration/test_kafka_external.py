"""An app on a Kafka that fogctl did not start: TLS, a log-in, and a sentence for each way it can fail."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import secured_kafka
from live_testbed import Fogctl, audited, eventually, ok

from fogctl.runtime.pool import listens
from fogctl.runtime.service import Services
from fogctl.testbed import names
from fogctl.testbed.running import Running

pytestmark = pytest.mark.timeout(900)
ADDRESS = names.data_address(1)


@pytest.fixture
def testbed_with(bring_up: Callable[..., Running]) -> Callable[[str], Running]:
    """Write testbed.yaml with a kafka section and bring it up; again to change the section."""
    return lambda section: bring_up(broker="bus", more=f"kafka: {section}\n")


def test_an_app_runs_on_a_kafka_with_tls_and_a_log_in_and_loses_nothing(
    fogctl: Fogctl, testbed_with: Callable[[str], Running], tmp_path: Path
) -> None:
    secrets = {"good": secured_kafka.PASSWORD, "bad": "guessed"}
    for file, text in secrets.items():
        (tmp_path / file).write_text(text + "\n")
        (tmp_path / file).chmod(0o600)
    folder = tmp_path / "kafka"
    folder.mkdir()
    secured_kafka.certificates(folder, ADDRESS)

    def section(ca: str = "ca", password: str = "good", port: int = secured_kafka.PORT) -> str:
        return (
            f"{{servers: ['{ADDRESS}:{port}'], tls: {{ca: kafka/{ca}.pem}}, "
            f"sasl: {{username: {secured_kafka.USER}, password_file: {password}}}}}"
        )

    bed = testbed_with(section())
    deploy = ("app", "deploy", "identity", "--on", "pi1")
    refused = fogctl(*deploy)
    assert refused.returncode == 1
    assert f"node cloud, pi1 cannot reach the Kafka at {ADDRESS}:9193" in refused.stderr.splitlines()[-1]
    assert "no route out of the testbed" in refused.stderr.splitlines()[-1]

    services = Services(bed)
    secured_kafka.start(bed, services, "bus", ADDRESS, folder)
    pid = services.pid(secured_kafka.NAME)
    assert pid is not None
    eventually(lambda: listens(pid, secured_kafka.PORT), "the Kafka listens")
    deadline = time.monotonic() + 90
    while (done := fogctl(*deploy)).returncode != 0 and time.monotonic() < deadline:
        assert "cannot reach" in done.stderr or "does not let us in" in done.stderr, done.stderr
        time.sleep(0.5)
    assert done.returncode == 0, done.stderr
    running = {status.service.name for status in services.status()}
    assert "broker" not in running
    assert secured_kafka.NAME in running

    made = ("--days", "0.002", "--rides", "500000", "--start", "2013-05-01T09:00:00")
    ok(fogctl("trace", "make", "rides.csv", *made))
    replayed = ok(fogctl("trace", "replay", "rides.csv", "--app", "identity", "--speed", "30", "-o", "json"))
    sent = json.loads(replayed)["records"]
    assert sent > 500
    result = audited(fogctl, "identity")
    assert (result["sent"], result["lost"], result["foreign"]) == (sent, 0, 0)
    assert_secret_nowhere(bed.state.folder)
    assert fogctl("app", "rm", "identity").returncode == 0

    for changes, said in (
        ({"password": "bad"}, "it refuses the name or the password"),
        ({"ca": "other"}, "its certificate is not to be trusted"),
        ({"port": 9199}, "cannot reach the Kafka"),
    ):
        testbed_with(section(**changes))
        refused = fogctl(*deploy)
        assert refused.returncode == 1
        assert said in refused.stderr.splitlines()[-1], refused.stderr
        assert [
            status.service.name for status in services.status() if "identity" in status.service.name
        ] == []


def assert_secret_nowhere(state: Path) -> None:
    """The password is in no argument list, no environment, and no text that fogctl wrote."""
    password = secured_kafka.PASSWORD.encode()
    spellings = (password, json.dumps(password.decode())[1:-1].encode())
    for process in Path("/proc").glob("[0-9]*"):
        for file in ("cmdline", "environ"):
            try:
                text = (process / file).read_bytes()
            except OSError:
                continue
            assert not any(spelling in text for spelling in spellings), process
    for folder, _, files in os.walk(state):
        for file in (Path(folder, name) for name in files):
            # What the app replaces or removes meanwhile is passed over.
            with contextlib.suppress(FileNotFoundError):
                if file.is_file() and file.suffix in {".json", ".jsonl", ".log", ".sent", ".txt", ""}:
                    assert not any(spelling in file.read_bytes() for spelling in spellings), file
