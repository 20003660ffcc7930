"""A certificate authority in a folder, and the certificates that it signs for brokers and clients.

Each identity is one PEM file with its key, its certificate and the authority's.  Files with a key are readable by their
owner alone.  `cryptography` is loaded when something is made."""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tidelog.errors import InvalidConfig

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey

MISSING = (
    "certificates need the package cryptography, which is not installed: pip install 'tidelog[security]'"
)
AUTHORITY_NAME = "Tidelog CA"
AUTHORITY_DAYS = 3_650
LEAF_DAYS = 825
SKEW = datetime.timedelta(hours=1)  # clocks of other machines may be behind


class _Authority(NamedTuple):
    key: EllipticCurvePrivateKey
    certificate: x509.Certificate


def check_available() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise InvalidConfig(MISSING) from None


def make_certificates(
    folder: Path,
    hosts: Sequence[str],
    brokers: Sequence[str] = ("broker",),
    clients: Sequence[str] = (),
    days: int = LEAF_DAYS,
) -> list[Path]:
    """Writes NAME.pem for each broker and client, and `ca.pem` and `ca.key` unless the folder has them; returns the
    written files.  An existing certificate is replaced."""
    check_available()
    names = [*brokers, *clients]
    for name in names:
        if name == "ca" or "/" in name or name.startswith(".") or not name.isprintable() or not name:
            raise InvalidConfig(
                f"{name!r} cannot be the name of a certificate: it is also the name of a file"
            )
    if len(set(names)) != len(names):
        raise InvalidConfig("two certificates have the same name: each is a file of its own")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    written: list[Path] = []
    authority = _authority(folder, written)
    for name in brokers:
        _write_identity(folder / f"{name}.pem", name, hosts, authority, days, written)
    for name in clients:
        _write_identity(folder / f"{name}.pem", name, (), authority, days, written)
    return written


def _authority(folder: Path, written: list[Path]) -> _Authority:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    certificate_file, key_file = folder / "ca.pem", folder / "ca.key"
    if key_file.exists() and certificate_file.exists():
        try:
            key = serialization.load_pem_private_key(key_file.read_bytes(), None)
            certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
        except (ValueError, TypeError):
            raise InvalidConfig(
                f"{key_file} and {certificate_file} are no authority that `tidelog certs` made"
            ) from None
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise InvalidConfig(f"{key_file} is not the key of {certificate_file}")
        return _Authority(key, certificate)
    if certificate_file.exists():
        raise InvalidConfig(
            f"{certificate_file} has no key beside it, so that nothing can be signed: {key_file}"
        )
    new = ec.generate_private_key(ec.SECP256R1())
    name = _name(AUTHORITY_NAME)
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    made = (
        _builder(name, name, new.public_key(), AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(new.public_key()), critical=False)
        .sign(new, hashes.SHA256())
    )
    write_secret(key_file, _key_pem(new))
    certificate_file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    written += [certificate_file, key_file]
    return _Authority(new, made)


def _write_identity(
    path: Path, name: str, hosts: Sequence[str], authority: _Authority, days: int, written: list[Path]
) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    key = ec.generate_private_key(ec.SECP256R1())
    uses = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if hosts:
        uses.append(ExtendedKeyUsageOID.SERVER_AUTH)
    issuer = authority.certificate.public_key()
    assert isinstance(issuer, ec.EllipticCurvePublicKey)
    builder = (
        _builder(_name(name), authority.certificate.subject, key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer), critical=False)
    )
    if hosts:
        names = [_alternative_name(host) for host in dict.fromkeys(hosts)]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    certificate = builder.sign(authority.key, hashes.SHA256())
    chain = [
        member.public_bytes(serialization.Encoding.PEM) for member in (certificate, authority.certificate)
    ]
    write_secret(path, _key_pem(key) + b"".join(chain))
    written.append(path)


def _alternative_name(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError:
        raise InvalidConfig(f"{host!r} is neither a host name nor an address") from None


def _name(common_name: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    try:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    except ValueError:
        raise InvalidConfig(f"{common_name!r} is too long for the name of a certificate") from None


def _builder(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    from cryptography import x509

    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _key_pem(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def write_secret(path: Path, data: bytes) -> None:
    """Nobody but the owner can read the file at any moment, and it is never there in part."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
