"""What goes into an image and is told of it: thinned jars, inventory, bill of materials, archive."""

from __future__ import annotations

import json
import re
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from fogctl.cli.main import app
from fogctl.errors import FAILED, REFUSED, FogError
from fogctl.image import contents, inventory, sbom, thin
from fogctl.image.inventory import Item
from fogctl.image.recipe import Recipe
from fogctl.runtime import jars
from tests.unit.image.layouts import Made, binary

STATUS = """Package: bash
Status: install ok installed
Architecture: amd64
Version: 5.2.15-2+b7
Maintainer: Matthias Klose <doko@debian.org>
Description: GNU Bourne Again SHell
 A shell.

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1

Package: tzdata
Status: install ok installed
Architecture: all
Version: 2025b-0+deb12u2
"""


def test_patterns_leave_out_hive_but_not_what_orc_needs_of_it() -> None:
    patterns = Recipe.load().left_out
    gone = (
        "pyspark/jars/hive-exec-2.3.10-core.jar",
        "pyspark/jars/hive-serde-2.3.10.jar",
        "numpy/tests/x.py",
    )
    kept = ("pyspark/jars/hive-storage-api-2.8.1.jar", "pyspark/jars/spark-kubernetes_2.13-4.3.0.jar")
    assert all(thin.left_out(name, patterns) for name in gone)
    assert not any(thin.left_out(name, patterns) for name in (*kept, "pyspark/sql/session.py"))


def test_a_jar_keeps_its_classes_and_this_processors_libraries(tmp_path: Path) -> None:
    jar = tmp_path / "rocksdbjni-9.jar"
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("org/rocksdb/RocksDB.class", b"\xca\xfe\xba\xbe" + bytes(40))
        made.writestr("librocksdbjni-linux64.so", binary("amd64"))
        made.writestr("librocksdbjni-linux-aarch64.so", binary("arm64"))
        made.writestr("librocksdbjni-linux64-musl.so", binary("amd64"))
        made.writestr("librocksdbjni-osx-arm64.jnilib", b"\xcf\xfa\xed\xfe" + bytes(60))
        made.writestr("librocksdbjni-win64.dll", b"MZ" + bytes(60))
    assert thin.thin_jar(jar, "arm64") > 0
    with zipfile.ZipFile(jar) as thinned:
        assert thinned.namelist() == ["org/rocksdb/RocksDB.class", "librocksdbjni-linux-aarch64.so"]
        assert thinned.testzip() is None
    assert thin.thin_jar(jar, "arm64") == 0


def test_files_are_readable_by_everybody_and_only_programs_can_be_run(tmp_path: Path) -> None:
    source = tmp_path / "from"
    (source / "bin").mkdir(parents=True)
    for name, mode in (("bin/run", 0o700), ("data", 0o600), ("x.pyx", 0o644)):
        (source / name).write_text(name)
        (source / name).chmod(mode)
    assert thin.copied(thin.below(source, "p"), tmp_path / "to", ("*.pyx",)) == 2
    modes = {
        file.name: file.stat().st_mode & 0o777 for file in (tmp_path / "to").rglob("*") if file.is_file()
    }
    assert modes == {"run": 0o755, "data": 0o644}


def test_only_installed_debian_packages_are_told() -> None:
    found = inventory.debian(STATUS)
    assert [(item.name, item.version) for item in found] == [
        ("bash", "5.2.15-2+b7"),
        ("tzdata", "2025b-0+deb12u2"),
    ]
    assert found[0].url == "pkg:deb/debian/bash@5.2.15-2%2Bb7?arch=amd64"
    assert found[0].supplier == "Matthias Klose <doko@debian.org>"


