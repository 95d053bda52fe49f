"""Boards over SSH, up to k3s's place: checksums, token, order, upgrade, images; a script is k3s."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest
import yaml

from tests.vm.release import FIRST, SECOND, Release
from tests.vm.shelf import BAD_DAYS_TOO, Shelf, at_length

K3S = ("pi", "provision", "-p", "k3s")
TOKEN = "/etc/rancher/k3s/token"
IMAGE = "localhost/fogctl-stage:test"


@pytest.fixture(scope="module")
def first(shelf: Shelf) -> Release:
    return Release(shelf.folder, FIRST)


@pytest.fixture(scope="module")
def second(shelf: Shelf) -> Release:
    return Release(shelf.folder, SECOND)


def notes(shelf: Shelf) -> list[str]:
    return shelf.north.run("cat /var/lib/rancher/k3s/notes").stdout.splitlines()


@at_length
def test_a_wrong_checksum_stops_before_anything_is_installed(shelf: Shelf, first: Release) -> None:
    """What is in the folder is not what the role pins."""
    said = shelf.refused(1, *K3S, "--artefacts", str(first.folder), "--keep-going")
    for name in ("north", "south"):
        assert len([line for line in said if line.startswith(f"{name}: ") and "not the pinned" in line]) == 1
    for board in shelf.boards:
        board.run("test ! -e /usr/local/bin/k3s && test ! -e /etc/systemd/system/k3s.service")


def test_init_without_internet_makes_a_server_and_an_agent(shelf: Shelf, first: Release) -> None:
    """The whole command, up to k3s's place: the stand-in is no Kubernetes, so no testbed comes up on it."""
    done = shelf.fogctl(
        *("init", "shelf", "--kind", "k3s", "--hosts", "hosts.txt"),
        *("--artefacts", str(first.folder), *first.pinned(), "-o", "json"),
    )
    assert done.returncode == 1, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert (told["blocked"], told["up"]) == ([], False)
    assert told["provisioned"]["failures"] == {}
    changed = {
        (playbook, name): host["changed"] > 0
        for playbook, hosts in told["provisioned"]["playbooks"].items()
        for name, host in hosts.items()
    }
    # After bad days north was ready before; south goes on where it lost power, touch and space.
    assert changed == {
        ("prepare", "north"): not BAD_DAYS_TOO,
        ("netem", "north"): not BAD_DAYS_TOO,
        ("k3s", "north"): True,
        ("prepare", "south"): True,
        ("netem", "south"): True,
        ("k3s", "south"): True,
    }
    assert done.stderr.splitlines()[-1].endswith("(to undo what was made: fogctl down)")
    assert shelf.north.run(f"cat {TOKEN}").stdout.strip() not in done.stdout + done.stderr
    assert notes(shelf) == [f"server {FIRST}", f"join south {FIRST}"]


def test_the_token_is_a_secret(shelf: Shelf) -> None:
    secret = shelf.north.run(f"cat {TOKEN}").stdout.strip()
    assert len(secret) == 64
    assert shelf.south.run(f"cat {TOKEN}").stdout.strip() == secret
    for board in shelf.boards:
        assert board.run(f"stat -c '%a %U' {TOKEN} /etc/rancher/k3s/config.yaml").stdout.split("\n")[:2] == [
            "600 root",
            "600 root",
        ]
        # Ansible's modules write what they were called with into the journal.
        assert "ansible" in board.run("journalctl -o cat | grep -i ansible | head -n 3").stdout
        assert board.run(f"journalctl | grep -c {secret}", check=False).stdout.strip() == "0"
        assert f"node-ip: {board.data_address}" in board.run("cat /etc/rancher/k3s/config.yaml").stdout
    way_in = shelf.folder / "fogctl" / "kube" / "shelf.yaml"
    assert way_in.stat().st_mode & 0o777 == 0o600
    assert f"password: {secret}" in way_in.read_text()


