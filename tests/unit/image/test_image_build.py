"""How an image is built: the tools' commands, the plan that a dry run tells, emulators that come and go."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fogctl.errors import FAILED, FogError
from fogctl.image import base as bases
from fogctl.image import binfmt, space
from fogctl.image.build import STAMP, Wanted, build, require_free
from fogctl.image.debian import Sources, debootstrap_argv, host_sources
from fogctl.image.dry_run import plan
from fogctl.image.engines import Buildx, Daemonless, Job, Target, choose
from fogctl.image.recipe import Recipe

SOURCES = Sources("bookworm", "deb http://debian.example bookworm main\n", ('Acquire::Retries "3"',))
OTHER = next(name for name in ("arm64", "amd64") if name != binfmt.native())
OURS = binfmt.Handler(OTHER, "").name


def jobs(tmp_path: Path, *, named: bool = False) -> list[Job]:
    return [
        Job(
            arch,
            "python:3.11-slim" if named else f"localhost/fogctl-base:{arch}",
            None if named else tmp_path,
            7,
        )
        for arch in ("amd64", "arm64")
    ]


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target(
        "localhost/fogctl-stage:1.0", "1.0", Path("Containerfile"), tmp_path / "c", tmp_path / "out"
    )


def value(argv: tuple[str, ...], option: str) -> str:
    return argv[argv.index(option) + 1]


@pytest.mark.parametrize("tool", ["buildah", "podman"])
def test_both_processors_end_in_one_manifest_and_one_layout(
    tool: str, target: Target, tmp_path: Path
) -> None:
    tasks = Daemonless(tool, tmp_path / "storage", "overlay").tasks(target, jobs(tmp_path))
    assert all(task.argv[0] == tool for task in tasks)
    builds = [task.argv for task in tasks if "build" in task.argv]
    assert [value(argv, "--arch") for argv in builds] == ["amd64", "arm64", "amd64", "arm64"]
    create, push = tasks[-2].argv, tasks[-1].argv
    assert create[-2:] == (f"{target.name}-amd64", f"{target.name}-arm64")
    assert push[-1] == f"oci:{target.layout}:1.0"
    assert "--all" in push


def test_the_users_own_images_are_never_touched(target: Target, tmp_path: Path) -> None:
    storage = tmp_path / "storage"
    for task in Daemonless("buildah", storage, "vfs").tasks(target, jobs(tmp_path)):
        for argv in filter(None, (task.argv, task.unless)):
            assert value(argv, "--root").startswith(str(storage))
            assert value(argv, "--runroot").startswith(str(storage))


def test_a_base_that_is_there_is_not_imported_again(target: Target, tmp_path: Path) -> None:
    tasks = Daemonless("buildah", tmp_path, "vfs").tasks(target, jobs(tmp_path))
    assert [task.unless is not None for task in tasks[:3]] == [True, True, False]
    named = Daemonless("buildah", tmp_path, "vfs").tasks(target, jobs(tmp_path, named=True))
    assert all(task.unless is None for task in named)
    assert "BASE=python:3.11-slim" in named[0].argv


def test_buildx_builds_all_processors_at_once(target: Target, tmp_path: Path) -> None:
    (only,) = Buildx().tasks(target, jobs(tmp_path, named=True))
    assert value(only.argv, "--platform") == "linux/amd64,linux/arm64"
    assert value(only.argv, "--output").startswith(f"type=oci,tar=false,dest={target.layout}")


@pytest.mark.parametrize(
    ("asked", "there", "based", "chosen"),
    [
        (None, {"buildah", "podman", "docker"}, False, "buildah"),
        (None, {"podman", "docker"}, False, "podman"),
        (None, {"docker"}, True, "docker"),
        ("docker", {"buildah", "docker"}, True, "docker"),
    ],
)
def test_the_first_tool_that_works_builds(
    asked: str | None, there: set[str], based: bool, chosen: str
) -> None:
    assert choose(asked, Path("s"), "vfs", there.__contains__, based).name == chosen


@pytest.mark.parametrize(
    ("asked", "there", "based", "sentence"),
    [
        (None, set(), False, "neither buildah nor podman nor docker buildx works here"),
        ("podman", {"buildah"}, False, "podman does not work here"),
        ("kaniko", {"buildah"}, False, '"kaniko" is not known'),
        (None, {"docker"}, False, "builds upon an image, not upon Debian packages"),
    ],
)
def test_without_a_tool_one_sentence_says_what_to_do(
    asked: str | None, there: set[str], based: bool, sentence: str
) -> None:
    with pytest.raises(FogError, match=sentence):
        choose(asked, Path("s"), "vfs", there.__contains__, based)


def test_the_base_is_made_for_its_processor_from_this_machines_sources(tmp_path: Path) -> None:
    argv = debootstrap_argv(SOURCES, "arm64", ["python3"], tmp_path / "root.tar", variant="essential")
    assert {"--architectures=arm64", "--include=python3", '--aptopt=Acquire::Retries "3"'} <= set(argv)
    assert argv[-3:] == ["bookworm", str(tmp_path / "root.tar"), "-"]
    assert "http" not in " ".join(argv)  # where packages come from goes to standard input, not to `ps`


def test_sources_of_a_file_name_the_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "sources.list"
    monkeypatch.setenv("FOGCTL_DEBIAN_SOURCES", str(file))
    monkeypatch.setattr("fogctl.image.debian.shutil.which", lambda _: "/usr/bin/apt-get")
    monkeypatch.setattr("fogctl.image.debian._apt_options", lambda: ())
    file.write_text("# mine\ndeb http://debian.example trixie main\n")
    assert host_sources().codename == "trixie"
    file.write_text("nothing\n")
    with pytest.raises(FogError, match="has no line of the form"):
        host_sources()


def test_a_folder_with_something_else_in_it_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(FogError, match="holds something else"):
        require_free(tmp_path)
    (tmp_path / STAMP).write_text("{}")
    require_free(tmp_path)
    require_free(tmp_path / "new")


def test_a_dry_run_tells_what_is_cached_and_makes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fogctl.image.dry_run.host_sources", lambda: SOURCES)
    monkeypatch.setattr("fogctl.image.build._works", lambda tool: tool == "buildah")
    cache = tmp_path / "cache"
    wanted = Wanted(("amd64", "arm64"), tmp_path / "out")
    first = plan(wanted, cache)
    assert not any(step.cached for step in first)
    assert not list(tmp_path.iterdir())
    base = bases.base_of(Recipe.load(), SOURCES, binfmt.native(), cache)
    base.folder.mkdir(parents=True)
    (base.folder / "facts.json").write_text('{"python": "3.11", "made_at": 1}')
    told = {step.what: step.cached for step in plan(wanted, cache)}
    assert told[f"base for {binfmt.native()}"] is True
    assert told[f"base for {OTHER}"] is False
    assert any("programs here" in what for what in told)


def test_an_interrupted_base_leaves_nothing_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "mmdebstrap").write_text("#!/bin/sh\necho 'E: no space left' >&2; exit 1\n")
    (tools / "mmdebstrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    recipe = Recipe.load()
    base = bases.base_of(recipe, SOURCES, "amd64", tmp_path / "cache")
    with pytest.raises(FogError, match="E: no space left") as told:
        bases.make(base, recipe, SOURCES, tmp_path / "log")
    assert str(tmp_path / "log") in str(told.value)
    assert list(base.folder.parent.iterdir()) == []


def test_a_disk_without_room_is_told_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fogctl.image.build.host_sources", lambda: SOURCES)
    monkeypatch.setattr("fogctl.image.build._works", lambda tool: tool == "buildah")
    free = shutil.disk_usage(tmp_path).free
    monkeypatch.setattr(space, "FIRST_BYTES", free)
    cache = tmp_path / "cache"
    with pytest.raises(FogError, match=r"needs about .*, its disk has .* free .*FOGCTL_CACHE_DIR") as told:
        build(Wanted(("amd64",), tmp_path / "out"), lambda _: None, cache)
    assert told.value.exit_code == FAILED
    assert {file.name for file in cache.iterdir()} == {"lock"}
    space.require({tmp_path / "a" / "b": 1, tmp_path: 1})


def test_a_disk_that_fills_up_meanwhile_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fills_up(*_: object) -> None:
        with Path("/dev/full").open("w") as file:  # the kernel's disk without room
            file.write("x")

    monkeypatch.setattr("fogctl.image.build.host_sources", lambda: SOURCES)
    monkeypatch.setattr("fogctl.image.build._works", lambda tool: tool == "buildah")
    monkeypatch.setattr("fogctl.image.build._part", fills_up)
    with pytest.raises(FogError, match=r"the disk is full.*run it again") as told:
        build(Wanted(("amd64",), tmp_path / "out"), lambda _: None, tmp_path / "cache")
    assert told.value.exit_code == FAILED
    with pytest.raises(OSError, match="missing"), space.told(tmp_path):
        raise FileNotFoundError(2, "missing")  # anything else is a bug, and keeps its traceback


def at_the_command_line(*arguments: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **({"PATH": str(path)} if path else {})}
    argv = [sys.executable, "-m", "fogctl", "image", "build", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--arch", "armv7"), 2, '--arch: there is no image for "armv7" (known: amd64, arm64)'),
        (("--with", "kaniko"), 2, '--with: "kaniko" is not known (one of buildah, podman, docker)'),
        (
            (),
            1,
            "neither buildah nor podman nor docker buildx works here (on Debian: apt-get install buildah)",
        ),
    ],
)
def test_what_cannot_be_built_is_one_sentence_at_the_command_line(
    arguments: tuple[str, ...], code: int, says: str, tmp_path: Path
) -> None:
    done = at_the_command_line("--to", str(tmp_path / "out"), *arguments, path=tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


class Kernel:
    """A folder that stands for the kernel's list of emulators; files in it are handlers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "register").write_text("")
        (folder / "status").write_text("enabled")

    def handler(self, name: str, *, flags: str = "OCF", state: str = "enabled") -> None:
        magic = (
            "7f454c460201010000000000000000000200b700"
            if OTHER == "arm64"
            else "7f454c4602010100000000000000000002003e00"
        )
        (self.folder / name).write_text(f"{state}\ninterpreter /q\nflags: {flags}\noffset 0\nmagic {magic}\n")


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    return Kernel(tmp_path / "binfmt")


