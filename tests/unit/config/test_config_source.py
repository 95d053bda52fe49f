"""YAML files: lines for every key, and one sentence for every way a file can be bad."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fogctl.config import source
from fogctl.errors import BAD_INPUT, FogError


def refused(text: str | bytes, tmp_path: Path) -> FogError:
    file = tmp_path / "t.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(FogError) as caught:
        source.read(file)
    assert caught.value.exit_code == BAD_INPUT
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(file))
    return caught.value


def test_every_key_knows_its_line() -> None:
    document = source.parse("a: 1\nb:\n  - c: x\n    d:\n      e: 5ms\n  - [1,\n     2]\n", "t")
    assert document.data == {"a": 1, "b": [{"c": "x", "d": {"e": "5ms"}}, [1, 2]]}
    assert document.line(("a",)) == 1
    assert document.line(("b", 0, "d", "e")) == 5
    assert document.line(("b", 1, 1)) == 7
    assert document.line(("b", 0, "missing", "too")) == 3


def test_words_that_yaml_once_took_for_booleans_and_times_stay_words() -> None:
    data = source.parse(
        "a: no\nb: 1:30\nc: 2024-01-01\nd: 0x10\ne: on\nf: '5'\ng: true\nh: ~\ni: 1e3\n", "t"
    ).data
    assert data == {
        "a": "no", "b": "1:30", "c": "2024-01-01", "d": "0x10", "e": "on", "f": "5", "g": True, "h": None,
        "i": "1e3",
    }  # fmt: skip


def test_a_duplicate_key_names_both_lines(tmp_path: Path) -> None:
    error = refused("name: a\nkind: x\nname: b\n", tmp_path)
    assert error.line == 3
    assert "first on line 1" in str(error)


@pytest.mark.parametrize(
    ("text", "said", "line"),
    [
        ("", "is empty", None),
        ("# only a comment\n", "is empty", None),
        ("a:\n\t- b\n", "a tab is used", 2),
        ("a: 'x\n", "is not valid YAML", None),
        ("nodes:\n  - {name: pi[1-7], role: edge}\n", 'quote the node range: "pi[1-7]"', 2),
        ("a: 1\n---\nb: 1\n", "second YAML document", 2),
        ("a: !!python/object:os.system x\n", "tag", 1),
        ("a: " + "[" * 100_000, "nested too deeply", 1),
        ("a: *b\n", "no anchor", 1),
        ("a: &a [*a]\n", "no anchor", 1),
        ("{1: 2}: 3\n", "a key must be", 1),
        ("a: 1\n\x00\n", "not text", 2),
        (b"\x7fELF\x02\x01\x01\x00\x00", "not text", 1),
        (b"a: 1\nb: \xff\xfe\n", "not UTF-8", 2),
        ("a: 1\n".encode("utf-16"), "not UTF-8", 1),
        (b"x" * (source.MAX_BYTES + 1), "larger than 1 MiB", None),
    ],
)
def test_a_bad_file_gets_one_sentence(text: str | bytes, said: str, line: int | None, tmp_path: Path) -> None:
    error = refused(text, tmp_path)
    assert said in str(error)
    if line is not None:
        assert error.line == line


def test_nested_aliases_cannot_explode(tmp_path: Path) -> None:
    bomb = "a0: &a0 [1,1,1,1,1,1,1,1,1]\n" + "".join(
        f"a{level}: &a{level} [{','.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 12)
    )
    assert "more than 50,000 values" in str(refused(bomb, tmp_path))


def test_a_few_aliases_work() -> None:
    data = source.parse("a: &x {rtt: 1ms}\nb: *x\n", "t").data
    assert data["b"] == {"rtt": "1ms"}


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    file.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")
    assert source.read(file).data == {"a": 1, "b": 2}


def test_a_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(FogError, match=r"no such file .*fogctl init"):
        source.read(tmp_path / "nowhere.yaml")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(FogError, match="is a folder"):
        source.read(tmp_path)


def test_a_pipe_or_device_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FogError, match="not a regular file"):
        source.read(tmp_path / "pipe")


def test_a_path_that_cannot_exist_gets_a_sentence() -> None:
    for name in ("a\0b", "x" * 5000):
        with pytest.raises(FogError, match="cannot be read"):
            source.read(Path(name))
