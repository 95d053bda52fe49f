"""The recipe in images/: what the Containerfile promises, and that its pins are the project's."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from packaging.utils import canonicalize_name

from fogctl import __version__, data
from fogctl.errors import FogError
from fogctl.image.check import LABELS
from fogctl.image.recipe import ARCHITECTURES, Recipe, architectures, image_name
from fogctl.image.wheels import for_python, pip_argv
from fogctl.kube.names import DEFAULT_IMAGE

ROOT = Path(__file__).resolve().parents[3]
PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)(?: ; (.*?))? \\$", re.MULTILINE)


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return Recipe.load()


def instructions(recipe: Recipe) -> list[tuple[str, str]]:
    """The Containerfile's lines, continued ones joined, without comments."""
    text = recipe.containerfile.read_text()
    joined = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
    words = [line.partition(" ") for line in joined.splitlines() if line.strip()]
    return [(word, rest) for word, _, rest in words]


def of(recipe: Recipe, word: str) -> list[str]:
    return [rest for each, rest in instructions(recipe) if each == word]


def test_nothing_is_run_or_downloaded_while_it_is_built(recipe: Recipe) -> None:
    assert {word for word, _ in instructions(recipe)} == {
        *("ARG", "FROM", "COPY", "ENV", "LABEL", "WORKDIR", "USER", "ENTRYPOINT")
    }


def test_its_last_user_is_not_root_and_has_a_number(recipe: Recipe) -> None:
    assert of(recipe, "USER") == ["10001:10001"]  # Kubernetes cannot tell whether a name is root's


def test_it_has_every_label_that_the_check_asks_for(recipe: Recipe) -> None:
    given = dict(re.findall(r'(\S+)="([^"]*)"', " ".join(of(recipe, "LABEL"))))
    assert set(LABELS) <= set(given)
    assert given["org.opencontainers.image.version"] == "${VERSION}"


def test_what_changes_often_comes_last(recipe: Recipe) -> None:
    places = [rest.split()[-1] for rest in of(recipe, "COPY")]
    assert places.index("/opt/fogctl/code") > places.index("/opt/fogctl/lib")
    assert places.index("/opt/fogctl/code") > places.index("/opt/fogctl/kafka")


def test_nothing_is_written_beside_the_code(recipe: Recipe) -> None:
    given = dict(re.findall(r"(\w+)=(\S+)", " ".join(of(recipe, "ENV"))))
    assert given["PYTHONDONTWRITEBYTECODE"] == "1"
    assert given["HOME"] == "/tmp"
    assert given["FOGCTL_CACHE_DIR"] == "/opt/fogctl"


def test_pins_are_those_of_the_project(recipe: Recipe) -> None:
    lock = (ROOT / "requirements.lock").read_text()
    ours = {(canonicalize_name(name), version) for name, version, _ in PIN.findall(lock)}
    pinned = {(canonicalize_name(name), version) for name, version, _ in PIN.findall(recipe.pins)}
    assert len(pinned) > 10
    assert pinned <= ours, "run: make lock"


def test_every_pin_has_a_hash(recipe: Recipe) -> None:
    entries = re.split(r"\n(?=[A-Za-z])", recipe.pins)
    assert all("--hash=sha256:" in entry for entry in entries if "==" in entry)


def test_pins_are_chosen_for_the_images_python_not_for_this_one(recipe: Recipe) -> None:
    for python in ("3.11", "3.13"):
        chosen = [name for name, _, marker in PIN.findall(for_python(recipe.pins, python, "aarch64"))]
        assert len(chosen) == len(set(chosen))
        assert {"numpy", "pyarrow", "pydantic"} <= set(chosen)
    assert for_python(recipe.pins, "3.11", "x86_64") != for_python(recipe.pins, "3.13", "x86_64")
    assert ";" not in for_python(recipe.pins, "3.13", "x86_64")


def test_wheels_are_asked_for_the_images_processor() -> None:
    argv = pip_argv(Path("pins"), Path("to"), "3.11", "aarch64")
    assert "--require-hashes" in argv
    assert all(each.endswith("_aarch64") for each in argv if each.startswith("manylinux"))


def test_another_release_another_processor_or_another_package_is_another_base(recipe: Recipe) -> None:
    digests = {
        recipe.base_digest(arch, release) for arch in ARCHITECTURES for release in ("bookworm", "trixie")
    }
    assert len(digests) == 4
    more = replace(recipe, packages=(*recipe.packages, "less"))
    assert more.base_digest("amd64", "bookworm") not in digests


def test_a_comment_in_the_pins_changes_nothing(recipe: Recipe) -> None:
    noted = replace(recipe, pins=recipe.pins + "# note\n")
    assert noted.packages_digest("amd64", "3.11", "4") == recipe.packages_digest("amd64", "3.11", "4")
    assert noted.packages_digest("amd64", "3.11", "4") != recipe.packages_digest("amd64", "3.12", "4")


def test_the_image_has_the_name_that_pods_ask_for() -> None:
    assert image_name() == DEFAULT_IMAGE
    assert image_name().endswith(f":{__version__}")


def test_the_playbook_loads_the_image_that_pods_ask_for() -> None:
    role = data.path("playbooks") / "ansible_collections/fogctl/pi/roles/images/defaults/main.yml"
    assert yaml.safe_load(role.read_text())["images_name"] == image_name()


def test_processors_are_named_as_images_name_them() -> None:
    assert architectures("arm64, amd64,arm64") == ("arm64", "amd64")
    with pytest.raises(FogError, match=r'no image for "aarch64".*known: amd64, arm64'):
        architectures("aarch64")
    with pytest.raises(FogError, match="names no processor"):
        architectures(" ,")
