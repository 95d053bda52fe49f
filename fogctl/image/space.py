"""Whether a build has room on the disk, before it begins and if it runs out after all."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from fogctl.config.units import SIZE
from fogctl.errors import FAILED, FogError

FIRST_BYTES = 2_500_000_000
"""What one processor takes in the cache: base, packages, the builder's layers, a layout being written."""
AGAIN_BYTES = 600_000_000
"""The same once base and packages are there."""
LAYOUT_BYTES = 500_000_000
"""One image in a finished layout."""


def require(needed: Mapping[Path, int]) -> None:
    """FogError if the file systems of these folders have less than so many bytes free, taken together."""
    asked: dict[int, int] = {}
    for folder, size in needed.items():
        place = next(each for each in (folder, *folder.absolute().parents) if each.exists())
        device = place.stat().st_dev
        asked[device] = asked.get(device, 0) + size
        free = shutil.disk_usage(place).free
        if free < asked[device]:
            raise FogError(
                f"the build needs about {SIZE.show(asked[device])}, its disk has {SIZE.show(free)} free",
                file=folder,
                hint="make room, or set FOGCTL_CACHE_DIR to a folder on another disk",
                exit_code=FAILED,
            )


@contextmanager
def told(cache: Path) -> Iterator[None]:
    """A disk that fills up in the body is an expected failure, said in one sentence."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise FogError(
            f"the disk is full: {error.filename or 'a file'} could not be written",
            file=cache,
            hint="make room and run it again: it goes on where it stopped",
            exit_code=FAILED,
        ) from error
