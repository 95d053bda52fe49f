"""A release of k3s for the shelf: the stand-in as its binary, in a folder, with the variables that pin it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import yaml

STAND_IN = Path(__file__).with_name("k3s_stand_in.py")
FIRST, SECOND = "v1.36.4+k3s1", "v1.36.5+k3s1"


class Release:
    """The files of one version, in a folder, and the variables that pin them."""

    def __init__(self, folder: Path, version: str) -> None:
        self.version = version
        self.folder = folder / version
        self.folder.mkdir(exist_ok=True)
        binary = STAND_IN.read_text().replace('VERSION = "v0.0.0"', f'VERSION = "{version}"')
        (self.folder / "k3s").write_text(binary)
        (self.folder / "k3s-airgap-images-amd64.tar.zst").write_bytes(b"images")

    def pinned(self, **more: object) -> tuple[str, str]:
        """`--vars` with a file that pins this release."""
        sums = {
            name: hashlib.sha256((self.folder / file).read_bytes()).hexdigest()
            for name, file in (("binary", "k3s"), ("images", "k3s-airgap-images-amd64.tar.zst"))
        }
        said = {"k3s_version": self.version, "k3s_sha256": {"amd64": sums}, "k3s_ready_timeout_s": 60, **more}
        file = self.folder / "vars.yaml"
        file.write_text(yaml.safe_dump(said))
        return "--vars", str(file)
