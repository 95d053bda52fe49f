"""Container images for tests, written by hand: one static program and nothing else, as an OCI archive."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

OCI = "application/vnd.oci.image"


def write_archive(file: Path, program: Path, images: Mapping[str, Sequence[str]]) -> Path:
    """An archive of images by name, each with its entry point; all hold the program as /tiny."""
    blobs: dict[str, bytes] = {}

    def keep(content: bytes, kind: str) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        return {"mediaType": f"{OCI}.{kind}", "digest": f"sha256:{digest}", "size": len(content)}

    layer = _tar({"tiny": (program.read_bytes(), 0o755)})
    manifests = []
    for name, entry in images.items():
        config = {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": list(entry), "User": "65534:65534"},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{OCI}.manifest.v1+json",
            "config": keep(_json(config), "config.v1+json"),
            "layers": [keep(layer, "layer.v1.tar")],
        }
        kept = keep(_json(manifest), "manifest.v1+json")
        manifests.append({**kept, "annotations": {"io.containerd.image.name": name}})
    index = {"schemaVersion": 2, "manifests": manifests}
    contents = {f"blobs/sha256/{digest}": (content, 0o644) for digest, content in blobs.items()}
    contents["oci-layout"] = (b'{"imageLayoutVersion": "1.0.0"}', 0o644)
    contents["index.json"] = (_json(index), 0o644)
    file.write_bytes(_tar(contents))
    return file


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _tar(files: Mapping[str, tuple[bytes, int]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, (content, mode) in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
