"""A QEMU guest as a context manager: boots, runs commands over SSH, copies files, always ends its QEMU.

`.venv/bin/python -m tests.vm.guest` boots one with the current tree and opens a shell in it.
"""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tests.vm.image import Image, get_image

BOOT_TIMEOUT_S = 420.0  # ten seconds on an idle machine; emulation on a busy one takes its time
COMMAND_TIMEOUT_S = 300.0
PR_SET_PDEATHSIG = 1


class GuestError(Exception):
    """The guest did not boot, cannot be reached, or a command in it failed; carries what it said."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a command in the guest answered."""

    code: int
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True)
class Plug:
    """One end of a cable between two guests: unix datagram sockets, so no port of the host is used."""

    here: Path
    there: Path
    mac: str

    @classmethod
    def cable(cls, folder: Path, number: int = 1) -> tuple[Plug, Plug]:
        """Both ends of a new cable; the guests see it as eth1 (eth2 … for further plugs)."""
        one, two = folder / f"cable{number}a", folder / f"cable{number}b"
        return cls(one, two, f"52:54:00:fc:{number:02x}:01"), cls(two, one, f"52:54:00:fc:{number:02x}:02")


class Guest:
    """A running Debian machine with a disk of its own that is thrown away at the end."""

    def __init__(
        self,
        image: Image,
        name: str = "guest",
        *,
        cpus: int = 2,
        memory_mib: int = 1536,
        plugs: Sequence[Plug] = (),
        kernel_options: str = "",
    ) -> None:
        self.image = image
        self.name = name
        self.cpus = cpus
        self.memory_mib = memory_mib
        self.plugs = tuple(plugs)
        self.kernel_options = kernel_options
        self.boot_seconds = 0.0
        self._folder = Path()
        self._port = 0
        self._qemu: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        """Where its SSH server is reached on the host."""
        return self._port

    def __enter__(self) -> Guest:
        self.start()
        try:
            self.wait_until_up()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            print(f"--- last lines of {self.name}'s console\n{self.console_tail()}", file=sys.stderr)
        self.stop()

    def start(self) -> None:
        """Start QEMU; use `wait_until_up` after it (two guests can so boot side by side)."""
        # /tmp, not TMPDIR: the paths of unix sockets have little room.
        self._folder = Path(tempfile.mkdtemp(prefix="fogvm-", dir="/tmp"))
        overlay = self._folder / "disk.qcow2"
        backing = ["-b", str(self.image.disk), "-F", "raw"]
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", *backing, str(overlay)], check=True)
        with (self._folder / "qemu.log").open("wb") as log:
            self._qemu = subprocess.Popen(
                self._qemu_argv(overlay),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )

    def _qemu_argv(self, overlay: Path) -> list[str]:
        machine = self.image.machine
        options = f"root=/dev/vda rw console={machine.console} net.ifnames=0 quiet"
        # Only for speed under emulation: nothing that netem, cgroups or namespaces could notice.
        options += " mitigations=off nokaslr rcupdate.rcu_expedited=1 systemd.unit=multi-user.target"
        # On a busy host the emulated timer may come too late when the kernel tries it: it would panic.
        options += f" no_timer_check systemd.hostname={self.name} {self.kernel_options}"
        argv = [machine.emulator, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
        argv += ["-machine", machine.board, "-cpu", machine.cpu, "-accel", "tcg,thread=multi"]
        argv += ["-smp", str(self.cpus), "-m", str(self.memory_mib)]
        argv += ["-kernel", str(self.image.kernel), "-initrd", str(self.image.initrd), "-append", options]
        argv += ["-drive", f"if=virtio,file={overlay},format=qcow2,cache=unsafe,discard=unmap"]
        # Appended to: what a machine said last is what one wants to read when it has started again by itself.
        argv += ["-chardev", f"file,id=console,path={self._folder / 'console.log'},append=on"]
        argv += ["-serial", "chardev:console", "-device", "virtio-rng-pci"]
        argv += ["-monitor", f"unix:{self._folder / 'monitor'},server=on,wait=off"]
        # `restrict`: the guest reaches nothing of the host or beyond; port 0: QEMU picks a free one.
        argv += ["-netdev", "user,id=mgmt,restrict=on,ipv6=off,hostfwd=tcp:127.0.0.1:0-10.0.2.15:22"]
        argv += ["-device", "virtio-net-pci,netdev=mgmt,romfile="]
        for number, plug in enumerate(self.plugs):
            ends = f"local.type=unix,local.path={plug.here},remote.type=unix,remote.path={plug.there}"
            argv += ["-netdev", f"dgram,id=plug{number},{ends}"]
            argv += ["-device", f"virtio-net-pci,netdev=plug{number},mac={plug.mac},romfile="]
        return argv

    def wait_until_up(self, timeout_s: float = BOOT_TIMEOUT_S) -> None:
        """Return when a command runs in the guest; GuestError with the console if that takes too long."""
        started = time.monotonic()
        while time.monotonic() - started < timeout_s:
            if self._qemu is None or self._qemu.poll() is not None:
                log = (self._folder / "qemu.log").read_text(errors="replace")
                raise GuestError(f"{self.name}: QEMU ended while booting\n{log}\n{self.console_tail()}")
            self._port = self._port or self._forwarded_port()
            # SSH's own patience must be long: the first key exchange under emulation takes seconds.
            if self._port and self._ssh(["true"], 60).code == 0:
                # Addresses that configure themselves would change the machine under a test that compares it.
                self.run("sysctl -qw net.ipv6.conf.eth0.disable_ipv6=1")
                self.boot_seconds = time.monotonic() - started
                return
            time.sleep(0.5)
        raise GuestError(f"{self.name}: not up after {timeout_s:.0f} s\n{self.console_tail()}")

    def _forwarded_port(self) -> int:
        try:
            answer = self.monitor("info usernet")
        except OSError:
            return 0
        found = re.search(r"HOST_FORWARD\]\s+\d+\s+127\.0\.0\.1\s+(\d+)", answer)
        return int(found[1]) if found else 0

    def monitor(self, command: str) -> str:
        """Ask QEMU's monitor (`info usernet`, `set_link plug0 off`, …)."""
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(10)
            link.connect(str(self._folder / "monitor"))
            answer = b""
            for text in (b"", command.encode() + b"\n"):
                link.sendall(text)
                part = b""
                while not part.endswith(b"(qemu) "):
                    if not (more := link.recv(65536)):
                        break
                    part += more
                answer = part
            return answer.decode(errors="replace")

    @property
    def ssh_argv(self) -> list[str]:
        """The ssh command for this guest, up to the remote command: one connection shared by all."""
        options = {
            "BatchMode": "yes",
            "ConnectTimeout": "60",
            "ControlMaster": "auto",
            "ControlPath": str(self._folder / "ssh"),
            "ControlPersist": "yes",
            "HostKeyAlias": "guest",
            "IdentitiesOnly": "yes",
            "LogLevel": "ERROR",
            "ServerAliveCountMax": "20",
            "ServerAliveInterval": "15",
            "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": str(self.image.known_hosts),
        }
        argv = ["ssh", "-F", "none", "-i", str(self.image.key), "-p", str(self._port)]
        for key, value in options.items():
            argv += ["-o", f"{key}={value}"]
        return [*argv, "root@127.0.0.1"]

    def _ssh(self, argv: Sequence[str], timeout_s: float, stdin: bytes | None = None) -> Result:
        try:
            done = subprocess.run(
                [*self.ssh_argv, "--", shlex.join(argv)],
                input=stdin,
                stdin=subprocess.DEVNULL if stdin is None else None,
                capture_output=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            said = (late.stdout or b"") + (late.stderr or b"")
            return Result(124, said.decode(errors="replace"), f"no answer after {timeout_s:.0f} s")
        return Result(
            done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        )

    def run(
        self,
        command: Sequence[str] | str,
        *,
        check: bool = True,
        timeout_s: float = COMMAND_TIMEOUT_S,
        stdin: bytes | None = None,
    ) -> Result:
        """Run a command as root (a string goes to sh). `check`: GuestError unless it exits 0."""
        argv = ["sh", "-c", command] if isinstance(command, str) else list(command)
        result = self._ssh(argv, timeout_s, stdin)
        if result.code == 255 or (check and result.code):
            said = f"{result.stdout}{result.stderr}".strip()
            raise GuestError(f"{self.name}: `{shlex.join(argv)}` exited {result.code}\n{said}")
        return result

    def popen(self, argv: Sequence[str]) -> subprocess.Popen[str]:
        """Start a command whose output is read while it runs; stderr comes with stdout."""
        return subprocess.Popen(
            [*self.ssh_argv, "--", shlex.join(argv)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )

    def copy_in(self, file: Path, destination: str) -> None:
        """Copy one file of the host into the guest."""
        self.run(["sh", "-c", 'cat > "$1"', "sh", destination], stdin=file.read_bytes())

    def copy_out(self, source: str, file: Path) -> None:
        """Copy one file of the guest to the host."""
        done = subprocess.run(
            [*self.ssh_argv, "--", shlex.join(["cat", source])], capture_output=True, timeout=120, check=False
        )
        if done.returncode:
            raise GuestError(f"{self.name}: cannot read {source}: {done.stderr.decode().strip()}")
        file.write_bytes(done.stdout)

    def console_tail(self, lines: int = 40) -> str:
        """The last lines that the kernel and systemd wrote to the serial console."""
        log = self._folder / "console.log"
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else "(none)"

    def alive(self) -> bool:
        """Whether the machine still runs commands."""
        runs = self._qemu is not None and self._qemu.poll() is None
        return runs and self._ssh(["true"], 60).code == 0

    def boot_again(self) -> None:
        """A fresh machine in place of this one."""
        self.stop()
        self.start()
        self.wait_until_up()

    def condition(self) -> str:
        """What became of the machine, in words, for a test that lost it: QEMU, its log, the console."""
        if self._qemu is None:
            return f"{self.name} was never started"
        ended = self._qemu.poll()
        state = "QEMU still runs" if ended is None else f"QEMU ended with code {ended}"
        log = (self._folder / "qemu.log").read_text(errors="replace").strip() or "(empty)"
        return f"{self.name}: {state}\n--- QEMU's log\n{log}\n--- console\n{self.console_tail()}"

    def stop(self) -> None:
        """End QEMU, by its process id, and throw the disk away."""
        if self._qemu is None:
            return
        if self._port:
            subprocess.run([*self.ssh_argv[:-1], "-O", "exit", "guest"], capture_output=True, check=False)
        self._qemu.send_signal(signal.SIGKILL)
        self._qemu.wait()
        self._qemu = None
        self._port = 0
        shutil.rmtree(self._folder, ignore_errors=True)


def _die_with_parent() -> None:
    """In the child: QEMU goes when the test process goes, even by kill -9."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> int:
    """Boot a guest with the current tree and open a shell in it."""
    from tests.vm.project import CHECKOUT, copy_project

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    image = get_image(say=say)
    say("booting (Debian's kernel under emulation, up to a minute)")
    with Guest(image) as guest:
        copy_project(guest)
        say(f"up after {guest.boot_seconds:.0f} s; this tree is in {CHECKOUT}; `exit` ends the guest")
        inside = f"cd {CHECKOUT} && exec bash -l"
        command = sys.argv[1:] or ["-t", "root@127.0.0.1", inside]
        if sys.argv[1:]:
            command = ["root@127.0.0.1", f"cd {CHECKOUT} && {shlex.join(sys.argv[1:])}"]
        return subprocess.run([*guest.ssh_argv[:-1], *command], check=False, env=os.environ).returncode


if __name__ == "__main__":
    sys.exit(main())
