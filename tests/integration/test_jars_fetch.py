"""`fogctl doctor --fetch`: jars ahead of time, from any Maven repository, then never again."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from fogctl.runtime import jars

Fogctl = Callable[..., subprocess.CompletedProcess[str]]
CLOSED = "http://127.0.0.1:9/maven2"


class Repository(SimpleHTTPRequestHandler):
    """A Maven repository in a folder that remembers what it was asked for."""

    asked: list[str] = []  # noqa: RUF012

    def send_head(self) -> Any:
        self.asked.append(self.path)
        return super().send_head()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Repository, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test's own that has every jar."""
    here = tmp_path / "cache" / "jars"
    here.mkdir(parents=True)
    for part in jars.PARTS:
        for path in jars.class_path(part):
            if not (here / path.name).exists():
                link_or_copy(path, here / path.name)
    monkeypatch.setenv("FOGCTL_CACHE_DIR", str(here.parent))
    return here


def link_or_copy(path: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(path, to)
    except OSError:
        to.write_bytes(path.read_bytes())


def test_only_what_is_missing_or_spoilt_is_fetched_and_only_the_pinned_file_is_taken(
    fogctl: Fogctl, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOGCTL_MAVEN_ROOT", CLOSED)
    done = fogctl("doctor", "--fetch", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["fetched"] == []

    spoilt, gone = jars.locked(jars.CONNECTOR)[0], jars.locked(jars.BROKER)[0]
    repository = tmp_path / "repository"
    for jar in (spoilt, gone):
        place = Path(*jar.organisation.split("."), jar.artifact, jar.revision)
        link_or_copy(cache / jar.file_name, repository / place / f"{jar.artifact}-{jar.revision}.jar")
        (cache / jar.file_name).unlink()
    (cache / spoilt.file_name).write_bytes(b"not a jar")

    refused = fogctl("doctor", "--fetch")
    assert refused.returncode == 1
    assert f"{CLOSED} does not answer" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
    lacking = next(row for row in json.loads(fogctl("doctor", "-o", "json").stdout) if row["about"] == "jars")
    assert (lacking["verdict"], lacking["fix"]) == ("lacking", "ahead of time: fogctl doctor --fetch")

    with served(repository) as root:
        monkeypatch.setenv("FOGCTL_MAVEN_ROOT", root)
        done = fogctl("doctor", "--fetch", "-o", "json")
        assert done.returncode == 0, done.stderr
        assert set(json.loads(done.stdout)["fetched"]) == {spoilt.coordinates, gone.coordinates}
        assert not jars.missing(jars.BROKER, cache)
        assert not jars.missing(jars.CONNECTOR, cache)
        Repository.asked.clear()
        assert "nothing to fetch" in fogctl("doctor", "--fetch").stdout
        assert Repository.asked == []

        (cache / gone.file_name).unlink()
        wrong = next(repository.rglob(f"{gone.artifact}-{gone.revision}.jar"))
        wrong.unlink()
        wrong.write_bytes(b"another file")
        refused = fogctl("doctor", "--fetch")
        assert refused.returncode == 1
        assert f"{gone.coordinates} is not the pinned file" in refused.stderr
        assert jars.missing(jars.BROKER, cache) == (gone,)
        assert [path.name for path in cache.iterdir() if not path.name.endswith(".jar")] == []