def test_a_handler_of_somebody_else_is_used_and_left_alone(kernel: Kernel, tmp_path: Path) -> None:
    kernel.handler("qemu-other")
    with binfmt.runnable(OTHER, tmp_path / "record.json", kernel.folder) as name:
        assert name == "qemu-other"
        assert not (tmp_path / "record.json").exists()
    assert (kernel.folder / "qemu-other").read_text().startswith("enabled")
    assert (kernel.folder / "register").read_text() == ""


@pytest.mark.parametrize(("flags", "state"), [("OC", "enabled"), ("OCF", "disabled")])
def test_a_handler_that_does_not_work_in_a_chroot_does_not_count(
    kernel: Kernel, flags: str, state: str
) -> None:
    kernel.handler("qemu-other", flags=flags, state=state)
    assert binfmt.registered(OTHER, kernel.folder) is None


def test_this_machines_own_programs_need_no_emulator(kernel: Kernel, tmp_path: Path) -> None:
    with binfmt.runnable(binfmt.native(), tmp_path / "record.json", kernel.folder) as name:
        assert name is None


# Uses the emulator in a process of its own; says when it has it, and lets it go when its input ends.
USER = """
import sys
from pathlib import Path
from fogctl.image import binfmt, space
binfmt._interpreter = lambda architecture: "/q"
with binfmt.runnable(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])) as name:
    print(name, flush=True)
    sys.stdin.read()
"""


