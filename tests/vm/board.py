"""A guest like a board on a shelf: it keeps its disk and address when it reboots or loses power."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.vm.guest import Guest, GuestError, Plug, _die_with_parent
from tests.vm.image import Image
from tests.vm.warm import FILES

CMDLINE = "/boot/firmware/cmdline.txt"
GRUB_MENU = "/boot/grub/grub.cfg"
MEMORY_MIB = 1024
"""The smallest Pi 4; with less there is no room for packages, their index and compressed swap at once."""


@dataclass(frozen=True)
class Flashed:
    """What is on a new board's card besides the image."""

    boot_file: str
    """Which file its firmware takes the kernel command line from: CMDLINE or GRUB_MENU."""
    files: Mapping[str, bytes] = field(default_factory=dict)

    def with_files(self, more: Mapping[str, bytes]) -> Flashed:
        """The same card with more files on it."""
        return replace(self, files={**self.files, **more})


class Board(Guest):
    """Boots with what its own disk says, as a Pi does from cmdline.txt and a PC from GRUB's menu."""

    def __init__(self, image: Image, name: str, flashed: Flashed, plug: Plug, data_address: str) -> None:
        super().__init__(image, name, cpus=1, memory_mib=MEMORY_MIB, plugs=[plug])
        self.data_address = data_address
        self.boots = 0
        self._flashed = flashed
        self._off = threading.Event()
        self._powered = threading.Event()
        self._powered.set()
        self._watcher: threading.Thread | None = None

    @property
    def disk(self) -> Path:
        """Its own disk, raw, so that the firmware can look into it."""
        return self._folder / "disk.raw"

    def start(self) -> None:
        """Switch it on; from now on a reboot starts it again."""
        super().start()
        self.boots = 1
        self._watcher = threading.Thread(target=self._firmware, daemon=True)
        self._watcher.start()

    def _qemu_argv(self, overlay: Path) -> list[str]:
        if not self.disk.exists():
            self._flash()
        self.kernel_options = f"{self._cmdline()} guest.data={self.data_address}/24"
        argv = []
        for word in super()._qemu_argv(overlay):
            changed = word.replace(f"file={overlay},format=qcow2", f"file={self.disk},format=raw")
            if self._port:
                changed = changed.replace("tcp:127.0.0.1:0-", f"tcp:127.0.0.1:{self._port}-")
            argv.append(changed)
        return argv

    def _flash(self) -> None:
        subprocess.run(["cp", "--sparse=always", str(self.image.disk), str(self.disk)], check=True)
        # A board may lose power, so unlike other guests it keeps a journal, and a machine id of its own.
        _tool("tune2fs", "-j", str(self.disk))
        machine_id = hashlib.md5(self.name.encode(), usedforsecurity=False).hexdigest()
        own = {"/etc/machine-id": f"{machine_id}\n".encode(), **FILES}
        for place, data in {**own, **self._flashed.files}.items():
            copy = self._folder / "flashed"
            copy.write_bytes(data)
            # Not "/" itself: debugfs would put a folder without a name into it, over which the kernel falls.
            for folder in reversed(Path(place).parents[:-1]):
                self._look_into_disk(f"mkdir {folder}")
            self._look_into_disk(f"rm {place}")
            self._look_into_disk(f"write {copy} {place}")
            self._look_into_disk(f"set_inode_field {place} mode 0100644")
        _tool("e2fsck", "-fn", str(self.disk))  # fails unless the file system is whole

    def _cmdline(self) -> str:
        # After lost power, what counts may be in the journal alone; and who writes past it destroys.
        _tool("e2fsck", "-p", str(self.disk), fine=(0, 1))
        found = look_into(self.disk, f"cat {self._flashed.boot_file}")
        if self._flashed.boot_file == GRUB_MENU:
            # The first entry of the menu, as GRUB would start it: `linux /boot/vmlinuz-… root=… words`.
            entry = re.search(r"^\s*linux\s+\S+\s+(.*)$", found, re.MULTILINE)
            found = entry[1] if entry else ""
        # Where its disk and console are is the emulator's business.
        return " ".join(
            word for word in found.split() if word != "ro" and not word.startswith(("root=", "console="))
        )

    def _look_into_disk(self, request: str) -> str:
        return look_into(self.disk, request, "-w")

    def _firmware(self) -> None:
        """Start QEMU again whenever it ends by itself (`-no-reboot` makes it end at a reboot)."""
        while True:
            qemu = self._qemu
            if qemu is None:
                return
            qemu.wait()
            self._powered.wait()
            if self._off.is_set():
                return
            self._forget_connection()
            for plug in self.plugs:
                plug.here.unlink(missing_ok=True)
            with (self._folder / "qemu.log").open("ab") as log:
                self._qemu = subprocess.Popen(
                    self._qemu_argv(self._folder / "disk.qcow2"),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    preexec_fn=_die_with_parent,
                )
            self.boots += 1

    def cut_power(self) -> None:
        """Pull the plug: what was not on the disk is lost."""
        assert self._qemu is not None
        self._powered.clear()
        self._qemu.kill()
        self._qemu.wait()

    def give_power(self) -> None:
        """Put the plug in again, and wait until a command runs."""
        boots = self.boots
        self._powered.set()
        while self.boots == boots:
            time.sleep(0.1)
        self.reconnect()

    def reconnect(self) -> None:
        """Wait until a command runs in it, after a reboot that somebody else has waited for."""
        self._forget_connection()
        self.wait_until_up()

    def _forget_connection(self) -> None:
        subprocess.run([*self.ssh_argv[:-1], "-O", "exit", "guest"], capture_output=True, check=False)

    def stop(self) -> None:
        """Switch it off for good."""
        self._off.set()
        self._powered.set()
        super().stop()


def look_into(disk: Path, request: str, *options: str) -> str:
    """What debugfs answers about a disk that nobody has mounted."""
    return _tool("debugfs", *options, "-R", request, str(disk))


def _tool(*argv: str, fine: tuple[int, ...] = (0,)) -> str:
    """What a tool for file systems prints; they live where only root's PATH leads."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path})
    if done.returncode not in fine:
        raise GuestError(f"`{' '.join(argv)}` exited {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout
