"""A guest like a board on a shelf: it keeps its disk and address when it reboots or loses power."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path

from tests.vm.guest import Guest, _die_with_parent
from tests.vm.image import Image

CMDLINE = "boot/firmware/cmdline.txt"


class Board(Guest):
    """Boots with what cmdline.txt on its own disk says, as a Pi's firmware does."""

    def __init__(self, image: Image, name: str, cmdline: str) -> None:
        super().__init__(image, name, cpus=1, memory_mib=640)
        self._first_cmdline = cmdline
        self.boots = 0
        self._off = threading.Event()
        self._powered = threading.Event()
        self._powered.set()
        self._watcher: threading.Thread | None = None

    @property
    def port(self) -> int:
        """Where its SSH server is reached on the host."""
        return self._port

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
            subprocess.run(["cp", "--sparse=always", str(self.image.disk), str(self.disk)], check=True)
            flashed = self._folder / "cmdline.txt"
            flashed.write_text(f"{self._first_cmdline}\n")
            self._look_into_disk(f"mkdir {Path(CMDLINE).parent}")
            self._look_into_disk(f"write {flashed} {CMDLINE}")
        self.kernel_options = self._cmdline()
        argv = []
        for word in super()._qemu_argv(overlay):
            changed = word.replace(f"file={overlay},format=qcow2", f"file={self.disk},format=raw")
            if self._port:
                changed = changed.replace("tcp:127.0.0.1:0-", f"tcp:127.0.0.1:{self._port}-")
            argv.append(changed)
        return argv

    def _cmdline(self) -> str:
        found = self._look_into_disk(f"cat {CMDLINE}")
        # Where its disk and console are is the emulator's business.
        return " ".join(word for word in found.split() if not word.startswith(("root=", "console=")))

    def _look_into_disk(self, request: str) -> str:
        path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
        return subprocess.run(
            ["debugfs", "-w", "-R", request, str(self.disk)],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PATH": path},
        ).stdout

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