def user(kernel: Kernel, record: Path) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", USER, OTHER, str(record), str(kernel.folder)]
    started = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert started.stdout is not None
    assert started.stdout.readline().strip() == OURS
    kernel.handler(OURS)  # what a kernel does when it is told
    return started


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root registers emulators")


@needs_root
def test_a_killed_build_is_tidied_up_by_the_next_and_a_running_one_is_not(
    kernel: Kernel, tmp_path: Path
) -> None:
    record = tmp_path / "record.json"
    kernel.handler("qemu-of-another-kind", flags="OC")
    running = user(kernel, record)
    assert binfmt.tidy(record, kernel.folder) is False
    running.kill()
    running.wait()
    assert (kernel.folder / OURS).read_text().startswith("enabled")
    assert binfmt.tidy(record, kernel.folder) is True
    assert (kernel.folder / OURS).read_text() == "-1"  # the kernel's word for: away with it
    assert (kernel.folder / "qemu-of-another-kind").read_text() != "-1"
    assert not record.exists()
    assert binfmt.tidy(record, kernel.folder) is False


@needs_root
def test_the_last_of_two_builds_takes_the_emulator_back(kernel: Kernel, tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    first = user(kernel, record)
    second = user(kernel, record)
    first.communicate("")
    assert (kernel.folder / OURS).read_text().startswith("enabled")
    assert record.exists()
    second.communicate("")
    assert (kernel.folder / OURS).read_text() == "-1"
    assert not record.exists()


def test_what_an_earlier_boot_has_forgotten_is_only_struck_off(kernel: Kernel, tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    kernel.handler(OURS)
    record.write_text(json.dumps({"handler": OURS, "mount": True, "boot": "another"}))
    assert binfmt.tidy(record, kernel.folder) is True
    assert (kernel.folder / OURS).read_text().startswith("enabled")
    assert not record.exists()
    record.write_text('{"handler": "fog-')  # killed while it was written
    assert binfmt.tidy(record, kernel.folder) is True
    assert not record.exists()


def test_without_an_emulator_one_sentence_says_what_to_install(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    record = tmp_path / "record.json"
    with (
        pytest.raises(
            FogError, match=r"there is no qemu-\S+-static to run .*apt-get install qemu-user-static"
        ),
        binfmt.runnable(OTHER, record, kernel.folder),
    ):
        raise AssertionError
    assert not record.exists()


def test_a_kernel_that_refuses_the_emulator_leaves_no_record(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binfmt, "_interpreter", lambda _: "/q")
    monkeypatch.setattr(binfmt.os, "geteuid", lambda: 0)
    (kernel.folder / "register").unlink()
    (kernel.folder / "register").mkdir()  # cannot be written to
    record = tmp_path / "record.json"
    with pytest.raises(FogError, match="the kernel refused"), binfmt.runnable(OTHER, record, kernel.folder):
        raise AssertionError
    assert not record.exists()


def test_the_kernels_line_names_our_handler_and_the_processors_magic() -> None:
    line = binfmt.Handler("arm64", "/usr/bin/qemu-aarch64-static").line.decode()
    _, name, kind, offset, magic, mask, interpreter, flags = line.split(":")
    assert (name, kind, offset, interpreter) == ("fog-qemu-aarch64", "M", "", "/usr/bin/qemu-aarch64-static")
    assert magic.startswith(r"\x7f\x45\x4c\x46\x02\x01\x01")
    assert magic.endswith(r"\x02\x00\xb7\x00")
    assert magic.count("x") == mask.count("x") == 20
    assert "F" in flags
    assert replace(binfmt.Handler("arm64", "/q"), architecture="amd64").name == "fog-qemu-x86_64"
