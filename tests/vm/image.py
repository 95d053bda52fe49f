"""The guest's disk, kernel and initrd: built from Debian packages once, then found in a cache by recipe."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fogctl.image import binfmt
from fogctl.image.recipe import cache_dir
from tests.vm import python_packages
from tests.vm.debian import Sources, host_sources
from tests.vm.machine import AMD64, Machine

HERE = Path(__file__).resolve().parent
RECIPE = HERE / "recipe"
DISK_SIZE = "4G"  # sparse: the file takes only what is in it
VENV = "opt/venv"
# Read man pages elsewhere: these paths are a third of a small system.
LEFT_OUT = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/info/*")
# Services that only cost time in a guest that lives for minutes.
MASKED = (
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "dev-hugepages.mount",
    "dev-mqueue.mount",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty-static.service",
    "getty.target",
    "kmod-static-nodes.service",
    "modprobe@configfs.service",
    "modprobe@drm.service",
    "modprobe@fuse.service",
    "nftables.service",
    "sys-fs-fuse-connections.mount",
    "sys-kernel-config.mount",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
    "systemd-binfmt.service",
    "systemd-journal-flush.service",
    "systemd-logind.service",
    "systemd-machine-id-commit.service",
    "systemd-pcrphase-sysinit.service",
    "systemd-pcrphase.service",
    "systemd-pstore.service",
    "systemd-random-seed.service",
    "systemd-timesyncd.service",
    "systemd-update-utmp-runlevel.service",
    "systemd-update-utmp.service",
)

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Image:
    """A finished image: a folder of the cache that nothing writes to any more."""

    folder: Path
    machine: Machine

    @property
    def disk(self) -> Path:
        """The raw root disk; guests write to an overlay of it, never to it."""
        return self.folder / "root.ext4"

    @property
    def kernel(self) -> Path:
        """Debian's kernel, as the package ships it."""
        return self.folder / "vmlinuz"

    @property
    def initrd(self) -> Path:
        """The initrd that Debian's initramfs-tools made."""
        return self.folder / "initrd"

    @property
    def key(self) -> Path:
        """The private SSH key that opens root's account."""
        return self.folder / "ssh_key"

    @property
    def known_hosts(self) -> Path:
        """The guest's own host key, under the name `guest`."""
        return self.folder / "known_hosts"


