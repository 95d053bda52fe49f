"""Image layouts made by hand, right and wrong: what `fogctl image check` finds in them."""

from __future__ import annotations

import gzip
import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fogctl.cli.main import app
from fogctl.errors import FogError
from fogctl.image.check import LABELS, Checked, check
from fogctl.image.elf import architecture
from fogctl.image.layout import Layout
from tests.unit.image.layouts import GZIP, MANIFEST, Made, binary, layer


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path / "layout")


def found(folder: Path) -> list[Checked]:
    return check(Layout(folder))


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_two_architectures_that_hold_what_they_claim(made: Made, nested: bool, packed: bool) -> None:
    folder = made.index(
        *(
            made.image(m, {"usr/bin/java": binary(m), "etc/motd": b"hi"}, packed=packed)
            for m in ("amd64", "arm64")
        ),
        nested=nested,
    )
    first, second = found(folder)
    assert (first.architecture, second.architecture) == ("amd64", "arm64")
    assert (dict(first.binaries), dict(second.binaries)) == ({"amd64": 1}, {"arm64": 1})
    assert (first.files, first.problems, second.problems) == (2, (), ())


def test_a_binary_of_another_processor_is_named(made: Made) -> None:
    files = {"usr/bin/java": binary("arm64"), "opt/venv/lib/fast.so": binary("amd64")}
    (only,) = found(made.index(made.image("arm64", files)))
    assert only.problems == ("opt/venv/lib/fast.so is for amd64",)


def jar(*machines: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr("org/Store.class", b"\xca\xfe\xba\xbe")
        for machine in machines:
            made.writestr(f"linux-{machine}/libstore.so", binary(machine))
    return buffer.getvalue()


def test_a_jar_with_libraries_for_other_processors_only_is_named(made: Made) -> None:
    files = {
        "bin/sh": binary("arm64"),
        "jars/both.jar": jar("amd64", "arm64"),
        "jars/none.jar": jar(),
        "jars/store.jar": jar("amd64", "arm"),
        "jars/odd.jar": b"this is no jar",
    }
    (only,) = found(made.index(made.image("arm64", files)))
    assert only.problems == ("the libraries in jars/store.jar are for amd64 and arm only",)
    assert only.files == 5


def test_of_many_wrong_binaries_a_few_are_named_and_the_rest_counted(made: Made) -> None:
    files = {f"lib/{number}.so": binary("arm") for number in range(9)}
    (only,) = found(made.index(made.image("arm64", files)))
    assert only.problems[0] == "lib/0.so is for arm"
    assert only.problems[-1] == "4 more binaries are for another processor"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"says": "amd64"}, "the index says amd64, its configuration arm64"),
        ({"user": ""}, "it runs as root: set USER"),
        ({"user": "0:0"}, "it runs as root: set USER"),
        ({"labels": LABELS[1:]}, f"it has no label {LABELS[0]}"),
    ],
)
def test_what_else_is_wrong_with_an_image(made: Made, change: dict[str, Any], problem: str) -> None:
    (only,) = found(made.index(made.image("arm64", {"bin/sh": binary("arm64")}, **change)))
    assert only.problems == (problem,)


def test_an_image_without_binaries_proves_nothing(made: Made) -> None:
    (only,) = found(made.index(made.image("arm64", {"app.py": b"print('hello, world of boards')"})))
    assert only.problems == ("it holds no binary at all, so nothing proves its architecture",)


def test_a_layer_that_unpacks_to_something_else_is_found(made: Made) -> None:
    entry = made.image("arm64", {"bin/sh": binary("arm64")})
    manifest = json.loads((made.folder / "blobs/sha256" / entry["digest"][7:]).read_text())
    manifest["layers"] = [made.blob(gzip.compress(layer({"bin/ls": binary("arm64")}), mtime=0), GZIP)]
    (only,) = found(made.index(made.json(manifest, MANIFEST)))
    assert only.problems == ("layer 1 does not unpack to what the configuration says",)


def flipped(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-5])


