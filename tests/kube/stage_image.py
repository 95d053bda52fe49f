"""The image of a stage as tests have it: built once and cached, saved for containerd, started by runc."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fogctl.image import archive
from fogctl.image.binfmt import native
from fogctl.image.build import Built, Wanted, build
from fogctl.image.layout import Layout
from fogctl.image.recipe import ARCHITECTURES, cache_dir

COMMANDS = ("buildah", "mmdebstrap", "runc")
NO_CRANE = "no crane: go install github.com/google/go-containerregistry/cmd/crane@latest"


def why_no_image(architecture: str = native()) -> str | None:
    """Why no image can be built and started here; None if one can."""
    needed = (
        COMMANDS if architecture == native() else (*COMMANDS, f"qemu-{ARCHITECTURES[architecture]}-static")
    )
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = [command for command in needed if not shutil.which(command, path=path)]
    if sys.platform != "linux" or os.geteuid() != 0:
        return "building and starting an image from Debian packages needs root on Linux"
    return f"no {', '.join(missing)}: install tests/kube/packages.txt" if missing else None


@dataclass(frozen=True, slots=True)
class StageImage:
    """The image of today's tree for one processor."""

    built: Built
    archive: Path
    """What containerd loads."""

    @property
    def name(self) -> str:
        """What pods call it."""
        return self.built.name

    @classmethod
    def get(cls, say: Callable[[str], None], architecture: str = native()) -> StageImage:
        """Built now, unless nothing has changed; kept in the cache, so that the next run has it."""
        folder = cache_dir() / "layouts" / architecture
        made = build(Wanted((architecture,), folder), lambda text: say(f"stage image: {text}"))
        file = folder.with_suffix(".tar")
        if not (made.cached and file.is_file()):
            layout = Layout(folder)
            archive.save(layout, archive.choose(layout, architecture), made.name, file)
        return cls(made, file)


def crane_finds_wrong(layout: Path) -> str | None:
    """What crane says against a layout, all its images; None if nothing. Through a registry on loopback."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    name = f"{address}/fogctl-stage:test"
    with subprocess.Popen(["crane", "registry", "serve", "--address", address]) as registry:
        try:
            _wait_for(address)
            pushed = ["crane", "push", "--insecure", str(layout), name]
            for argv in (pushed, ["crane", "validate", "--insecure", "--remote", name]):
                ran = subprocess.run(argv, capture_output=True, text=True, check=False)
                if ran.returncode:
                    return f"{' '.join(argv)}: {ran.stderr}"
            return None
        finally:
            registry.terminate()


def _wait_for(address: str, within_s: float = 60) -> None:
    host, _, port = address.partition(":")
    until = time.monotonic() + within_s
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
        else:
            return


@dataclass(frozen=True, slots=True)
class Container:
    """An image's files in a folder, to be run as a restricted pod would: not as root, the root read-only."""

    root: Path
    config: Mapping[str, Any]
    bundle: Path

    def run(self, *argv: str, stdin: str = "", timeout: float = 600) -> str:
        """What a command says in it; the image's own entry point runs the arguments."""
        ran = self.ran(argv, stdin, timeout)
        assert ran.returncode == 0, f"{argv}: {ran.stdout[-4000:]}\n{ran.stderr[-4000:]}"
        return ran.stdout

    def ran(
        self, argv: Sequence[str], stdin: str = "", timeout: float = 600
    ) -> subprocess.CompletedProcess[str]:
        """The same, without judging it."""
        file = self.bundle / "config.json"
        file.unlink(missing_ok=True)
        subprocess.run(["runc", "spec", "--bundle", str(self.bundle)], check=True)
        file.write_text(json.dumps(self._spec(json.loads(file.read_text()), argv)))
        name = f"fog-image-{self.bundle.name}"
        return subprocess.run(
            ["runc", "--root", str(self.bundle / "state"), "run", "--bundle", str(self.bundle), name],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def _spec(self, made: dict[str, Any], argv: Sequence[str]) -> dict[str, Any]:
        """runc's own specification, as a restricted pod has it: no capability, no root, nothing writable."""
        settings = self.config["config"]
        made["root"] = {"path": str(self.root), "readonly": True}
        made["hostname"] = "localhost"
        uid, _, gid = settings["User"].partition(":")
        nothing: list[str] = []
        made["process"] |= {
            "terminal": False,
            "user": {"uid": int(uid), "gid": int(gid)},
            "args": [*settings["Entrypoint"], *argv],
            "env": [*settings["Env"], "SPARK_LOCAL_IP=127.0.0.1"],
            "cwd": settings["WorkingDir"],
            "capabilities": dict.fromkeys(made["process"]["capabilities"], nothing),
            "noNewPrivileges": True,
            "rlimits": [],
        }
        made["mounts"] = [each for each in made["mounts"] if each["destination"] != "/sys/fs/cgroup"]
        options = ["nosuid", "nodev", "mode=1777"]
        made["mounts"].append({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": options})
        return made


@contextmanager
def unpacked(archive_file: Path, folder: Path) -> Iterator[Container]:
    """An archive's layers, one over the other; gone afterwards."""
    shutil.rmtree(folder, ignore_errors=True)
    layout, root = folder / "layout", folder / "root"
    for each in (layout, root):
        each.mkdir(parents=True)
    try:
        with tarfile.open(archive_file) as tar:
            tar.extractall(layout, filter="data")
        (image,) = Layout(layout).images()
        for blob in image.layers:
            subprocess.run(["tar", "-C", str(root), "-xzpf", str(Layout(layout).path(blob))], check=True)
        # Every container runtime brings this file; runc alone does not.
        (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
        yield Container(root, image.config, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
