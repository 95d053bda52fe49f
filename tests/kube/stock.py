"""Images unpacked once for all nodes of all test runs: a containerd's folder in the cache, to be linked to.

Unpacking a stage's image takes a good while and a gigabyte, and a cluster has four nodes. What containerd has
unpacked never changes, so every node gets hard links to the same files and a database of its own.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

NAMED = "io.containerd.image.name"
IMPORT = """
set -e
mount --bind {work} /run
containerd --config {work}/config.toml > {work}/log 2>&1 &
until ctr version > /dev/null 2>&1; do kill -0 $!; sleep 0.1; done
ctr -n k8s.io images import {archive} > /dev/null
ctr -n k8s.io content prune references > /dev/null
kill $!
wait $! || true
"""
CONFIG = """
version = 2
root = "{root}"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt"]
"""


class Stock:
    """The folder, and which images are in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def has(self, archive: Path) -> bool:
        """Whether exactly the images of an OCI archive are here."""
        return images_of(archive).items() <= self.images().items()

    def images(self) -> dict[str, str]:
        """By name the digest of every image that is here."""
        file = self._folder / "images.json"
        return dict(json.loads(file.read_text())) if file.exists() else {}

    def add(self, archive: Path) -> None:
        """Have the images of an OCI archive here."""
        with self._locked(fcntl.LOCK_EX):
            if not self.has(archive):
                self._import(archive)
                known = self.images() | images_of(archive)
                (self._folder / "images.json").write_text(json.dumps(known, indent=1))

    def copy_to(self, root: Path) -> Mapping[str, str]:
        """Make a folder the root of a containerd that has all images; answers which those are."""
        with self._locked(fcntl.LOCK_SH):
            shutil.rmtree(root, ignore_errors=True)
            root.mkdir(parents=True)
            for part in (self._folder / "root").iterdir():
                _copy(part, root)
            for database in (self._folder / "root").rglob("*.db"):
                copy = root / database.relative_to(self._folder / "root")
                copy.unlink()
                shutil.copy2(database, copy)
            return self.images()

    def _import(self, archive: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="fog-stock-") as work:
            Path(work, "config.toml").write_text(CONFIG.format(root=self._folder / "root"))
            alone = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
            script = IMPORT.format(work=work, archive=archive.resolve())
            done = subprocess.run([*alone, "sh", "-c", script], capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{archive}: {done.stderr}\n{Path(work, 'log').read_text()[-2000:]}"

    @contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        with (self._folder / "lock").open("w") as handle:
            fcntl.flock(handle, how)
            yield


def _copy(part: Path, root: Path) -> None:
    """Links where the cache is on the same file system, else copies."""
    argv = ["cp", "--archive", str(part), str(root)]
    if subprocess.run([*argv, "--link"], capture_output=True, check=False).returncode:
        shutil.rmtree(root / part.name, ignore_errors=True)
        subprocess.run(argv, check=True)


def images_of(archive: Path) -> dict[str, str]:
    """By name the digest of every image in an OCI archive."""
    with tarfile.open(archive) as opened:
        index = opened.extractfile("index.json")
        assert index is not None
        manifests = json.load(index)["manifests"]
    return {each["annotations"][NAMED]: each["digest"] for each in manifests}