def cache_folder() -> Path:
    """Where images are kept: FOGCTL_VM_CACHE, or fogctl/vm in the user's cache."""
    if chosen := os.environ.get("FOGCTL_VM_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fogctl" / "vm"


def lines(file: Path) -> list[str]:
    """The entries of a one-a-line list, without comments."""
    return [
        line.strip() for line in file.read_text().splitlines() if line.strip() and not line.startswith("#")
    ]


def recipe_hash(machine: Machine, codename: str) -> str:
    """What the image depends on: this code, the recipe's files, pinned Python packages, Debian release."""
    digest = hashlib.sha256(f"{machine}\n{codename}\n".encode())
    sources = [HERE / "image.py", HERE / "python_packages.py", *sorted(RECIPE.rglob("*"))]
    for file in sources:
        if file.is_file():
            digest.update(f"{file.relative_to(HERE)}\n".encode() + file.read_bytes())
    if machine.with_project:
        digest.update(python_packages.pinned(lines(RECIPE / "python.txt")).encode())
    return digest.hexdigest()[:16]


def get_image(machine: Machine = AMD64, say: Say = print) -> Image:
    """The image of today's recipe: from the cache, or built now (some minutes)."""
    sources = host_sources()
    cache = cache_folder()
    folder = cache / f"{machine.debian_arch}-{sources.codename}-{recipe_hash(machine, sources.codename)}"
    image = Image(folder, machine)
    if folder.exists():
        say(f"guest image: {folder} (cached)")
        return image
    cache.mkdir(parents=True, exist_ok=True)
    with _only_one(cache / "lock", say):
        if not folder.exists():
            _build(image, sources, say)
    return image


@contextmanager
def _only_one(lock: Path, say: Say) -> Iterator[None]:
    """Two test runs that both miss the cache build once: the second waits."""
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("guest image: another run is building it; waiting")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _build(image: Image, sources: Sources, say: Say) -> None:
    """Build beside the final folder and rename at the end: the cache never holds half an image."""
    started = time.monotonic()

    def step(text: str) -> None:
        say(f"guest image: [{time.monotonic() - started:4.0f} s] {text}")

    step(f"building Debian {sources.codename} {image.machine.debian_arch}, kept in {image.folder.parent}")
    work = Path(tempfile.mkdtemp(prefix="building-", dir=image.folder.parent))
    root = work / "root"
    try:
        log = work / "build.log"
        _make_keys(work)
        step("installing Debian packages (mmdebstrap)")
        # Programs of another processor run here for as long as the packages' own scripts do.
        with binfmt.runnable(image.machine.debian_arch, cache_dir() / "binfmt.json"):
            _debootstrap(root, image.machine, sources, work, log)
        python = next((root / "usr/lib").glob("python3.*")).name.removeprefix("python")
        stage = work / "python"
        if image.machine.with_project:
            step("installing Python packages (pip, pinned by hash)")
            python_packages.install(
                lines(RECIPE / "python.txt"), stage, python, image.machine.wheel_arch, log
            )
            _finish_root(root, stage, python, work, log)
        step("writing the disk")
        for name, pattern in (("vmlinuz", "vmlinuz-*"), ("initrd", "initrd.img-*")):
            shutil.copyfile(next((root / "boot").glob(pattern)), work / name)
        disk = str(work / "root.ext4")
        # No journal: a guest's disk never outlives the guest.
        features = ["-O", "^has_journal", "-E", "lazy_itable_init=1"]
        _run([*_as_root(), "mke2fs", "-q", "-t", "ext4", *features, "-d", str(root), disk, DISK_SIZE], log)
        kernel = next((root / "boot").glob("vmlinuz-*")).name.removeprefix("vmlinuz-")
        _run([*_as_root(), "rm", "-rf", str(root), str(stage)], log)
        facts = {"kernel": kernel, "python": python, "seconds": round(time.monotonic() - started)}
        (work / "facts.json").write_text(json.dumps(facts) + "\n")
        work.rename(image.folder)
    finally:
        if work.exists():
            subprocess.run([*_as_root(), "rm", "-rf", str(work)], check=False)
    megabytes = image.disk.stat().st_blocks * 512 // 2**20
    step(f"done: {kernel}, Python {python}, {megabytes} MiB on disk")


def _as_root() -> list[str]:
    """Prefix for commands that must see the root file system's true owners; nothing when we are root."""
    return [] if os.geteuid() == 0 else ["mmdebstrap", "--unshare-helper"]


def _make_keys(work: Path) -> None:
    """A key to enter with and a host key to be recognised by, so that host keys are always checked."""
    for name in ("ssh_key", "host_key"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", work / name], check=True
        )
    host_key = (work / "host_key.pub").read_text()
    (work / "known_hosts").write_text(f"guest {host_key}")


def _debootstrap(root: Path, machine: Machine, sources: Sources, work: Path, log: Path) -> None:
    packages = [*lines(RECIPE / "packages.txt"), machine.kernel_package]
    overlay = RECIPE / "root"
    keys = (
        'install -d -m 700 "$1/root/.ssh" && '
        f'install -m 600 "{work}/ssh_key.pub" "$1/root/.ssh/authorized_keys" && '
        f'install -m 600 "{work}/host_key" "$1/etc/ssh/ssh_host_ed25519_key" && '
        'rm -f "$1"/etc/ssh/ssh_host_rsa_key* "$1"/etc/ssh/ssh_host_ecdsa_key*'
    )
    mask = f'chroot "$1" systemctl mask {" ".join(MASKED)} && chroot "$1" systemctl enable guest-network ssh'
    _run(
        [
            "mmdebstrap",
            "--variant=apt",
            f"--architectures={machine.debian_arch}",
            *(f"--aptopt={option}" for option in sources.apt_options),
            *(f"--dpkgopt=path-exclude={path}" for path in LEFT_OUT),
            # Before the kernel's own scripts run: they make the initrd from these settings.
            f'--essential-hook=cp -r "{overlay}/." "$1/"',
            f"--customize-hook={keys}",
            f"--customize-hook={mask}",
            f"--include={','.join(packages)}",
            sources.codename,
            str(root),
            "-",
        ],
        log,
        stdin=sources.text,
    )


def _finish_root(root: Path, stage: Path, python: str, work: Path, log: Path) -> None:
    """A virtual environment laid out by hand (nothing of the guest runs but its own byte compiler)."""
    venv = root / VENV
    site = venv / "lib" / f"python{python}" / "site-packages"
    script = work / "venv.sh"
    script.write_text(
        f'set -e; mkdir -p "{venv}/bin" "{site.parent}"; cp -r "{stage}" "{site}"\n'
        f'ln -s /usr/bin/python3 "{venv}/bin/python"; ln -s python "{venv}/bin/python3"\n'
        f'printf "home = /usr/bin\\ninclude-system-site-packages = false\\n" > "{venv}/pyvenv.cfg"\n'
        f'chroot "{root}" /{VENV}/bin/python -m compileall -q -j 2 /{site.relative_to(root)} || true\n'
    )
    _run([*_as_root(), "sh", str(script)], log)


def _run(argv: Sequence[str], log: Path, stdin: str = "") -> None:
    """Run a builder's command; its output goes to a log that is shown only if it fails."""
    with log.open("a") as output:
        done = subprocess.run(
            argv, input=stdin, text=True, stdout=output, stderr=subprocess.STDOUT, check=False
        )
    if done.returncode:
        tail = "\n".join(log.read_text().splitlines()[-40:])
        raise RuntimeError(
            f"building the guest image failed at `{argv[0]}` (exit {done.returncode}):\n{tail}"
        )


if __name__ == "__main__":
    get_image(say=lambda text: print(text, file=sys.stderr, flush=True))
