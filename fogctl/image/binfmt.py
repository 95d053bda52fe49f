"""Lets this machine run another processor's programs while a base is made for it, and takes that back.

The kernel is told of an emulator (binfmt_misc) under a name of ours. It is written down before it is made, so
that a build that was killed is tidied up by the next; handlers of others are used and never touched. Several
builds may use ours at once: each holds a lock, which ends with its process, and the last one takes it back.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from fogctl.errors import FAILED, FogError
from fogctl.image import elf
from fogctl.image.recipe import ARCHITECTURES

KERNEL = Path("/proc/sys/fs/binfmt_misc")
_MACHINES = {"amd64": 62, "arm64": 183}
_ENABLED = "enabled"
_OWN_FILES = ("register", "status")
"""Of the kernel's list itself; every other file of it is a handler."""


@dataclass(frozen=True, slots=True)
class Handler:
    """An emulator that the kernel starts for one processor's programs."""

    architecture: str
    interpreter: str

    @property
    def name(self) -> str:
        """Its name in the kernel's list."""
        return f"fog-qemu-{ARCHITECTURES[self.architecture]}"

    @property
    def line(self) -> bytes:
        """What registers it. F: opened now, so that it works inside a chroot that has no emulator."""
        magic, mask = _magic(self.architecture)
        fields = ("", self.name, "M", "", _escaped(magic), _escaped(mask), self.interpreter, "OCF")
        return ":".join(fields).encode()


def _magic(architecture: str) -> tuple[bytes, bytes]:
    """The first bytes of its programs and libraries (64 bits, little end first), and which of them matter."""
    head = elf.MAGIC + b"\x02\x01\x01" + bytes(9)
    magic = head + b"\x02\x00" + _MACHINES[architecture].to_bytes(2, "little")
    # Any ABI of the system; executable (2) and shared object (3) differ in one bit.
    mask = b"\xff" * 7 + b"\x00" * 9 + b"\xfe\xff\xff\xff"
    return magic, mask


def _escaped(data: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in data)


def native() -> str:
    """This machine's processor, as images call it."""
    machine = platform.machine()
    return next((name for name, other in ARCHITECTURES.items() if other == machine), machine)


def registered(architecture: str, kernel: Path = KERNEL) -> str | None:
    """The name of a handler that runs such programs already, in a chroot too; None if there is none."""
    magic = _magic(architecture)[0].hex()
    for file in sorted(kernel.iterdir()) if kernel.is_dir() else ():
        if file.name in _OWN_FILES:
            continue
        said = file.read_text(errors="replace").splitlines()
        flags = next((line for line in said if line.startswith("flags:")), "")
        if said[:1] == [_ENABLED] and "F" in flags.partition(":")[2] and any(magic in line for line in said):
            return file.name
    return None


@contextmanager
def runnable(architecture: str, record: Path, kernel: Path = KERNEL) -> Iterator[str | None]:
    """Have such programs run for the time of the body; the name of the handler, None if none is needed."""
    if architecture == native():
        yield None
        return
    record.parent.mkdir(parents=True, exist_ok=True)
    with record.with_suffix(".lock").open("w") as users:
        try:
            with _one_at_a_time(record):
                if _nobody_else(users):
                    _undo(record, kernel)
                name = _ready(architecture, record, kernel)
                fcntl.flock(users, fcntl.LOCK_SH)
            yield name
        finally:
            with _one_at_a_time(record):
                if _nobody_else(users):
                    _undo(record, kernel)


def tidy(record: Path, kernel: Path = KERNEL) -> bool:
    """Take back what a build that was killed left; answers whether there was anything."""
    if not record.exists():
        return False
    with record.with_suffix(".lock").open("w") as users, _one_at_a_time(record):
        return _nobody_else(users) and _undo(record, kernel)


@contextmanager
def _one_at_a_time(record: Path) -> Iterator[None]:
    """Coming and going exclude each other; what is done in between does not."""
    with record.with_suffix(".door").open("w") as door:
        fcntl.flock(door, fcntl.LOCK_EX)
        yield


def _nobody_else(users: IO[str]) -> bool:
    """Whether no other living process uses our emulator."""
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _ready(architecture: str, record: Path, kernel: Path) -> str:
    """A handler that is there already, or else ours."""
    if name := registered(architecture, kernel):
        return name
    handler = Handler(architecture, _interpreter(architecture))
    if os.geteuid() != 0:
        raise FogError(
            f"building for {architecture} here needs root once, to register an emulator",
            hint="or register one yourself: apt-get install qemu-user-static binfmt-support",
            exit_code=FAILED,
        )
    mounted = (kernel / "register").exists()
    record.write_text(json.dumps({"handler": handler.name, "mount": not mounted, "boot": _boot()}))
    if not mounted:
        _mount(kernel)
    _register(handler, kernel)
    return handler.name


def _undo(record: Path, kernel: Path) -> bool:
    """Take back what is on record; answers whether there was anything."""
    try:
        made = json.loads(record.read_text())
    except FileNotFoundError:
        return False
    except ValueError:
        made = {}  # killed while it was written, so before anything was made
    if made.get("boot") == _boot():  # else the kernel that knew it is gone
        handler = kernel / made["handler"]
        if handler.exists():
            handler.write_text("-1")
        others = {file.name for file in kernel.iterdir()} - {*_OWN_FILES, handler.name}
        if made["mount"] and (kernel / "register").exists() and not others:
            subprocess.run(["umount", str(kernel)], check=False, capture_output=True)
    record.unlink(missing_ok=True)
    return True


def _boot() -> str:
    """What tells this run of the kernel from others."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _register(handler: Handler, kernel: Path) -> None:
    try:
        (kernel / "register").write_bytes(handler.line)
    except OSError as error:
        raise FogError(f"the kernel refused the emulator: {error.strerror}", exit_code=FAILED) from error


def _mount(kernel: Path) -> None:
    ran = subprocess.run(
        ["mount", "-t", "binfmt_misc", "binfmt_misc", str(kernel)],
        check=False,
        capture_output=True,
        text=True,
    )
    if ran.returncode:
        raise FogError(
            f"the kernel's list of emulators cannot be mounted: {ran.stderr.strip()}",
            hint="modprobe binfmt_misc",
            exit_code=FAILED,
        )


def _interpreter(architecture: str) -> str:
    name = f"qemu-{ARCHITECTURES[architecture]}-static"
    found = shutil.which(name)
    if found is None:
        raise FogError(
            f"there is no {name} to run {architecture} programs with",
            hint="apt-get install qemu-user-static",
            exit_code=FAILED,
        )
    return found