@at_length
def test_a_wrong_token_is_one_sentence(shelf: Shelf, first: Release) -> None:
    """The token on the server's disk is no longer the one the server was started with."""
    arguments = (
        *K3S,
        "--artefacts",
        str(first.folder),
        *first.pinned(k3s_ready_timeout_s=20),
        "--only",
        "south",
    )
    with shelf.seeded(shelf.north, f"cp {TOKEN} /root/kept; echo wrong > {TOKEN}", f"mv /root/kept {TOKEN}"):
        said = shelf.refused(1, *arguments)
    mine = [line for line in said if line.startswith("south: ")]
    assert len(mine) == 1
    assert "did not become ready within 20 s" in mine[0]
    assert "401 Unauthorized" in mine[0]


@at_length
def test_a_download_that_is_damaged_is_thrown_away_and_a_good_one_upgrades_one_by_one(
    shelf: Shelf, second: Release
) -> None:
    """North serves the release; the boards download it over the cable. South has a wrong token until then."""
    shelf.north.run(f"mkdir -p /tmp/web/{SECOND}")
    shelf.north.run(f"cat > /tmp/web/{SECOND}/k3s", stdin=b"damaged")
    shelf.north.run("systemd-run --quiet --unit=web python3 -m http.server --directory /tmp/web 8000")
    settings = second.pinned(k3s_url=f"http://{shelf.north.data_address}:8000")
    said = shelf.refused(1, *K3S, *settings, "--only", "south")
    assert [line for line in said if "arrived with the SHA-256" in line and "it was thrown away" in line]
    assert FIRST in shelf.south.run("k3s --version").stdout
    shelf.north.run(f"cat > /tmp/web/{SECOND}/k3s", stdin=(second.folder / "k3s").read_bytes())
    try:
        told = shelf.asked(0, *K3S, *settings)
    finally:
        shelf.north.run("systemctl stop web; rm -r /tmp/web")
    assert told["failures"] == {}
    happened = notes(shelf)
    # The server first. The old agent, let in again, may join it at any time until it is changed.
    after = [each for each in happened[happened.index(f"server {SECOND}") :] if each != f"join south {FIRST}"]
    assert after[1:] == ["drain south", f"join south {SECOND}", "uncordon south"]


def test_once_more_changes_nothing(shelf: Shelf, first: Release, second: Release) -> None:
    """What has arrived is not fetched again: nobody serves it any more, and no folder is named."""
    happened = notes(shelf)
    told = shelf.asked(0, "pi", "provision", *(second if BAD_DAYS_TOO else first).pinned())
    assert list(told["playbooks"]) == ["prepare", "netem", "k3s"]
    assert told["changed"] == 0, told
    assert notes(shelf) == happened


def oci_archive(file: Path, architecture: str) -> None:
    """An image without layers that claims an architecture."""
    blobs: dict[str, bytes] = {}

    def put(value: object) -> dict[str, object]:
        data = json.dumps(value).encode()
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return {"digest": f"sha256:{digest}", "size": len(data)}

    manifest = put({"schemaVersion": 2, "config": put({"architecture": architecture, "os": "linux"})})
    named = {**manifest, "annotations": {"io.containerd.image.name": IMAGE}}
    blobs["index.json"] = json.dumps({"schemaVersion": 2, "manifests": [named]}).encode()
    with tarfile.open(file, "w") as tar:
        for name, data in blobs.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))


@at_length
def test_an_image_is_loaded_once_and_one_for_another_processor_is_refused(shelf: Shelf) -> None:
    settings = shelf.folder / "images.yaml"
    archive = shelf.folder / "image.tar"
    settings.write_text(yaml.safe_dump({"images_archives": {"amd64": str(archive)}, "images_name": IMAGE}))
    arguments = ("pi", "provision", "-p", "images", "--vars", str(settings), "--only", "south")
    oci_archive(archive, "amd64")
    assert shelf.asked(0, *arguments)["changed"] > 0
    assert shelf.asked(0, *arguments)["changed"] == 0
    oci_archive(archive, "arm64")
    said = shelf.refused(1, *arguments)
    assert [line for line in said if f"{IMAGE} is an image for arm64, this host is amd64, so it was" in line]
    assert shelf.south.run(f"k3s crictl inspecti -o json {IMAGE}", check=False).code == 1
