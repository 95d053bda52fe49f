"""The archive's rules, with a small class path; that real Spark processes map it is tested where they run."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import pytest

from fogctl.java import Java, find_java
from fogctl.runtime import class_archive


@pytest.fixture(scope="module")
def java() -> Java:
    found = find_java()
    if found is None:
        pytest.skip("no Java on this machine")
    return found


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A class list of the runtime's own classes: quick to archive."""
    import gzip

    names = tmp_path / "small.gz"
    names.write_bytes(gzip.compress(b"java/lang/Object\njava/lang/String\njava/util/HashMap\n"))
    monkeypatch.setattr(class_archive, "CLASSES", names)
    return tmp_path / "cache"


def starts(java: Java, archive: Path) -> subprocess.CompletedProcess[str]:
    argv = [str(java.executable), *class_archive.options(archive).split(), "-Xshare:auto", "-version"]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def test_it_is_made_once_also_by_several_at_a_time_and_a_jvm_takes_it(java: Java, small: Path) -> None:
    said: list[str] = []
    found: list[Path | None] = []

    def ensure() -> None:
        found.append(class_archive.ensure(java, "/no/such.jar", said.append, small))

    threads = [threading.Thread(target=ensure) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert found[0] is not None
    assert len(said) == 1
    assert class_archive.find(java, "/no/such.jar", small) == found[0]
    assert class_archive.find(java, "/another.jar", small) is None
    assert starts(java, found[0]).returncode == 0
    assert [path.name for path in small.iterdir() if path.suffix not in {".jsa", ""}] == []


def test_a_missing_or_broken_archive_keeps_no_jvm_from_starting(java: Java, tmp_path: Path) -> None:
    assert starts(java, tmp_path / "none.jsa").returncode == 0
    (tmp_path / "broken.jsa").write_bytes(b"no archive" * 1000)
    assert starts(java, tmp_path / "broken.jsa").returncode == 0


def test_what_cannot_be_made_is_tried_once(java: Java, small: Path, tmp_path: Path) -> None:
    script = tmp_path / "java"
    script.write_text("#!/bin/sh\necho tried >> " + str(tmp_path / "tries") + "\nexit 1\n")
    script.chmod(0o755)
    broken = Java(script, 17, "test")
    for _ in range(2):
        assert class_archive.ensure(broken, "/no/such.jar", lambda _: None, small) is None
    assert (tmp_path / "tries").read_text().count("tried") == 1


def test_two_installations_keep_theirs_and_older_ones_go(java: Java, small: Path) -> None:
    made = [class_archive.ensure(java, f"/{name}.jar", lambda _: None, small) for name in "abc"]
    assert [path is not None and path.is_file() for path in made] == [False, True, True]
