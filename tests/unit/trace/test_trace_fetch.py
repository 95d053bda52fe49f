"""`trace fetch` against a server of our own: whole, resumed, refused; never half a file under its name."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from typer.testing import CliRunner

from fogctl.errors import FogError
from fogctl.trace import MakeOptions, clean, make, read
from fogctl.trace.fetch import Taxis, fetch, url_of

NAME = "yellow_tripdata_2010-05.parquet"


class Server(ThreadingHTTPServer):
    """Serves files from memory, with ranges; breaks off after `limit` bytes of a body if that is set."""

    files: dict[str, bytes]
    limit: int | None = None
    ranges = True
    asked: list[tuple[str, str | None]]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.asked.append((self.path, wanted))
        body = self.server.files.get(self.path)
        if body is None:
            self.send_error(403)
            return
        start = 0
        if wanted and self.server.ranges:
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start = int(first) if first else max(0, len(body) - int(last))
            if start >= len(body):
                self.send_error(416)
                return
            self.send_response(206)
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        self.wfile.write(body[start:][: self.server.limit])

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(("127.0.0.1", 0), Handler)
    made.files, made.asked = {}, []
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture
def month(server: Server, tmp_path: Path) -> bytes:
    """A month as TLC published 2010: its own column names, times as text, no ride numbers."""
    rides = make(MakeOptions(days=0.05, rides_per_day=60_000)).table
    times = {
        theirs: rides[ours].cast(pa.timestamp("s"), safe=False).cast(pa.string())
        for theirs, ours in (("pickup_datetime", "pickup_time"), ("dropoff_datetime", "dropoff_time"))
    }
    places = {
        f"{end}_{axis}itude": rides[f"{end}_{axis[:3]}"]
        for end in ("pickup", "dropoff")
        for axis in ("long", "lat")
    }
    table = pa.table(
        {"vendor_id": ["VTS"] * len(rides), **times, "passenger_count": rides["passengers"], **places}
    )
    again = pa.concat_tables([table, table.slice(0, 7)])
    pa_parquet.write_table(again, tmp_path / "served.parquet")
    server.files[f"/{NAME}"] = (tmp_path / "served.parquet").read_bytes()
    return server.files[f"/{NAME}"]


def root(server: Server) -> str:
    return f"http://127.0.0.1:{server.server_port}"


def test_a_month_is_fetched_whole_and_only_once(server: Server, month: bytes, tmp_path: Path) -> None:
    url = url_of("2010-05", Taxis.yellow, root(server))
    file = tmp_path / NAME
    done = fetch(url, file)
    assert file.read_bytes() == month
    assert (done.bytes, done.received, done.coordinates) == (len(month), len(month), True)
    server.asked.clear()
    assert fetch(url, file).received == 0
    assert server.asked == []
    cleaned = clean(read(file))
    assert cleaned.removed["duplicate"] >= 7
    assert len(cleaned.rides) + sum(cleaned.removed.values()) == done.rides
    assert np.all(np.diff(cleaned.rides.pickup_s()) >= 0)


def test_what_broke_off_goes_on_where_it_stopped(server: Server, month: bytes, tmp_path: Path) -> None:
    url, file = url_of("2010-05", Taxis.yellow, root(server)), tmp_path / NAME
    server.limit = len(month) // 3
    for _ in range(2):
        with pytest.raises(FogError, match="it goes on from there"):
            fetch(url, file)
        assert not file.exists()
    server.limit = None
    server.asked.clear()
    done = fetch(url, file)
    assert file.read_bytes() == month
    assert done.received == len(month) - 2 * (len(month) // 3)
    assert server.asked[-1] == (f"/{NAME}", f"bytes={2 * (len(month) // 3)}-")
    assert [path.name for path in tmp_path.glob(".*.partial")] == []


def test_a_server_without_ranges_starts_over(server: Server, month: bytes, tmp_path: Path) -> None:
    url, file = url_of("2010-05", Taxis.yellow, root(server)), tmp_path / NAME
    (tmp_path / f".{NAME}.partial").write_bytes(b"old")
    server.ranges = False
    fetch(url, file)
    assert file.read_bytes() == month


def test_a_partial_file_that_lacked_only_its_name_is_taken(
    server: Server, month: bytes, tmp_path: Path
) -> None:
    url, file = url_of("2010-05", Taxis.yellow, root(server)), tmp_path / NAME
    (tmp_path / f".{NAME}.partial").write_bytes(month)
    assert fetch(url, file).received == 0
    assert file.read_bytes() == month


def test_what_is_no_parquet_file_is_not_kept(server: Server, tmp_path: Path) -> None:
    server.files[f"/{NAME}"] = b"<html>sorry</html>"
    with pytest.raises(FogError, match="no whole Parquet file"):
        fetch(url_of("2010-05", Taxis.yellow, root(server)), tmp_path / NAME)
    assert list(tmp_path.iterdir()) == []


def test_zones_are_refused_before_they_are_fetched_unless_asked_for(server: Server, tmp_path: Path) -> None:
    table = pa.table(
        {"tpep_pickup_datetime": ["2013-05-01 00:00:00"] * 50_000, "PULocationID": range(50_000)}
    )
    pa_parquet.write_table(table, tmp_path / "served")
    server.files["/green_tripdata_2013-09.parquet"] = (tmp_path / "served").read_bytes()
    url, file = url_of("2013-09", Taxis.green, root(server)), tmp_path / "zones.parquet"
    with pytest.raises(FogError, match="taxi zones but no coordinates"):
        fetch(url, file)
    assert not file.exists()
    assert not fetch(url, file, zones=True).coordinates
    with pytest.raises(FogError, match="only 2009 and 2010 have them"):
        read(file)


@pytest.mark.parametrize("month", ["2010-13", "2008-12", "May 2010", "2010-5", ""])
def test_what_is_no_month_is_refused(month: str) -> None:
    with pytest.raises(FogError, match="no month from 2009-01 on"):
        url_of(month, Taxis.yellow)


def test_no_network_and_no_such_month_are_one_sentence(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fogctl.cli.trace import app

    monkeypatch.chdir(tmp_path)
    closed = CliRunner().invoke(app, ["fetch", "2010-05", "--from", "http://127.0.0.1:9"])
    assert str(closed.exception) == (
        "127.0.0.1:9 cannot be reached: Connection refused "
        "(this needs the internet; without it: fogctl trace make)"
    )
    monkeypatch.setenv("FOGCTL_TLC_ROOT", root(server))
    missing = CliRunner().invoke(app, ["fetch", "2031-05"])
    assert "has no yellow_tripdata_2031-05.parquet (HTTP 403)" in str(missing.exception)
    assert list(tmp_path.iterdir()) == []
