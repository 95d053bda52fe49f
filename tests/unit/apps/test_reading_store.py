"""The database of UC1: rows written again over themselves, by several at once; SQLite and PostgreSQL."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fogapps.uc import store

POSTGRES = os.environ.get("FOGCTL_TEST_POSTGRES", "")
NAMES = ("key", "sensor", "micros", "number")


def batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = [list(column) for column in zip(*rows, strict=True)]
    types = (pa.string(), pa.string(), pa.int64(), pa.float64())
    return pa.RecordBatch.from_arrays(
        [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)], NAMES
    )


def written(where: str, *batches: pa.RecordBatch, table: str = "readings") -> list[tuple[str, str]]:
    made = store.write(where, table, iter(batches))
    return [
        row for part in made for row in zip(*(column.to_pylist() for column in part.columns), strict=True)
    ]


def rows_of(where: str, table: str = "readings") -> list[tuple[Any, ...]]:
    query = f"SELECT sensor, micros, value FROM {table} ORDER BY sensor, micros"
    if where.startswith("sqlite:"):
        with sqlite3.connect(where.removeprefix("sqlite:")) as connection:
            return connection.execute(query).fetchall()
    import psycopg

    with psycopg.connect(where) as server:
        return server.execute(query).fetchall()  # type: ignore[return-value]


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'store.sqlite'}"
    if not POSTGRES:
        pytest.skip("FOGCTL_TEST_POSTGRES names no server to test with")
    import psycopg

    with psycopg.connect(POSTGRES, autocommit=True) as server:
        server.execute("DROP TABLE IF EXISTS readings")
    return POSTGRES


def test_a_batch_that_is_written_again_changes_nothing(where: str) -> None:
    given = batch([("1", "a", 10, 1.5), ("2", "a", 11, 2.5), ("3", None, None, None), ("4", "b", 10, 3.5)])
    for _ in range(2):
        made = written(where, given)
        assert [key for key, _ in made] == ["1", "2", "3", "4"]
        assert [value for _, value in made] == [
            f'{{"stored": {x}}}' for x in ("true", "true", "false", "true")
        ]
    assert rows_of(where) == [("a", 10, 1.5), ("a", 11, 2.5), ("b", 10, 3.5)]


def test_the_last_value_of_a_sensor_and_time_holds(where: str) -> None:
    written(where, batch([("1", "a", 10, 1.0), ("2", "a", 10, 2.0)]), batch([("3", "a", 10, 3.0)]))
    assert rows_of(where) == [("a", 10, 3.0)]


def _writer(where: str, number: int) -> None:
    """Overlaps with the others' rows, in another order."""
    rows = [(str(n), f"s{n % 7}", n, float(n)) for n in range(number * 100, number * 100 + 300)]
    for _ in range(3):
        written(where, batch(rows[::-1] if number % 2 else rows))


def test_writers_do_not_lose_each_others_rows(where: str) -> None:
    context = multiprocessing.get_context("spawn" if where == POSTGRES else "fork")
    processes = [context.Process(target=_writer, args=(where, number)) for number in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert sorted(rows_of(where)) == sorted((f"s{n % 7}", n, float(n)) for n in range(500))


def test_a_writer_that_fails_halfway_leaves_nothing_of_its_batch(tmp_path: Path) -> None:
    where = f"sqlite:{tmp_path / 'store.sqlite'}"
    written(where, batch([("1", "a", 10, 1.0)]))
    database = store.Sqlite(where.removeprefix("sqlite:"), "readings")
    with pytest.raises(sqlite3.IntegrityError):
        database.upsert([("b", 1, 1.0), ("c", 1, None)])  # type: ignore[list-item]
    database.close()
    assert rows_of(where) == [("a", 10, 1.0)]


@pytest.mark.parametrize("table", ["", "a b", "x; DROP TABLE y", "X", "1a"])
def test_a_table_is_a_plain_name(tmp_path: Path, table: str) -> None:
    with pytest.raises(ValueError, match="the option table is a plain name"):
        written(f"sqlite:{tmp_path / 's'}", batch([("1", "a", 1, 1.0)]), table=table)