def test_jars_are_known_by_what_they_say_else_by_their_names(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "guava-33.6.0-jre.jar", "w") as made:
        made.writestr("META-INF/maven/com.google.guava/guava/pom.properties", "version=33.6.0-jre")
        made.writestr("META-INF/maven/org.other/shaded/pom.properties", "version=1")
    with zipfile.ZipFile(tmp_path / "oro-2.0.8.jar", "w") as made:
        made.writestr("x.class", b"")
    guava, oro = inventory.spark_jars(tmp_path, "/in")
    assert (guava.name, guava.url) == (
        "com.google.guava:guava",
        "pkg:maven/com.google.guava/guava@33.6.0-jre",
    )
    assert (oro.name, oro.version, oro.file) == ("oro", "2.0.8", "/in/oro-2.0.8.jar")
    assert re.fullmatch("[0-9a-f]{64}", guava.sha256 or "")


def faults(document: dict[str, Any]) -> list[str]:
    """What SPDX 2.3 (clauses 6, 7 and 11) asks for and is not there."""
    found = [
        key for key in ("name", "documentNamespace", "creationInfo", "packages") if not document.get(key)
    ]
    fixed = {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT"}
    found += [key for key, value in fixed.items() if document.get(key) != value]
    created = document["creationInfo"]
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", created["created"]):
        found.append("created")
    if not all(re.match(r"(Tool|Person|Organization): \S", each) for each in created["creators"]):
        found.append("creators")
    if "#" in document["documentNamespace"] or ":" not in document["documentNamespace"]:
        found.append("documentNamespace")
    identities = [package["SPDXID"] for package in document["packages"]]
    found += [each for each in identities if not re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", each)]
    if len(set(identities)) != len(identities):
        found.append("two packages of one SPDXID")
    for package in document["packages"]:
        found += [key for key in ("name", "downloadLocation") if not package.get(key)]
        if package.get("filesAnalyzed") is not False:  # else a verification code is needed
            found.append(f"{package['name']}: filesAnalyzed")
        sums = package.get("checksums", [])
        found += [str(each) for each in sums if not re.fullmatch("[0-9a-f]{64}", each["checksumValue"])]
    known = {*identities, "SPDXRef-DOCUMENT"}
    for relation in document["relationships"]:
        ends = {relation["spdxElementId"], relation["relatedSpdxElement"]}
        found += sorted(ends - known)
    if not any(relation["relationshipType"] == "DESCRIBES" for relation in document["relationships"]):
        found.append("DESCRIBES")
    return found


def made_of(*items: Item) -> dict[str, Any]:
    return sbom.document("fogctl-stage", "1.0", "arm64", items, 1_700_000_000, "fogctl-1.0")


def test_the_bill_of_materials_has_what_spdx_asks_for() -> None:
    items = [
        *inventory.debian(STATUS),
        *inventory.pinned(jars.locked(jars.BROKER), "/opt/fogctl/kafka"),
        *inventory.pinned(jars.locked(jars.CONNECTOR), "/opt/fogctl/jars"),
    ]
    document = made_of(*items)
    assert faults(document) == []
    assert len(document["packages"]) == len(items) + 1
    assert document["packages"][1]["supplier"] == "Organization: Matthias Klose (doko@debian.org)"
    kafka = [each for each in document["packages"] if each["name"] == "org.apache.kafka:kafka-clients"]
    assert {each["versionInfo"] for each in kafka} == {"3.9.1", "4.3.1"}
    assert json.loads(sbom.text(document)) == document


@pytest.mark.parametrize("key", ["spdxVersion", "documentNamespace", "packages", "name"])
def test_a_bill_without_a_required_field_is_noticed(key: str) -> None:
    document = made_of(*inventory.debian(STATUS))
    document[key] = type(document[key])()
    assert key in faults({**document, "documentNamespace": document["documentNamespace"] or "#"})


@given(st.lists(st.tuples(st.text(min_size=1), st.text(min_size=1)), max_size=8))
def test_any_names_and_versions_make_a_valid_bill(pairs: list[tuple[str, str]]) -> None:
    items = [Item(name, version, f"pkg:generic/{name}@{version}") for name, version in pairs]
    assert faults(made_of(*items)) == []


def test_the_same_contents_give_the_same_bill_and_others_another() -> None:
    items = inventory.debian(STATUS)
    assert made_of(*items) == made_of(*items)
    assert made_of(*items)["documentNamespace"] != made_of(items[0])["documentNamespace"]


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    made = Made(tmp_path / "layout")
    return made.index(*(made.image(arch, {"bin/sh": binary(arch)}) for arch in ("amd64", "arm64")))


def test_an_archive_holds_one_image_under_the_name_that_pods_use(layout: Path, tmp_path: Path) -> None:
    to = tmp_path / "stage.tar"
    asked = ["image", "save", str(layout), "--arch", "arm64", "--to", str(to), "-o", "json"]
    ran = CliRunner().invoke(app, asked)
    assert ran.exit_code == 0, ran.output
    unpacked = tmp_path / "unpacked"
    with tarfile.open(to) as archive:
        archive.extractall(unpacked, filter="data")
    (entry,) = json.loads((unpacked / "index.json").read_text())["manifests"]
    assert entry["platform"]["architecture"] == "arm64"
    assert entry["annotations"]["io.containerd.image.name"].startswith("localhost/fogctl-stage:")
    assert len(list((unpacked / "blobs/sha256").iterdir())) == 3
    checked = CliRunner().invoke(app, ["image", "check", str(unpacked), "-o", "json"])
    assert checked.exit_code == 0, checked.output
    assert json.loads(ran.stdout)["bytes"] == to.stat().st_size


def test_an_image_that_the_layout_does_not_hold_cannot_be_saved(layout: Path, tmp_path: Path) -> None:
    to = tmp_path / "stage.tar"
    for more, says in ((["--arch", "riscv64"], "holds no image for riscv64"), ([], "holds several images")):
        ran = CliRunner().invoke(app, ["image", "save", str(layout), *more, "--to", str(to)])
        assert ran.exit_code != 0
        assert says in str(ran.exception) + ran.output
    assert not to.exists()


def test_what_cannot_be_written_is_a_failure_and_no_bad_input(layout: Path, tmp_path: Path) -> None:
    to = tmp_path / "nowhere" / "stage.tar"
    ran = CliRunner().invoke(app, ["image", "save", str(layout), "--arch", "amd64", "--to", str(to)])
    assert isinstance(ran.exception, FogError)
    assert ran.exception.exit_code == FAILED
    assert "cannot be written" in str(ran.exception)


def test_a_layout_without_images_has_none_to_save(tmp_path: Path) -> None:
    empty = Made(tmp_path / "empty").index()
    ran = CliRunner().invoke(app, ["image", "save", str(empty), "--to", str(tmp_path / "stage.tar")])
    assert str(ran.exception).endswith("empty: holds no image")


@pytest.mark.parametrize("harm", [lambda data: data[:-1], lambda data: data[:-1] + bytes([data[-1] ^ 1])])
def test_a_broken_layer_leaves_no_archive(
    harm: Callable[[bytes], bytes], layout: Path, tmp_path: Path
) -> None:
    for blob in (layout / "blobs/sha256").iterdir():
        if blob.read_bytes()[:2] == b"\x1f\x8b":
            blob.write_bytes(harm(blob.read_bytes()))
    to = tmp_path / "stage.tar"
    ran = CliRunner().invoke(app, ["image", "save", str(layout), "--arch", "amd64", "--to", str(to)])
    assert isinstance(ran.exception, FogError)
    assert ran.exception.exit_code == REFUSED
    assert [file.name for file in tmp_path.iterdir()] == ["layout"]


def test_the_same_code_is_the_same_bytecode_whoever_compiles_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    package = Path(contents.__file__).parents[1] / "config"
    made = []
    for seed in ("1", "2"):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        folder = tmp_path / seed
        thin.copied(thin.below(package, "config"), folder, ("*/__pycache__/*",))
        contents._compile(folder, version, "/opt/fogctl/code")
        made.append({name: file.read_bytes() for file, name in thin.below(folder) if name.endswith(".pyc")})
    assert made[0] == made[1]
    assert len(made[0]) == len(list(package.rglob("*.py")))
    assert all(b"/opt/fogctl/code/config/" in code for code in made[0].values())
