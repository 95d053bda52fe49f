"""The stage's image for boards, built on another processor: its JVM and pyspark start under emulation."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fogctl.image import archive, binfmt
from fogctl.image.build import Wanted, build
from fogctl.image.layout import Layout
from fogctl.image.recipe import cache_dir
from tests.kube.stage_image import NO_CRANE, StageImage, crane_finds_wrong, unpacked, why_no_image

ARCHITECTURE = "arm64"
PROGRAM = """
import json, os, subprocess, time
began = time.monotonic()
import pyspark, fogctl.runtime.stage_runner, pandas, pyarrow
pyspark_s = time.monotonic() - began
java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
facts = {"machine": os.uname().machine, "uid": os.getuid(), "java": java, "pyspark": pyspark.__version__}
print(json.dumps({**facts, "pyspark_s": pyspark_s, "java_s": time.monotonic() - began - pyspark_s}))
"""
pytestmark = pytest.mark.skipif(not os.environ.get("ARM64"), reason="arm64 is emulated: make test-vm ARM64=1")


OURS = binfmt.Handler(ARCHITECTURE, "").name


def handlers() -> set[str]:
    return {file.name for file in binfmt.KERNEL.iterdir()} if binfmt.KERNEL.is_dir() else set()


@pytest.fixture(scope="module", autouse=True)
def can_build() -> None:
    if reason := why_no_image(ARCHITECTURE):
        pytest.skip(reason)


@pytest.fixture(scope="module")
def before() -> set[str]:
    """The kernel's emulators before anything was built; with ours among them nothing could be proven."""
    binfmt.tidy(cache_dir() / "binfmt.json")
    found = handlers()
    assert OURS not in found, "another build uses our emulator: run this alone"
    return found


@pytest.fixture(scope="module")
def image(before: set[str], say: Callable[[str], None]) -> StageImage:
    return StageImage.get(say, ARCHITECTURE)


def test_every_binary_of_the_arm64_image_is_for_arm64(
    image: StageImage, before: set[str], say: Callable[[str], None]
) -> None:
    (checked,) = image.built.images
    assert checked.problems == ()
    assert set(checked.binaries) == {ARCHITECTURE}
    assert handlers() == before  # what the build registered, it took back
    say(
        f"arm64 image: {checked.packed_bytes / 1e6:.0f} MB packed, {checked.unpacked_bytes / 1e6:.0f} MB, "
        f"{checked.binaries[ARCHITECTURE]} binaries; built in {image.built.seconds:.0f} s"
    )


def test_the_arm64_image_starts_its_jvm_and_pyspark(
    image: StageImage, before: set[str], say: Callable[[str], None], tmp_path: Path
) -> None:
    began = time.monotonic()
    with (
        binfmt.runnable(ARCHITECTURE, cache_dir() / "binfmt.json"),
        unpacked(image.archive, tmp_path / "bundle") as container,
    ):
        unpacked_s = time.monotonic() - began
        facts = json.loads(container.run("-c", PROGRAM, timeout=900).splitlines()[-1])
    assert handlers() == before
    assert facts["machine"] == "aarch64"
    assert facts["uid"] == 10001
    assert "17." in facts["java"]
    say(
        f"arm64 image: unpacked in {unpacked_s:.0f} s; pyspark {facts['pyspark']} imported after "
        f"{facts['pyspark_s']:.0f} s, {facts['java'].splitlines()[0]} after {facts['java_s']:.0f} s"
    )


def test_both_processors_in_one_manifest(
    before: set[str], say: Callable[[str], None], tmp_path: Path
) -> None:
    layout = cache_dir() / "layouts" / "both"
    built = build(Wanted(("amd64", "arm64"), layout), lambda text: say(f"stage image: {text}"))
    assert [(each.architecture, set(each.binaries), each.problems) for each in built.images] == [
        ("amd64", {"amd64"}, ()),
        ("arm64", {"arm64"}, ()),
    ]
    (top,) = json.loads((layout / "index.json").read_text())["manifests"]
    named = json.loads((layout / "blobs" / top["digest"].replace(":", "/")).read_text())["manifests"]
    assert [each["platform"] for each in named] == [
        {"architecture": each, "os": "linux"} for each in ("amd64", "arm64")
    ]
    held = Layout(layout)
    for architecture in ("amd64", "arm64"):
        archive.save(held, archive.choose(held, architecture), built.name, tmp_path / f"{architecture}.tar")
    assert handlers() == before
    say(f"both: {sum(file.stat().st_size for file in layout.rglob('*')) / 1e6:.0f} MB")


def test_crane_finds_nothing_wrong_with_both() -> None:
    if shutil.which("crane") is None:
        pytest.skip(NO_CRANE)
    assert crane_finds_wrong(cache_dir() / "layouts" / "both") is None
