"""Readings into a database, SQLite or PostgreSQL: one row a sensor and time, written again without harm."""

from __future__ import annotations

import importlib
import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

Row = tuple[str, int, float]
"""Sensor, time in microseconds since 1970, value."""

DEFAULT = "sqlite:/var/tmp/fogctl-uc1.sqlite"
_PATIENCE_S = 60.0
_COLUMNS = "(sensor TEXT NOT NULL, micros BIGINT NOT NULL, value DOUBLE PRECISION NOT NULL"


def check(where: str) -> None:
    """ValueError unless `where` names a database that can be written from here."""
    if where.startswith("sqlite:"):
        file = Path(where.removeprefix("sqlite:"))
        if not file.is_absolute():
            raise ValueError(f'the option database needs an absolute path, not "{where}"')
        if not file.parent.is_dir():
            raise ValueError(f"the option database: there is no folder {file.parent}")
    elif where.startswith(("postgresql://", "postgres://")):
        _psycopg()
    else:
        raise ValueError(f'the option database is sqlite:/PATH or postgresql://HOST/NAME, not "{where}"')


def write(where: str, table: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Store batches of (key, sensor, micros, number); a batch of keys with what became of each."""
    import pyarrow as pa

    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,30}", table):
        raise ValueError(f'the option table is a plain name, not "{table}"')
    with closing(_database(where, table)) as database:
        for batch in batches:
            columns = [batch.column(place).to_pylist() for place in range(4)]
            rows = [
                (sensor, micros, number)
                for sensor, micros, number in zip(*columns[1:], strict=True)
                if sensor is not None and micros is not None and number is not None
            ]
            database.upsert(rows)
            stored = [json.dumps({"stored": sensor is not None}) for sensor in columns[1]]
            names = ("key", "value")
            yield pa.RecordBatch.from_arrays(
                [pa.array(values, pa.string()) for values in (columns[0], stored)], names
            )


def _database(where: str, table: str) -> Sqlite | Postgres:
    if where.startswith("sqlite:"):
        return Sqlite(where.removeprefix("sqlite:"), table)
    return Postgres(where, table)


class Sqlite:
    """A SQLite file that several processes of one machine may write."""

    def __init__(self, file: str, table: str) -> None:
        self._connection = sqlite3.connect(file, timeout=_PATIENCE_S, isolation_level=None)
        # Readers do not wait for writers; a crash of the machine may lose the last batches, which come again.
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=NORMAL")
        self._connection.execute(
            f"CREATE TABLE IF NOT EXISTS {table} {_COLUMNS}, PRIMARY KEY (sensor, micros)) WITHOUT ROWID"
        )
        self._upsert = (
            f"INSERT INTO {table} VALUES (?, ?, ?) "
            "ON CONFLICT (sensor, micros) DO UPDATE SET value = excluded.value"
        )

    def upsert(self, rows: Sequence[Row]) -> None:
        """All rows or none."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            self._connection.executemany(self._upsert, rows)
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def close(self) -> None:
        """Let it go."""
        self._connection.close()


class Postgres:
    """A PostgreSQL server; its password comes from the URL, PGPASSWORD or ~/.pgpass."""

    def __init__(self, url: str, table: str) -> None:
        self._connection: Any = _psycopg().connect(url)
        with self._connection.transaction():
            # Two that create a table at once would collide in spite of IF NOT EXISTS.
            self._connection.execute("SELECT pg_advisory_xact_lock(4602)")
            self._connection.execute(
                f"CREATE TABLE IF NOT EXISTS {table} {_COLUMNS}, PRIMARY KEY (sensor, micros))"
            )
        self._table = table

    def upsert(self, rows: Sequence[Row]) -> None:
        """All rows or none; of those with one sensor and time the last."""
        # In one order everywhere, so that writers of the same rows never wait for each other in a circle.
        unique = sorted({(sensor, micros): value for sensor, micros, value in rows}.items())
        with self._connection.transaction(), self._connection.cursor() as cursor:
            cursor.executemany(
                f"INSERT INTO {self._table} VALUES (%s, %s, %s) "
                "ON CONFLICT (sensor, micros) DO UPDATE SET value = excluded.value",
                [(sensor, micros, value) for (sensor, micros), value in unique],
            )

    def close(self) -> None:
        """Let it go."""
        self._connection.close()


def _psycopg() -> Any:
    try:
        return importlib.import_module("psycopg")
    except ImportError:
        raise ValueError("PostgreSQL needs the package psycopg: pip install 'psycopg[binary]'") from None
