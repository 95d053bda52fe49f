"""SSH to a host through fabric: its recorded host key is checked, and each failure is one sentence."""

from __future__ import annotations

import logging
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import paramiko  # type: ignore[import-untyped]
from fabric import Config, Connection  # type: ignore[import-untyped]
from paramiko.ssh_exception import (  # type: ignore[import-untyped]
    AuthenticationException,
    BadHostKeyException,
    NoValidConnectionsError,
    PasswordRequiredException,
    SSHException,
)

from fogctl.errors import FAILED, FogError
from fogctl.pi.known_hosts import HostKey, KnownHosts, changed_key, name_of
from fogctl.testbed.model import SshHost

CONNECT_TIMEOUT_S = 20

# paramiko logs a traceback for every host that does not answer, from a thread; ours is the sentence.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command on a host printed, and how it ended."""

    code: int
    stdout: str
    stderr: str


class NoContactError(Exception):
    """A host that cannot be reached or does not let us in; the message is one sentence without its name."""


def shown_key(host: SshHost, kinds: Sequence[str] = (), timeout_s: float = CONNECT_TIMEOUT_S) -> HostKey:
    """The key a host shows to anybody, before any log-in; one of these kinds if it has several."""
    try:
        with socket.create_connection((host.address, host.port), timeout=timeout_s) as link:
            transport = paramiko.Transport(link)
            try:
                transport.banner_timeout = timeout_s
                transport.get_security_options().key_types = _preferred(transport, kinds)
                transport.start_client(timeout=timeout_s)
                key = transport.get_remote_server_key()
            finally:
                transport.close()
    except (OSError, SSHException, EOFError) as error:
        raise NoContactError(why(error, host)) from None
    return HostKey(key.get_name(), key.get_base64())


def _preferred(transport: paramiko.Transport, kinds: Sequence[str]) -> list[str]:
    """The kinds of host keys to ask for: those first."""
    known = list(transport.get_security_options().key_types)
    return sorted(known, key=lambda name: not any(_signs(kind, name) for kind in kinds))


def _signs(kind: str, name: str) -> bool:
    # RSA keys are signed in ways that have names of their own.
    return name == kind or (kind == "ssh-rsa" and name.startswith("rsa-sha2-"))


def connection(host: SshHost, known: KnownHosts, timeout_s: int = CONNECT_TIMEOUT_S) -> Connection:
    """A connection, not yet open, that refuses any host key but the recorded one."""
    settings = Config(lazy=True, overrides={"load_ssh_configs": False})
    made = Connection(
        host.address,
        user=host.user,
        port=host.port,
        config=settings,
        connect_timeout=timeout_s,
        connect_kwargs={
            "banner_timeout": timeout_s,
            "auth_timeout": timeout_s,
            **({"key_filename": host.key, "look_for_keys": False} if host.key is not None else {}),
        },
    )
    # fabric accepts any key unless told otherwise.
    made.client.set_missing_host_key_policy(paramiko.RejectPolicy())
    if known.file.exists():
        made.client.load_host_keys(str(known.file))
    return made


def run(host: SshHost, known: KnownHosts, command: str, timeout_s: int = 120) -> Answer:
    """Run a command on a host; NoContactError if there is no way in, FogError if its key has changed."""
    if host.key is not None and not Path(host.key).is_file():
        raise NoContactError(f"the private key {host.key} is not there")
    try:
        with connection(host, known) as link:
            done = link.run(command, hide=True, warn=True, timeout=timeout_s, in_stream=False, env={})
    except BadHostKeyException as error:
        shown = HostKey(error.key.get_name(), error.key.get_base64())
        raise changed_key(host, known.keys(host), shown) from None
    except (OSError, SSHException, EOFError) as error:
        raise NoContactError(why(error, host)) from None
    except Exception as error:  # invoke's own time-out has no public base class but Exception
        if type(error).__name__ == "CommandTimedOut":
            raise NoContactError(f"did not answer within {timeout_s} s") from None
        raise
    return Answer(int(done.exited), str(done.stdout), str(done.stderr))


def why(error: BaseException, host: SshHost) -> str:
    """A failure to reach a host as part of a sentence."""
    where = name_of(host)
    if isinstance(error, PasswordRequiredException):
        return "your private key has a passphrase: hand it to the SSH agent first (ssh-add)"
    if isinstance(error, AuthenticationException):
        who = f"{host.user}@{host.address}"
        return f"does not let {host.user} in: put your public key there with ssh-copy-id {who}"
    if isinstance(error, socket.gaierror):
        return f"the name {host.address} cannot be resolved"
    if isinstance(error, NoValidConnectionsError | ConnectionRefusedError):
        return f"nothing listens at {where}: is SSH switched on there?"
    if isinstance(error, TimeoutError):
        return f"{where} does not answer: is it switched on and connected?"
    if "not found in known_hosts" in str(error):
        return "its host key is not recorded: fogctl pi trust shows it and records it"
    text = str(error).strip().splitlines()
    return f"{where} cannot be reached: {text[0] if text else type(error).__name__}"


def failed(host: SshHost, error: NoContactError) -> FogError:
    """The same, as the exception a command ends with."""
    return FogError(f"{host.node}: {error}", exit_code=FAILED)
