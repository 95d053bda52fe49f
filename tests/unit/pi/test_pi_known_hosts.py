"""Host keys: recorded for their owner only, compared ever after; a server with another key is refused."""

from __future__ import annotations

import dataclasses
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import paramiko
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from fogctl.errors import REFUSED, FogError
from fogctl.pi import contact
from fogctl.pi.contact import NoContactError
from fogctl.pi.known_hosts import HostKey, KnownHosts, Trust, name_of
from fogctl.pi.preflight import check, first_contact
from fogctl.testbed.model import SshHost


class Doorman(paramiko.ServerInterface):
    """Lets nobody in: the key is shown before anybody asks."""

    def get_allowed_auths(self, username: str) -> str:  # noqa: ARG002
        return "publickey"


@dataclass
class Server:
    """A real SSH server on a port of this machine, with a key that can be changed."""

    listener: socket.socket
    key: paramiko.PKey
    others: tuple[paramiko.PKey, ...] = ()

    @property
    def host(self) -> SshHost:
        return SshHost("pi1", "127.0.0.1", "pi", self.listener.getsockname()[1])

    def serve(self) -> None:
        while True:
            try:
                link, _ = self.listener.accept()
            except OSError:
                return
            transport = paramiko.Transport(link)
            for key in (self.key, *self.others):
                transport.add_server_key(key)
            try:
                transport.start_server(server=Doorman())
            except (paramiko.SSHException, EOFError, OSError):  # a caller that hangs up early
                continue


@pytest.fixture
def server() -> Iterator[Server]:
    listener = socket.create_server(("127.0.0.1", 0))
    made = Server(listener, paramiko.ECDSAKey.generate())
    thread = threading.Thread(target=made.serve, daemon=True)
    thread.start()
    yield made
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(5)


@pytest.fixture
def known(tmp_path: Path) -> KnownHosts:
    return KnownHosts(tmp_path / "config" / "known_hosts")


def quiet(done: int, total: int, doing: str) -> None:
    pass


def test_the_fingerprint_is_the_one_openssh_shows() -> None:
    # The host key and fingerprint that github.com publishes.
    key = HostKey("ssh-ed25519", "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl")
    assert key.fingerprint == "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU"


def test_a_new_key_is_shown_recorded_for_its_owner_only_and_known_then(
    server: Server, known: KnownHosts
) -> None:
    met = first_contact([server.host], known, quiet)
    ((host, key),) = met.new
    assert (key.kind, key.blob) == (server.key.get_name(), server.key.get_base64())
    known.record(met.new)
    assert known.file.stat().st_mode & 0o777 == 0o600
    assert known.file.parent.stat().st_mode & 0o777 == 0o700
    assert known.judge(host, key) is Trust.known
    assert first_contact([server.host], known, quiet).new == ()


def test_a_changed_key_is_refused_in_one_sentence(server: Server, known: KnownHosts) -> None:
    known.record(first_contact([server.host], known, quiet).new)
    server.key = paramiko.ECDSAKey.generate()
    for attempt in (
        lambda: first_contact([server.host], known, quiet, every=True),
        lambda: check([server.host], known, {}, quiet),
    ):
        with pytest.raises(FogError, match="was recorded") as caught:
            attempt()
        assert caught.value.exit_code == REFUSED
        assert "fogctl pi trust --replace pi1" in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_key_of_another_kind_alone_is_a_changed_one_too(server: Server, known: KnownHosts) -> None:
    known.record(first_contact([server.host], known, quiet).new)
    server.key = paramiko.RSAKey.generate(2048)
    with pytest.raises(FogError, match="was recorded"):
        first_contact([server.host], known, quiet, every=True)


def test_a_host_with_several_keys_is_asked_for_the_recorded_kind(server: Server, known: KnownHosts) -> None:
    server.others = (paramiko.RSAKey.generate(2048),)
    for key in (server.key, *server.others):
        known.record([(server.host, HostKey(key.get_name(), key.get_base64()))])
        assert first_contact([server.host], known, quiet, every=True).new == ()
        shown = contact.shown_key(server.host, [key.get_name()])
        assert shown.kind == key.get_name()


def test_a_key_with_a_passphrase_is_told_as_such(
    server: Server, known: KnownHosts, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    known.record(first_contact([server.host], known, quiet).new)
    sealed = Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.OpenSSH, BestAvailableEncryption(b"secret")
    )
    (tmp_path / "id").write_bytes(sealed)
    host = dataclasses.replace(server.host, key=str(tmp_path / "id"))
    with pytest.raises(NoContactError, match="has a passphrase"):
        contact.run(host, known, "true")


def test_replacing_forgets_the_old_key_and_no_other(server: Server, known: KnownHosts) -> None:
    other = SshHost("pi2", "192.168.1.2", "pi")
    known.record([(other, HostKey("ssh-ed25519", "AAAA"))])
    known.record(first_contact([server.host], known, quiet).new)
    server.key = paramiko.ECDSAKey.generate()
    met = first_contact([server.host], known, quiet, replace=["pi1"])
    known.record(met.new)
    assert [key.blob for key in known.keys(server.host)] == [server.key.get_base64()]
    assert known.keys(other) == [HostKey("ssh-ed25519", "AAAA")]


def test_nothing_is_said_to_a_host_whose_key_is_not_recorded(server: Server, known: KnownHosts) -> None:
    with pytest.raises(NoContactError, match="fogctl pi trust"):
        contact.run(server.host, known, "true")


def test_a_host_that_does_not_let_us_in_is_a_finding(
    server: Server, known: KnownHosts, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    known.record(first_contact([server.host], known, quiet).new)
    (found,) = check([server.host], known, {}, quiet).findings
    assert (found.host, found.about) == ("pi1", "contact")


def test_a_host_whose_answer_makes_no_sense_does_not_keep_the_others_from_being_checked(
    known: KnownHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contact, "run", lambda *_: contact.Answer(1, "started=now\n", "sh: broken\n"))
    hosts = [SshHost("pi1", "10.0.0.1", "pi"), SshHost("pi2", "10.0.0.2", "pi")]
    found = check(hosts, known, {}, quiet).findings
    assert [each.host for each in found] == ["pi1", "pi2"]
    assert all(each.what.endswith("the probe was cut short: sh: broken") for each in found)


@pytest.mark.parametrize(
    ("host", "said"),
    [
        (SshHost("pi1", "127.0.0.1", "pi", 1), "nothing listens at"),
        (SshHost("pi1", "no-such-host.invalid", "pi"), "cannot be resolved"),
        (SshHost("pi1", "127.0.0.1", "pi", 1, "/no/such/key"), "/no/such/key is not there"),
    ],
)
def test_each_way_of_not_being_there_is_a_sentence(host: SshHost, said: str, known: KnownHosts) -> None:
    with pytest.raises(NoContactError, match=said):
        contact.run(host, known, "true")


def test_a_port_is_part_of_a_hosts_name() -> None:
    assert name_of(SshHost("a", "10.0.0.1", "pi")) == "10.0.0.1"
    assert name_of(SshHost("a", "10.0.0.1", "pi", 2222)) == "[10.0.0.1]:2222"


def test_a_broken_line_is_named(known: KnownHosts) -> None:
    known.file.parent.mkdir()
    known.file.write_text("# comment\n10.0.0.1 ssh-ed25519\n")
    with pytest.raises(FogError, match="known_hosts:2"):
        known.keys(SshHost("a", "10.0.0.1", "pi"))
