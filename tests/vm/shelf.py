"""A shelf with two boards that have many a fault, and fogctl on the machine that controls them."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.vm.board import CMDLINE, GRUB_MENU, Board, Flashed, look_into
from tests.vm.guest import Plug
from tests.vm.image import Image
from tests.vm.warm import SET_UP

BAD_DAYS_TOO = "FOGCTL_VM_BOARDS" in os.environ
at_length = pytest.mark.skipif(
    not BAD_DAYS_TOO,
    reason="these take twenty minutes more of two emulated machines: make test-vm BOARDS=all",
)
"""Lost power, cables, disks, tokens and downloads; dry runs, upgrades, images, monitor."""
INSTALLED_BY_ROLES = ("systemd-timesyncd", "prometheus", "prometheus-node-exporter")
FOGCTL = Path(sys.executable).with_name("fogctl")
# Bookkeeping that dpkg, apt, systemd, sudo and shadow do about themselves; /etc is compared by content.
NOT_COMPARED = (
    "/proc", "/sys", "/run", "/dev", "/tmp", "/var/tmp", "/var/log", "/var/cache/apt", "/var/lib/apt",
    "/var/lib/dpkg", "/var/lib/systemd", "/var/lib/sudo", "/var/cache/guest-zip", "/root/filler",
)  # fmt: skip
OFF = "cgroup_disable=memory"
NORTH = Flashed(CMDLINE, {CMDLINE: f"root=/dev/vda console=ttyS0 {OFF}\n".encode()})
SOUTH = Flashed(
    GRUB_MENU,
    {
        GRUB_MENU: f"menuentry 'Debian' {{\n  linux /boot/vmlinuz root=/dev/vda ro {OFF}\n}}\n".encode(),
        "/etc/default/grub": f'GRUB_DEFAULT=0\nGRUB_TIMEOUT=0\nGRUB_CMDLINE_LINUX="{OFF}"\n'.encode(),
    },
)
# As on Raspberry Pi OS: a user who may use sudo, and swap in a file on the card.
LIVED_IN = """
set -e
echo "127.0.1.1 $(hostname)" >> /etc/hosts
rm -f /etc/apt/sources.list.d/*; echo 'deb [trusted=yes] file:/opt/repo ./' > /etc/apt/sources.list
useradd --create-home --password '*' --shell /bin/bash pi
echo 'pi ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/pi
install -d -m 700 -o pi /home/pi/.ssh; install -m 600 -o pi /root/.ssh/authorized_keys /home/pi/.ssh/
fallocate -l 32M /swapfile; chmod 600 /swapfile; mkswap -q /swapfile; swapon /swapfile
echo '/swapfile none swap sw 0 0' >> /etc/fstab
systemctl daemon-reload  # which makes a unit of that line
"""


@dataclass(frozen=True)
class Controlled:
    """fogctl on the machine that controls boards, with settings of its own; hosts.txt is in its folder."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """fogctl's, with settings of its own."""
        own = {
            "FOGCTL_KNOWN_HOSTS": str(self.folder / "known_hosts"),
            "FOGCTL_STATE_DIR": str(self.folder / "state"),
            "XDG_CONFIG_HOME": str(self.folder),
        }
        return {**os.environ, **own}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A command of fogctl, left running."""
        return subprocess.Popen(
            [str(FOGCTL), *arguments],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def fogctl(self, *arguments: str, timeout_s: float = 1500) -> subprocess.CompletedProcess[str]:
        """A command of fogctl."""
        with self.start(*arguments) as running:
            printed, said = running.communicate(timeout=timeout_s)
        return subprocess.CompletedProcess(arguments, running.returncode, printed, said)

    def asked(self, code: int, *arguments: str) -> dict[str, Any]:
        """What a command of fogctl that must end with this code says to programs."""
        done = self.fogctl(*arguments, "-o", "json")
        assert done.returncode == code, done.stdout + done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def refused(self, code: int, *arguments: str) -> list[str]:
        """What a command of fogctl that must end with this code says to people, line by line."""
        done = self.fogctl(*arguments)
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr.splitlines()


@dataclass(frozen=True)
class Shelf(Controlled):
    """Two boards: north is the control node and lets root in, south lets pi in; a cable joins them."""

    north: Board
    south: Board
    before: dict[str, str]

    @property
    def boards(self) -> tuple[Board, Board]:
        """Both."""
        return self.north, self.south

    @contextmanager
    def seeded(self, board: Board, do: str, undo: str) -> Iterator[None]:
        """A fault for as long as the body lasts."""
        board.run(do)
        try:
            yield
        finally:
            board.run(undo)


def snapshot(board: Board) -> str:
    """Every file that could be left: content and mode in /etc, /boot and /usr/local, else size and time."""
    pruned = " -o ".join(f"-path {path}" for path in NOT_COMPARED)
    find = f"find / -xdev \\( {pruned} \\) -prune -o"
    return board.run(
        f"{find} -type d -printf '%p/ %m %U:%G\\n' -o -type l -printf '%p -> %l\\n' "
        "-o -path '/etc/*' -printf '%p %m %U:%G %s\\n' -o -printf '%p %m %U:%G %s %T@\\n' | "
        "grep -Ev '^/etc/(passwd|shadow|group|gshadow)- ' | sort; "
        "find /etc /boot/firmware /boot/grub /usr/local -type f ! -name '*-' -exec sha256sum {} + | "
        "sort -k 2; "
        # --root: read from the files, because systemd itself gives up after 25 s on a busy machine.
        "dpkg-query -W || exit 1; systemctl --root=/ list-unit-files --no-legend --plain || exit 1; "
        "sysctl -n net.ipv4.ip_forward kernel.panic; awk '{print $1, $2, $3}' /proc/swaps; "
        "ls /sys/module | grep -Ex 'sch_netem|ifb|zram'; iptables -S; ip -brief link"
    ).stdout


@contextmanager
def set_up(image: Image, folder: Path, say: Callable[[str], None]) -> Iterator[Shelf]:
    """Both boards switched on, described in hosts.txt, and what they were like."""
    packages = fetch_packages(image, folder / "repo")
    one, two = Plug.cable(folder)
    north = Board(image, "north", NORTH.with_files(packages), one, "10.98.0.1")
    south = Board(image, "south", SOUTH.with_files(packages), two, "10.98.0.2")
    boards = (north, south)

    def ready(board: Board) -> str:
        board.wait_until_up()
        board.run(SET_UP)
        board.run(LIVED_IN)
        return snapshot(board)

    try:
        for board in boards:
            board.start()
        with ThreadPoolExecutor(len(boards)) as pool:
            before = dict(zip((board.name for board in boards), pool.map(ready, boards), strict=True))
        say(f"two boards: up after {max(board.boot_seconds for board in boards):.0f} s")
        key = f"key={image.key}"
        (folder / "hosts.txt").write_text(
            f"north root@127.0.0.1:{north.port} role=control data={north.data_address} {key}\n"
            f"south pi@127.0.0.1:{south.port} site=far data={south.data_address} {key}\n"
        )
        yield Shelf(folder, north, south, before)
    finally:
        for board in boards:
            board.stop()


def fetch_packages(image: Image, folder: Path) -> dict[str, bytes]:
    """A repository with what the roles install: the guests have no way out to fetch it themselves."""
    (folder / "partial").mkdir(parents=True)
    status = folder / "status"
    status.write_text(look_into(image.disk, "cat /var/lib/dpkg/status"))
    # apt works out what the guest lacks, from what the guest has.
    options = {"Dir::State::status": status, "Dir::Cache::archives": folder, "Debug::NoLocking": 1}
    argv = ["apt-get", *(word for key, value in options.items() for word in ("-o", f"{key}={value}"))]
    argv += ["install", "-q", "-y", "--download-only", "--no-install-recommends", *INSTALLED_BY_ROLES]
    got = subprocess.run(argv, capture_output=True, text=True, check=False)
    if got.returncode:
        pytest.skip(f"packages cannot be fetched: {got.stderr.strip().splitlines()[-1]}")
    files: dict[str, bytes] = {}
    index = ""
    for package in sorted(folder.glob("*.deb")):
        fields = subprocess.run(
            ["dpkg-deb", "-f", str(package)], capture_output=True, text=True, check=True
        ).stdout
        data = files[f"/opt/repo/{package.name}"] = package.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        index += f"{fields.strip()}\nFilename: ./{package.name}\nSize: {len(data)}\nSHA256: {digest}\n\n"
    return {**files, "/opt/repo/Packages": index.encode()}
