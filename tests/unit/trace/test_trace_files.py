from __future__ import annotations

import gzip
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest

from fogctl.errors import FogError
from fogctl.trace import MakeOptions, clean, make, read, write

RIDES = make(MakeOptions(days=0.05, rides_per_day=10_000, dirt=0.1))
DATA = Path(os.environ.get("FOGCTL_TEST_DATA", Path(__file__).parents[3] / "../shared/data"))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_what_is_written_is_read_again(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"rides.{ending}"
    write(RIDES, path)
    assert read(path).table.equals(RIDES.table)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_an_app_receives_the_columns_of_the_csv_file(tmp_path: Path) -> None:
    path = tmp_path / "rides.csv"
    write(RIDES, path)
    from_file = path.read_text().splitlines()[1:]
    sent = [value.decode() for value in RIDES.values()]
    assert [line.replace('"', "") for line in from_file] == sent


TLC_2013 = """\
medallion,hack_license,vendor_id,pickup_datetime,dropoff_datetime,passenger_count,pickup_longitude,\
pickup_latitude,dropoff_longitude,dropoff_latitude
89D2,BA96,CMT,2013-01-01 15:11:48,2013-01-01 15:18:10,4,-73.978165,40.757977,-73.989838,40.751171
0BD7,9FD8,CMT,2013-01-06 00:18:35,2013-01-06 00:22:54,1,-74.006683,40.731781,-73.994499,40.75066
89D2,51EE,CMT,not a time,2013-01-05 18:54:23,x,-74.004707,,-74.009834,40.726002
"""


def test_a_tlc_file_is_read_and_its_bad_cells_are_cleaned_away(tmp_path: Path) -> None:
    path = tmp_path / "yellow.csv"
    path.write_text(TLC_2013)
    rides = read(path)
    assert rides.table["passengers"].to_pylist() == [4, 1, None]
    assert rides.table["taxi_id"].to_pylist() == [0, 1, 0]
    cleaned = clean(rides)
    assert len(cleaned.rides) == 2
    assert cleaned.removed["no pick-up time"] == 1


def test_a_tlc_parquet_file_with_zones_says_that_it_has_no_coordinates(tmp_path: Path) -> None:
    path = tmp_path / "yellow.parquet"
    pa_parquet.write_table(pa.table({"tpep_pickup_datetime": [0], "PULocationID": [1]}), path)
    with pytest.raises(FogError, match=r"yellow.parquet: has taxi zones but no coordinates"):
        read(path)


def test_the_2013_ride_format_keeps_starts_only(tmp_path: Path) -> None:
    lines = [
        "6,START,2013-01-01 00:00:00,1970-01-01 00:00:00,-73.866135,40.771091,-73.961334,40.764912,6,1,2",
        "6,END,2013-01-01 00:10:00,2013-01-01 00:00:00,-73.866135,40.771091,-73.961334,40.764912,6,1,2",
    ]
    path = tmp_path / "rides.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    rides = read(path)
    assert rides.table["ride_id"].to_pylist() == [6]
    assert len(clean(rides).rides) == 1


@pytest.mark.skipif(not (DATA / "nycTaxiRides.gz").is_file(), reason=f"no recorded taxi rides in {DATA}")
def test_recorded_rides_are_read_and_few_are_faulty() -> None:
    rides = read(DATA / "nycTaxiRides.gz")
    cleaned = clean(rides)
    assert len(rides) > 50_000
    assert len(cleaned.rides) > 0.95 * len(rides)


def _truncated_gzip() -> bytes:
    return gzip.compress(b"6,START,2013-01-01 00:00:00\n" * 1000, mtime=0)[:60]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b"a,b,c\n1,2,3\n", "no pick-up time among its columns"),
        (b"\xff\xfe\x00", "cannot be read as a trace"),
        (_truncated_gzip(), "ends too early"),
        (b"PAR1 cut off", "cannot be read as a trace"),
        (b"a,a\n1,2\n", "stands twice"),
    ],
    ids=["empty", "other columns", "binary", "cut gzip", "cut parquet", "column twice"],
)
def test_files_that_are_no_traces_get_one_sentence(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(content)
    with pytest.raises(FogError) as caught:
        read(path)
    assert sentence in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FogError, match="No such file"):
        read(tmp_path / "nowhere.csv")


def test_an_unknown_ending_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(FogError, match=r"\.csv or \.parquet"):
        write(RIDES, tmp_path / "rides.xlsx")
    assert not list(tmp_path.iterdir())
