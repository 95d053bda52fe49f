"""Image layouts made by hand, blob by blob, for tests."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

from fogctl.image.check import LABELS

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
GZIP = "application/vnd.oci.image.layer.v1.tar+gzip"
PLAIN = "application/vnd.oci.image.layer.v1.tar"
MACHINES = {"amd64": 62, "arm64": 183, "arm": 40}


def binary(machine: str) -> bytes:
    """The beginning of an executable for a processor."""
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + (2).to_bytes(2, "little")
    return head + MACHINES[machine].to_bytes(2, "little") + bytes(44)


def layer(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


class Made:
    """A layout that is written blob by blob."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "blobs/sha256").mkdir(parents=True)
        (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')

    def blob(self, content: bytes, media_type: str) -> dict[str, Any]:
        name = hashlib.sha256(content).hexdigest()
        (self.folder / "blobs/sha256" / name).write_bytes(content)
        return {"mediaType": media_type, "digest": f"sha256:{name}", "size": len(content)}

    def json(self, data: Any, media_type: str) -> dict[str, Any]:
        return self.blob(json.dumps(data).encode(), media_type)

    def image(
        self,
        machine: str,
        files: dict[str, bytes],
        *,
        packed: bool = True,
        says: str | None = None,
        user: str = "1000",
        labels: tuple[str, ...] = LABELS,
    ) -> dict[str, Any]:
        plain = layer(files)
        config = {
            "architecture": machine,
            "config": {"User": user, "Labels": dict.fromkeys(labels, "x")},
            "rootfs": {"diff_ids": [f"sha256:{hashlib.sha256(plain).hexdigest()}"]},
        }
        content = gzip.compress(plain, mtime=0) if packed else plain
        manifest = {
            "config": self.json(config, "application/vnd.oci.image.config.v1+json"),
            "layers": [self.blob(content, GZIP if packed else PLAIN)],
        }
        return {**self.json(manifest, MANIFEST), "platform": {"architecture": says or machine}}

    def index(self, *entries: dict[str, Any], nested: bool = False) -> Path:
        top = {"manifests": list(entries)}
        if nested:
            top = {"manifests": [self.json(top, INDEX)]}
        (self.folder / "index.json").write_text(json.dumps(top))
        return self.folder
