"""An OCI image layout on disk (image-spec 1.1): its images, their configurations, their layers, verified."""

from __future__ import annotations

import gzip
import hashlib
import json
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar, cast

from fogctl.errors import REFUSED, FogError

_INDEXES = {
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
}
_MANIFESTS = {
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
}
_CHUNK = 1 << 20
_Kind = TypeVar("_Kind", list[Any], dict[str, Any])


@dataclass(frozen=True, slots=True)
class Blob:
    """Something in the layout, named by what it hashes to."""

    digest: str
    size: int
    media_type: str

    @classmethod
    def of(cls, data: Mapping[str, Any], file: Path) -> Blob:
        """A descriptor, as the specification has it."""
        try:
            return cls(str(data["digest"]), int(data["size"]), str(data["mediaType"]))
        except (KeyError, TypeError, ValueError):
            raise FogError("has a descriptor without digest, size or mediaType", file=file) from None


@dataclass(frozen=True, slots=True)
class Image:
    """One image of a layout: for one processor."""

    manifest: Blob
    claimed: str | None
    """The architecture that the index claims; None if it claims none."""
    config: Mapping[str, Any]
    layers: tuple[Blob, ...]

    @property
    def architecture(self) -> str:
        """The architecture that its configuration claims."""
        return str(self.config.get("architecture", "unknown"))

    @property
    def diff_ids(self) -> tuple[str, ...]:
        """What each layer hashes to when unpacked."""
        return tuple((self.config.get("rootfs") or {}).get("diff_ids") or ())


@dataclass(frozen=True, slots=True)
class Layout:
    """A folder with `oci-layout`, `index.json` and `blobs/`."""

    folder: Path

    def images(self) -> list[Image]:
        """Every image, through nested indexes; FogError if the folder is no layout or a blob is not whole."""
        if not self.folder.exists():
            raise FogError(
                "no such folder", file=self.folder, hint="fogctl image build --to FOLDER makes one"
            )
        if self.folder.is_file():
            unpack = f"if it is an OCI archive: mkdir layout; tar -xf {self.folder} -C layout"
            raise FogError("is a file, not the folder of an OCI image layout", file=self.folder, hint=unpack)
        if not (self.folder / "oci-layout").is_file():
            raise FogError("is no OCI image layout: it has no oci-layout", file=self.folder)
        index = self.folder / "index.json"
        try:
            top = json.loads(index.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise FogError("cannot be read as JSON", file=index) from None
        if not isinstance(top, dict):
            raise FogError("is not a JSON object", file=index)
        return list(self._within(top, index, set()))

    def _within(self, index: Mapping[str, Any], file: Path, seen: set[str]) -> Iterator[Image]:
        for entry in _part(index, "manifests", list, file):
            blob = Blob.of(entry, file)
            if blob.digest in seen:
                continue
            seen.add(blob.digest)
            if blob.media_type in _INDEXES:
                yield from self._within(self.json(blob), self.path(blob), seen)
            elif blob.media_type in _MANIFESTS:
                yield self._image(blob, _part(entry, "platform", dict, file))
            else:
                raise FogError(
                    f"names a {blob.media_type}, which is neither an image nor an index", file=file
                )

    def _image(self, blob: Blob, platform: Mapping[str, Any]) -> Image:
        manifest = self.json(blob)
        file = self.path(blob)
        named = Blob.of(manifest.get("config", {}), file)
        layers = tuple(Blob.of(layer, file) for layer in _part(manifest, "layers", list, file))
        config, place = self.json(named), self.path(named)
        _part(_part(config, "rootfs", dict, place), "diff_ids", list, place)
        _part(_part(config, "config", dict, place), "Labels", dict, place)
        return Image(blob, platform.get("architecture"), config, layers)

    def path(self, blob: Blob) -> Path:
        """Where a blob lies."""
        kind, _, name = blob.digest.partition(":")
        if kind != "sha256" or len(name) != 64 or not set(name) <= set("0123456789abcdef"):
            raise FogError(f'"{blob.digest}" is not a sha256 digest', file=self.folder / "index.json")
        return self.folder / "blobs" / kind / name

    def json(self, blob: Blob) -> dict[str, Any]:
        """A blob that holds a JSON object, verified."""
        with self.opened(blob) as stream:
            text = stream.read()
        if f"sha256:{hashlib.sha256(text).hexdigest()}" != blob.digest:
            raise self.broken(blob)
        try:
            data = json.loads(text)
        except ValueError:
            data = None
        if not isinstance(data, dict):
            raise FogError("is not a JSON object", file=self.path(blob))
        return data

    @contextmanager
    def opened(self, blob: Blob) -> Iterator[IO[bytes]]:
        """A blob's bytes; FogError if it is missing or has another size."""
        path = self.path(blob)
        try:
            size = path.stat().st_size
            stream = path.open("rb")
        except OSError:
            raise FogError("is missing", file=path, hint="copy the whole layout", exit_code=REFUSED) from None
        with stream:
            if size != blob.size:
                raise self.broken(blob)
            yield stream

    @contextmanager
    def unpacked(self, blob: Blob) -> Iterator[tuple[tarfile.TarFile, Hashing]]:
        """A layer as an archive to go through once, and its digests, which are right after `finish`."""
        with self.opened(blob) as stream:
            packed = Hashing(stream)
            plain = Hashing(_decompressed(packed, blob, self.path(blob)), packed)
            try:
                with tarfile.open(fileobj=cast(IO[bytes], plain), mode="r|") as archive:
                    yield archive, plain
            except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error, OSError) as error:
                raise FogError(
                    f"is no whole layer: {error}",
                    file=self.path(blob),
                    hint="copy it again",
                    exit_code=REFUSED,
                ) from None

    def broken(self, blob: Blob) -> FogError:
        """The refusal of a blob that does not hash to its name."""
        path = self.path(blob)
        return FogError("is not what its name says", file=path, hint="copy it again", exit_code=REFUSED)


def _part(data: Mapping[str, Any], key: str, kind: type[_Kind], file: Path) -> _Kind:
    """A list or mapping inside a document, empty if there is none; FogError if it is something else."""
    found = data.get(key)
    if found is not None and not isinstance(found, kind):
        raise FogError(f"its {key} is no {'list' if kind is list else 'mapping'}", file=file)
    return found or kind()


class Hashing:
    """A stream that is hashed as it is read."""

    def __init__(self, stream: Any, below: Hashing | None = None) -> None:
        self._stream = stream
        self._below = below
        self._hash = hashlib.sha256()
        self.size = 0

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        data: bytes = self._stream.read(size)
        self._hash.update(data)
        self.size += len(data)
        return data

    def finish(self) -> tuple[str, str]:
        """Read to the end; the digests of the packed and of the unpacked bytes."""
        while self.read(_CHUNK):
            pass
        own = f"sha256:{self._hash.hexdigest()}"
        return (self._below.finish()[1] if self._below is not None else own), own


def _decompressed(stream: Hashing, blob: Blob, file: Path) -> Any:
    if blob.media_type.endswith(("tar+gzip", "tar.gzip")):
        return gzip.GzipFile(fileobj=cast(IO[bytes], stream), mode="rb")
    if blob.media_type.endswith(("+zstd", "tar.zstd")):
        raise FogError("is packed with zstd", file=file, hint="build with --compression-format gzip")
    return stream
