"""A Kafka that fogctl did not start, on played nodes: it lets us in or not, and its password is a Secret."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fogctl.kube import names
from fogctl.kube.app_objects import DRIVER_ROLE, SPEC, StageRef
from tests.integration import secured_kafka
from tests.kube.cluster_bed import Bed
from tests.kube.control_plane import ControlPlane, until
from tests.kube.fake_nodes import FakeNodes

ADDRESS = "127.0.0.1"
NODES = ("cloud", "pi1")
REF = StageRef("lab", "identity", "copy")
DEPLOY = ("app", "deploy", "identity", "--on", "pi1")
SECTION = f"""\
kafka:
  servers: ["{ADDRESS}:{secured_kafka.PORT}"]
  tls: {{ca: kafka/ca.pem}}
  sasl: {{username: {secured_kafka.USER}, password_file: password}}
"""


@pytest.fixture
def bed(control_plane: ControlPlane, fake_nodes: FakeNodes, tmp_path: Path) -> Iterator[Bed]:
    """A testbed that is up with a broker of its own; a Kafka elsewhere has been started."""
    folder = tmp_path / "kafka"
    folder.mkdir()
    secured_kafka.certificates(folder, ADDRESS)
    with (tmp_path / "kafka.log").open("w") as log:
        kafka = subprocess.Popen(secured_kafka.formatted(folder, ADDRESS), stdout=log, stderr=log)
    fake_nodes.add(NODES)
    made = Bed(control_plane, tmp_path, NODES)
    try:
        made.up()
        yield made
    finally:
        made.cluster.down()
        kafka.kill()
        kafka.wait()
        fake_nodes.remove(NODES)


def up_with(bed: Bed, password: str) -> dict[str, Any]:
    """What `up` changes when testbed.yaml names the Kafka elsewhere, with this password in a file."""
    file = bed.folder / "password"
    file.touch(0o600)
    file.write_text(f"{password}\n")
    bed.more = SECTION
    bed.write()
    changed = bed.answer("up")
    return {what: changed[what] for what in ("removed", "made")}


def drivers(bed: Bed) -> list[dict[str, Any]]:
    return list(bed.plane.read("pods", "-n", bed.space, "-l", REF.selector(DRIVER_ROLE))["items"])


def listens() -> bool:
    try:
        socket.create_connection((ADDRESS, secured_kafka.PORT), 1).close()
    except OSError:
        return False
    return True


def test_its_password_is_in_the_secret_and_nowhere_else(bed: Bed, control_plane: ControlPlane) -> None:
    secret = f"Secret {names.SECRET} in {bed.space}"
    changed = up_with(bed, "guessed")
    assert changed["made"] == [secret]
    assert set(changed["removed"]) == {
        f"{what} in {bed.space}"
        for what in (
            f"StatefulSet {names.BROKER}",
            f"PersistentVolumeClaim {names.BROKER}",
            f"ConfigMap {names.BROKER_SETTINGS}",
        )
    }, "the testbed's own broker goes"
    until(listens, "the Kafka listens", otherwise=(bed.folder / "kafka.log").read_text)
    said = bed.fogctl(*DEPLOY, code=1)
    assert "it refuses the name or the password" in " ".join(said.split())
    assert "guessed" not in said
    assert drivers(bed) == []
    assert not list(bed.state.folder.glob("apps/*/deployment.json"))

    assert up_with(bed, secured_kafka.PASSWORD) == {"removed": [], "made": [secret]}
    data = control_plane.read("secret", names.SECRET, "-n", bed.space)["data"]
    assert base64.b64decode(data[names.KAFKA_PASSWORD]).decode() == secured_kafka.PASSWORD
    assert base64.b64decode(data["kafka-ca.pem"]) == (bed.folder / "kafka" / "ca.pem").read_bytes()

    # Pods that kwok plays run nothing: the driver would be waited for in vain.
    deploying = bed.command(*DEPLOY)
    try:
        until(lambda: drivers(bed) or deploying.poll() is not None, "the driver's pod is there")
        (driver,) = drivers(bed)
        (volume,) = [each for each in driver["spec"]["volumes"] if "secret" in each]
        assert volume["secret"]["secretName"] == names.SECRET
        mounts = {each["name"]: each["mountPath"] for each in driver["spec"]["containers"][0]["volumeMounts"]}
        assert mounts[volume["name"]] == names.SECRET_FOLDER
        settings = control_plane.read("configmap", REF.name, "-n", bed.space)["data"]
        kafka = json.loads(settings[SPEC])["kafka"]
        assert kafka["servers"] == f"{ADDRESS}:{secured_kafka.PORT}"
        assert kafka["security"]["tls"]["ca"] == f"{names.SECRET_FOLDER}/kafka-ca.pem"
        assert kafka["security"]["sasl"] == {
            "mechanism": "SCRAM-SHA-512",
            "username": secured_kafka.USER,
            "password_file": f"{names.SECRET_FOLDER}/{names.KAFKA_PASSWORD}",
        }
        assert_shown_nowhere(secured_kafka.PASSWORD, bed)
    finally:
        deploying.kill()
        out, err = deploying.communicate()
    assert secured_kafka.PASSWORD not in out + err


def assert_shown_nowhere(password: str, bed: Bed) -> None:
    """In no argument list, no environment, no object but the Secret, and no file that fogctl wrote."""
    spellings = [
        password.encode(),
        json.dumps(password)[1:-1].encode(),
        base64.b64encode(password.encode()),
    ]

    def shows(text: bytes) -> bool:
        return any(spelling in text for spelling in spellings)

    for process in Path("/proc").glob("[0-9]*"):
        for file in ("cmdline", "environ"):
            with contextlib.suppress(OSError):
                assert not shows((process / file).read_bytes()), f"{process}/{file}"
    for kind in ("pods", "statefulsets", "configmaps", "events", "controllerrevisions"):
        assert not shows(json.dumps(bed.plane.read(kind, "-n", bed.space)).encode()), kind
    for written in bed.state.folder.rglob("*"):
        if written.is_file():
            assert not shows(written.read_bytes()), written
