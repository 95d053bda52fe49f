"""One image of a layout as one file, which containerd (`ctr images import`), k3s, podman and docker load."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import IO, Any, cast

from fogctl.errors import FAILED, FogError
from fogctl.image.layout import Blob, Hashing, Image, Layout

_INDEX = "application/vnd.oci.image.index.v1+json"


def choose(layout: Layout, architecture: str | None) -> Image:
    """The image for a processor, or the only one."""
    images = layout.images()
    held = ", ".join(image.architecture for image in images)
    fitting = [image for image in images if architecture in (None, image.architecture)]
    if not fitting:
        asked = f"no image for {architecture}" if architecture else "no image"
        raise FogError(f"holds {asked}", file=layout.folder, hint=f"it holds {held}" if images else None)
    if len(fitting) > 1:
        raise FogError("holds several images", file=layout.folder, hint=f"choose by --arch: {held}")
    return fitting[0]


def save(layout: Layout, image: Image, name: str, to: Path) -> None:
    """Write the image under a name as an OCI archive, whole or not at all."""
    manifest = layout.json(image.manifest)
    blobs = [image.manifest, Blob.of(manifest["config"], layout.path(image.manifest)), *image.layers]
    part = to.with_name(f".{to.name}.part")
    try:
        with tarfile.open(part, "w") as archive:
            _add(archive, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
            _add(archive, "index.json", json.dumps(_index(image, name)).encode())
            for blob in dict.fromkeys(blobs):
                with layout.opened(blob) as stream:
                    entry = _entry(f"blobs/{blob.digest.replace(':', '/')}", blob.size)
                    read = Hashing(stream)
                    archive.addfile(entry, cast(IO[bytes], read))
                    if read.finish()[1] != blob.digest:
                        raise layout.broken(blob)
        part.replace(to)
    except OSError as error:
        raise FogError(f"cannot be written: {error.strerror}", file=to, exit_code=FAILED) from None
    finally:
        if part.exists():
            part.unlink()


def _index(image: Image, name: str) -> dict[str, Any]:
    """containerd reads the first annotation, others the second."""
    blob = image.manifest
    return {
        "schemaVersion": 2,
        "mediaType": _INDEX,
        "manifests": [
            {
                "mediaType": blob.media_type,
                "digest": blob.digest,
                "size": blob.size,
                "platform": {"architecture": image.architecture, "os": "linux"},
                "annotations": {
                    "io.containerd.image.name": name,
                    "org.opencontainers.image.ref.name": name,
                },
            }
        ],
    }


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    archive.addfile(_entry(name, len(content)), io.BytesIO(content))


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o644
    return entry