@pytest.mark.parametrize("harm", [flipped, cut, os.unlink])
@pytest.mark.parametrize("which", ["manifest", "config", "layer"])
def test_no_blob_can_change_unnoticed(made: Made, harm: Callable[[Path], object], which: str) -> None:
    entry = made.image("arm64", {"bin/sh": binary("arm64") * 100})
    folder = made.index(entry)
    blobs = folder / "blobs/sha256"
    manifest = json.loads((blobs / entry["digest"][7:]).read_text())
    named = {"manifest": entry, "config": manifest["config"], "layer": manifest["layers"][0]}[which]
    harm(blobs / named["digest"][7:])
    try:
        noticed = [problem for image in found(folder) for problem in image.problems]
    except FogError as error:
        noticed = [str(error)]
    assert any(
        "what its name says" in text or "is missing" in text or "is no whole layer" in text
        for text in noticed
    )


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ({"digest": "x"}, "has a descriptor without digest, size or mediaType"),
        ({"digest": "md5:1", "size": 1, "mediaType": MANIFEST}, "is not a sha256 digest"),
        ({"digest": "sha256:1", "size": 1, "mediaType": "text/plain"}, "neither an image nor an index"),
    ],
)
def test_an_index_with_a_bad_entry_is_refused(made: Made, entry: dict[str, Any], sentence: str) -> None:
    with pytest.raises(FogError, match=sentence):
        found(made.index(entry))


def test_an_index_that_is_no_json_is_refused(made: Made) -> None:
    (made.folder / "index.json").write_text("{")
    with pytest.raises(FogError, match="cannot be read as JSON"):
        found(made.folder)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[]", "is not a JSON object"),
        ('{"manifests": 5}', "its manifests is no list"),
        ('{"manifests": [3]}', "has a descriptor without"),
    ],
)
def test_an_index_of_another_shape_is_refused(made: Made, text: str, sentence: str) -> None:
    (made.folder / "index.json").write_text(text)
    with pytest.raises(FogError, match=sentence):
        found(made.folder)


@pytest.mark.parametrize(
    "config",
    [{"rootfs": 1}, {"rootfs": {"diff_ids": 1}}, {"config": "x"}, {"config": {"Labels": ["x"]}}],
)
def test_a_configuration_of_another_shape_is_refused(made: Made, config: dict[str, Any]) -> None:
    manifest = {"config": made.json(config, "application/vnd.oci.image.config.v1+json"), "layers": []}
    with pytest.raises(FogError, match=r"is no (list|mapping)"):
        found(made.index(made.json(manifest, MANIFEST)))
    empty = {"config": made.json({"rootfs": None, "config": None}, "x"), "layers": None}
    (only,) = found(made.index(made.json(empty, MANIFEST)))
    assert "it runs as root: set USER" in only.problems


def test_a_layer_with_rotten_bytes_is_refused_in_a_sentence(made: Made) -> None:
    entry = made.image(
        "arm64", {"bin/sh": binary("arm64"), "numbers": " ".join(map(str, range(100_000))).encode()}
    )
    folder = made.index(entry)
    (layer_file,) = (file for file in (folder / "blobs/sha256").iterdir() if file.stat().st_size > 50_000)
    data = bytearray(layer_file.read_bytes())
    data[len(data) // 2 :] = b"\xff" * len(data[len(data) // 2 :])  # in the middle of a file that is skipped
    layer_file.write_bytes(data)
    with pytest.raises(FogError, match="is no whole layer"):
        found(folder)


def test_what_is_not_there_or_an_archive_is_told_apart_from_a_folder(tmp_path: Path) -> None:
    with pytest.raises(FogError, match="no such folder"):
        found(tmp_path / "nowhere")
    (tmp_path / "stage.tar").write_bytes(b"")
    with pytest.raises(FogError, match=r"tar -xf .*stage\.tar"):
        found(tmp_path / "stage.tar")


def test_a_folder_that_is_no_layout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FogError, match="is no OCI image layout"):
        found(tmp_path)


def test_this_machine_s_own_programs_are_recognised() -> None:
    with Path("/proc/self/exe").open("rb") as file:
        assert architecture(file.read(20)) == {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    assert architecture(b"#!/bin/sh\necho this is a script\n") is None


def test_the_command_tells_what_is_wrong_and_exits_with_3(made: Made) -> None:
    good = made.image("arm64", {"bin/sh": binary("arm64")})
    bad = made.image("amd64", {"bin/sh": binary("arm64")})
    done = CliRunner().invoke(app, ["image", "check", str(made.index(good)), "-o", "json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)[0]["binaries"] == {"arm64": 1}
    done = CliRunner().invoke(app, ["image", "check", str(made.index(good, bad))])
    assert done.exit_code == 3
    assert "bin/sh is for arm64" in done.stdout.replace("\n", " ")
