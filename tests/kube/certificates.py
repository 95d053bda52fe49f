"""The certificates of a test's cluster: an authority of its own, made anew for each one."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = timedelta(days=2)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, as files."""

    certificate: Path
    key: Path


class Authority:
    """Signs whoever takes part in one cluster."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("fog-test-authority")
        certificate = (
            self._prepared(self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_usage(sign_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = folder / "ca.crt"
        self.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def client(self, user: str, *groups: str) -> Pair:
        """Who may call himself that user, of those groups."""
        return self._signed(user, groups, (), ExtendedKeyUsageOID.CLIENT_AUTH)

    def server(self, name: str, addresses: Sequence[str]) -> Pair:
        """Who may answer at these names and IP addresses."""
        return self._signed(name, (), addresses, ExtendedKeyUsageOID.SERVER_AUTH)

    def signing_key(self, name: str) -> Path:
        """A private key by itself, for whoever signs tokens."""
        return _written(self._folder / f"{name}.key", ec.generate_private_key(ec.SECP256R1()))

    def _signed(
        self, user: str, groups: Sequence[str], addresses: Sequence[str], purpose: x509.ObjectIdentifier
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        prepared = (
            self._prepared(_name(user, *groups), key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(sign_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )
        if addresses:
            names = [_alternative(address) for address in addresses]
            prepared = prepared.add_extension(x509.SubjectAlternativeName(names), critical=False)
        file = self._folder / user.replace(":", "-")
        certificate = file.with_name(f"{file.name}.crt")
        signed = prepared.sign(self._key, hashes.SHA256())
        certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        return Pair(certificate, _written(file.with_name(f"{file.name}.key"), key))

    def _prepared(self, name: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + LIFETIME)
        )


def _name(user: str, *groups: str) -> x509.Name:
    """Kubernetes reads the common name as the user and every organisation as a group."""
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _alternative(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)


def _usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _written(file: Path, key: ec.EllipticCurvePrivateKey) -> Path:
    file.touch(mode=0o600)
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    return file
