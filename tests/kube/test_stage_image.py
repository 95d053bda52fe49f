"""The image that runs stages, really built and started: what is in it, as whom it runs, what it can write."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fogctl.image.binfmt import native
from fogctl.image.build import Wanted, build
from fogctl.image.sbom import FILE_NAME
from fogctl.runtime import jars
from tests.kube.conftest import Tell
from tests.kube.stage_image import NO_CRANE, Container, StageImage, crane_finds_wrong, unpacked

HERE = Path(__file__).resolve().parent
LARGEST_BYTES = 490_000_000
"""Of an image as it is sent to a board. Measured: see docs/images.md; more than this was an accident."""


@pytest.fixture(scope="module")
def container(stage_image: StageImage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    with unpacked(stage_image.archive, tmp_path_factory.mktemp("image") / "bundle") as container:
        yield container


def test_the_image_is_small_whole_and_for_this_processor(stage_image: StageImage, tell: Tell) -> None:
    (image,) = stage_image.built.images
    assert image.problems == ()
    assert set(image.binaries) == {native()}
    assert image.user == "10001:10001"
    assert image.packed_bytes < LARGEST_BYTES
    tell(
        f"{image.architecture}: {image.packed_bytes / 1e6:.0f} MB packed, {image.unpacked_bytes / 1e6:.0f} MB"
    )


def test_another_build_of_the_same_tree_builds_nothing(stage_image: StageImage, tell: Tell) -> None:
    said: list[str] = []
    again = build(Wanted((native(),), stage_image.built.layout), said.append)
    assert again.cached
    assert not [line for line in said if line.startswith("buildah")]
    tell(f"nothing to build: {again.seconds:.1f} s")


def test_crane_finds_nothing_wrong(stage_image: StageImage) -> None:
    if shutil.which("crane") is None:
        pytest.skip(NO_CRANE)
    assert crane_finds_wrong(stage_image.built.layout) is None


def test_a_stage_finds_all_it_needs_without_root_and_writes_only_to_tmp(
    container: Container, tell: Tell
) -> None:
    said = container.run("-", stdin=(HERE / "smoke.py").read_text())
    found = json.loads(said.strip().splitlines()[-1])
    assert found["uid"] == 10001
    assert found["writable"] == ["/tmp"]
    assert int(found["capabilities"], 16) == 0
    assert found["kafka"] == ["key", "value"]
    assert found["kinds"] == [0, 2]
    assert (found["kubernetes"], found["client"]) == ("KubernetesClusterManager", "KubernetesClientImpl")
    assert found["java"].startswith("17.")
    tell(f"in the image: Spark {found['spark']} on Java {found['java']}, a session in {found['started_s']} s")


def test_a_stage_knows_its_lags_trend_without_scipy(container: Container) -> None:
    program = """
import importlib.util
from fogctl.metrics.stage import _trend
print(_trend(range(30), [10 * second for second in range(30)], 1.0)[1] > 9, importlib.util.find_spec("scipy"))
"""
    assert container.run("-c", program).strip() == "True None"


def test_the_broker_starts_from_its_jars(container: Container) -> None:
    argv = ["java", "-cp", "/opt/fogctl/kafka/*", "kafka.Kafka", "--version"]
    program = f"import subprocess; subprocess.run({argv})"
    pinned = {jar.artifact: jar.revision for jar in jars.locked(jars.BROKER)}
    assert pinned["kafka-clients"] in container.run("-c", program)


def test_the_bill_inside_is_the_bill_beside_and_names_what_is_there(
    stage_image: StageImage, container: Container
) -> None:
    inside = (container.root / "usr/share/sbom" / FILE_NAME).read_text()
    beside = stage_image.built.layout / f"fogctl-stage-{native()}.spdx.json"
    assert inside == beside.read_text()
    packages = json.loads(inside)["packages"]
    named = {package.get("packageFileName") for package in packages} - {None}
    there = {
        f"/{file.relative_to(container.root)}" for file in (container.root / "opt/fogctl").rglob("*.jar")
    }
    assert named == there
    urls = {ref["referenceLocator"] for package in packages for ref in package.get("externalRefs", ())}
    for beginning in (
        "pkg:deb/debian/openjdk-",
        "pkg:deb/debian/bash@",
        "pkg:pypi/pyspark@",
        "pkg:pypi/fogctl@",
    ):
        assert any(url.startswith(beginning) for url in urls), beginning


def test_nothing_of_the_build_stays_inside(container: Container) -> None:
    kept = [
        *container.root.glob("etc/apt/sources.list*"),
        *container.root.glob("var/cache/apt/archives/*.deb"),
        *container.root.glob("root/.cache"),
        *container.root.glob("opt/fogctl/lib/pip"),
        *container.root.glob("opt/fogctl/lib/pyspark/examples"),
    ]
    assert [file for file in kept if file.is_file() or any(file.iterdir())] == []
