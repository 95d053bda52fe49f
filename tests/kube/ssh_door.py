"""A real SSH server on an emulated node, for what fogctl does on boards over SSH; it ends with the body."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.kube.kubelets import Kubelets

SSHD = "/usr/sbin/sshd"


def make_key(file: Path) -> Path:
    """A pair of keys; answers the private one's file."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file)], check=True)
    return file


@contextmanager
def ssh_door(kubelets: Kubelets, node: str, address: str, client: Path, folder: Path) -> Iterator[Path]:
    """In the body a client's key opens a node for root; answers the known_hosts file that names it."""
    host = make_key(folder / "host_key")
    config = folder / "sshd_config"
    settings = {
        "ListenAddress": f"{address}:22",
        "HostKey": host,
        "AuthorizedKeysFile": f"{client}.pub",
        "StrictModes": "no",
        "PermitRootLogin": "prohibit-password",
        "PasswordAuthentication": "no",
        "UsePAM": "no",
        "PidFile": "none",
    }
    config.write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
    # The folder it insists on is its own: nothing on the host changes.
    own = f"mount -t tmpfs none /run && mkdir /run/sshd && exec {SSHD} -D -e -f {shlex.quote(str(config))}"
    known = folder / "known_hosts"
    known.write_text(f"{address} {' '.join(Path(f'{host}.pub').read_text().split()[:2])}\n")
    with (folder / "sshd.log").open("w") as log:
        argv = kubelets.inside(["unshare", "--mount", "sh", "-c", own], node)
        server = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 30
        while "Server listening" not in (said := (folder / "sshd.log").read_text()):
            assert server.poll() is None, said
            assert time.monotonic() < deadline, said
            time.sleep(0.05)
        yield known
    finally:
        server.terminate()
        server.wait()
