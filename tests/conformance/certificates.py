"""An authority, a broker's certificate and a client's, made for one test run."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID


def make_certificates(folder: Path) -> None:
    """`ca.pem`; `broker.pem` (key and chain) for 127.0.0.1; `client.pem` and `client.key`; `other-ca.pem`."""
    key, authority = _authority("tests")
    (folder / "ca.pem").write_bytes(_pem(authority))
    _, other = _authority("somebody else")
    (folder / "other-ca.pem").write_bytes(_pem(other))
    broker_key, broker = _signed("broker", key, authority)
    (folder / "broker.pem").write_bytes(_key(broker_key) + _pem(broker) + _pem(authority))
    client_key, client = _signed("client", key, authority)
    (folder / "client.pem").write_bytes(_pem(client))
    (folder / "client.key").write_bytes(_key(client_key))


def _authority(name: str) -> tuple[rsa.RSAPrivateKey, x509.Certificate]:
    key = rsa.generate_private_key(65537, 2048)
    builder = _builder(name, name, key).add_extension(x509.BasicConstraints(True, None), critical=True)
    return key, builder.sign(key, hashes.SHA256())


def _signed(
    name: str, authority_key: rsa.RSAPrivateKey, authority: x509.Certificate
) -> tuple[rsa.RSAPrivateKey, x509.Certificate]:
    key = rsa.generate_private_key(65537, 2048)
    issuer = str(authority.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    builder = _builder(name, issuer, key).add_extension(
        x509.SubjectAlternativeName([address]), critical=False
    )
    return key, builder.sign(authority_key, hashes.SHA256())


def _builder(name: str, issuer: str, key: rsa.RSAPrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key(key: rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
