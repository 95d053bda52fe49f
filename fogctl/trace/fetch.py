"""Fetches New York's public taxi records, a month a file; what breaks off goes on where it stopped."""

from __future__ import annotations

import http.client
import io
import os
import re
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pa_parquet

from fogctl.errors import FAILED, FogError
from fogctl.trace.readers import has_coordinates

ROOT = "https://d37ci6vzurychx.cloudfront.net/trip-data"
"""Where the Taxi and Limousine Commission publishes; FOGCTL_TLC_ROOT names another place."""
PATIENCE_S = 30.0
_BLOCK = 1 << 20
_FOOTER = 1 << 18
Progress = Callable[[int, int | None], None]
"""Told how many bytes are there, and of how many."""


class Taxis(StrEnum):
    """Which taxis."""

    yellow = "yellow"
    green = "green"


@dataclass(frozen=True, slots=True)
class Fetched:
    """A file that is there and whole."""

    file: str
    url: str
    bytes: int
    received: int
    """How many of them came over the network this time."""
    rides: int
    coordinates: bool
    """Whether rides have coordinates; without, a file can be looked at but not replayed."""


def url_of(month: str, taxis: Taxis, root: str | None = None) -> str:
    """Where a month's file is; FogError if that is no month."""
    if not re.fullmatch(r"20\d\d-(0[1-9]|1[0-2])", month) or month < "2009-01":
        raise FogError(f"{month!r} is no month from 2009-01 on", hint="write for example 2010-05")
    base = root or os.environ.get("FOGCTL_TLC_ROOT") or ROOT
    return f"{base.rstrip('/')}/{taxis.value}_tripdata_{month}.parquet"


def fetch(url: str, file: Path, *, zones: bool = False, on_progress: Progress | None = None) -> Fetched:
    """Have the file of a URL whole; one that is there already is left alone.

    A file whose rides have no coordinates is refused before it is fetched, unless `zones` are good enough.
    """
    if file.exists():
        rides, coordinates = _footer(file)
        return Fetched(str(file), url, file.stat().st_size, 0, rides, coordinates)
    if not zones:
        _refuse_zones(url)
    partial = file.with_name(f".{file.name}.partial")
    received = _receive(url, partial, on_progress)
    try:
        rides, coordinates = _footer(partial)
    except FogError:
        partial.unlink(missing_ok=True)
        raise FogError(f"what {url} delivers is no whole Parquet file", exit_code=FAILED) from None
    partial.replace(file)
    return Fetched(str(file), url, file.stat().st_size, received, rides, coordinates)


def _receive(url: str, partial: Path, on_progress: Progress | None) -> int:
    """Append what is missing to the partial file; answers how many bytes came."""
    try:
        there = partial.stat().st_size if partial.exists() else 0
        received = 0
        with _open(url, {"Range": f"bytes={there}-"} if there else {}) as answer:
            goes_on = answer.status == http.client.PARTIAL_CONTENT
            there = there if goes_on else 0
            length = answer.headers.get("Content-Length")
            total = None if length is None else there + int(length)
            with partial.open("ab" if goes_on else "wb") as output:
                while block := answer.read(_BLOCK):
                    output.write(block)
                    received += len(block)
                    if on_progress is not None:
                        on_progress(there + received, total)
        if total is not None and there + received < total:
            raise http.client.IncompleteRead(b"", total - there - received)
        return received
    except urllib.error.HTTPError as error:
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            return 0  # all of it was there already; the footer will tell
        raise _no_answer(url, error) from error
    except (http.client.HTTPException, TimeoutError, ConnectionError) as error:
        had = partial.stat().st_size if partial.exists() else 0
        raise FogError(
            f"{urlsplit(url).netloc} broke off after {had / 1e6:.1f} MB: {error or type(error).__name__}",
            hint="run it again: it goes on from there",
            exit_code=FAILED,
        ) from error
    except urllib.error.URLError as error:
        raise _no_answer(url, error) from error
    except OSError as error:
        raise FogError(f"cannot be written: {error.strerror}", file=partial, exit_code=FAILED) from error


def _refuse_zones(url: str) -> None:
    """Look at the columns first, where a server gives the end of a file alone."""
    try:
        with _open(url, {"Range": f"bytes=-{_FOOTER}"}) as answer:
            if answer.status != http.client.PARTIAL_CONTENT:
                return
            end = answer.read()
        names = pa_parquet.read_schema(io.BytesIO(b"PAR1" + end)).names
    except (OSError, http.client.HTTPException, pa.ArrowException):
        return  # whatever it is, fetching will say it better
    if not has_coordinates(names):
        raise FogError(
            f"{url} has taxi zones but no coordinates, so it cannot be replayed",
            hint="yellow taxis of 2009 and 2010 have them; --zones fetches it all the same",
        )


def _open(url: str, headers: dict[str, str]) -> Any:
    request = urllib.request.Request(url, headers={"User-Agent": "fogctl", **headers})
    if request.type not in ("http", "https"):
        raise FogError(f"{url} is not an http or https address", hint="see --from")
    return urllib.request.urlopen(request, timeout=PATIENCE_S)


def _no_answer(url: str, error: urllib.error.URLError) -> FogError:
    host = urlsplit(url).netloc
    if isinstance(error, urllib.error.HTTPError):
        name = url.rpartition("/")[2]
        return FogError(f"{host} has no {name} (HTTP {error.code})", exit_code=FAILED)
    reason = getattr(error.reason, "strerror", None) or error.reason
    return FogError(
        f"{host} cannot be reached: {reason}",
        hint="this needs the internet; without it: fogctl trace make",
        exit_code=FAILED,
    )


def _footer(file: Path) -> tuple[int, bool]:
    """How many rides a Parquet file has, and whether with coordinates; FogError if it is not whole."""
    try:
        with pa_parquet.ParquetFile(file) as found:
            return found.metadata.num_rows, has_coordinates(found.schema_arrow.names)
    except (OSError, pa.ArrowException) as error:
        raise FogError(
            "is there, but is no whole Parquet file", file=file, hint="remove it and fetch again"
        ) from error
