"""Certificates and keys in every form, what TLS refuses, and files that change."""

from __future__ import annotations

import ssl
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("cryptography")

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from tests.conformance.certificates import make_certificates
from tidelog.config.listener_security import TlsFiles
from tidelog.errors import InvalidConfig
from tidelog.net.tls_files import TlsContext, client_context, server_context

PASSWORD = "of the store"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    make_certificates(folder)
    pem = (folder / "broker.pem").read_bytes()
    key = serialization.load_pem_private_key(pem, None)
    chain = x509.load_pem_x509_certificates(pem)
    store = pkcs12.serialize_key_and_certificates(
        b"broker", key, chain[0], chain[1:], serialization.BestAvailableEncryption(PASSWORD.encode())
    )
    (folder / "broker.p12").write_bytes(store)
    trust = pkcs12.serialize_java_truststore(
        [pkcs12.PKCS12Certificate(chain[1], b"ca")], serialization.BestAvailableEncryption(PASSWORD.encode())
    )
    (folder / "trust.p12").write_bytes(trust)
    encrypted = serialization.BestAvailableEncryption(PASSWORD.encode())
    locked = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encrypted)  # type: ignore[union-attr]
    (folder / "locked.key").write_bytes(locked)
    (folder / "broker.jks").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    return folder


def shaken(server: ssl.SSLContext, client: ssl.SSLContext) -> ssl.SSLObject:
    """The client's end of a handshake in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    answering = server.wrap_bio(to_server, to_client, server_side=True)
    done = [False, False]
    for _ in range(10):
        for place, end in enumerate((asking, answering)):
            if not done[place]:
                try:
                    end.do_handshake()
                    done[place] = True
                except ssl.SSLWantReadError:
                    pass
    assert done == [True, True]
    return asking


def trusting(folder: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(folder / "ca.pem"))


def settings_of(folder: Path, form: str) -> TlsFiles:
    pem = (folder / "broker.pem").read_text()
    certificates = pem[pem.index("-----BEGIN CERT") :]
    return {
        "PEM file": TlsFiles(keystore_location=str(folder / "broker.pem")),
        "PKCS12": TlsFiles(
            keystore_location=str(folder / "broker.p12"), keystore_password=PASSWORD, keystore_type="PKCS12"
        ),
        "PEM text": TlsFiles(
            keystore_key=pem[: pem.index("-----BEGIN CERT")], keystore_certificate_chain=certificates
        ),
        "locked PEM text": TlsFiles(
            keystore_key=(folder / "locked.key").read_text(),
            keystore_certificate_chain=certificates,
            key_password=PASSWORD,
        ),
    }[form]


@pytest.mark.parametrize("form", ["PEM file", "PKCS12", "PEM text", "locked PEM text"])
def test_a_certificate_may_come_in_every_form(folder: Path, form: str) -> None:
    end = shaken(server_context(settings_of(folder, form)), trusting(folder))
    assert end.version() == "TLSv1.3" and end.getpeercert()


@pytest.mark.parametrize("form", ["PEM file", "PKCS12", "PEM text"])
def test_a_trust_store_may_come_in_every_form(folder: Path, form: str) -> None:
    trust = {
        "PEM file": TlsFiles(truststore_location=str(folder / "ca.pem")),
        "PKCS12": TlsFiles(truststore_location=str(folder / "trust.p12"), truststore_password=PASSWORD),
        "PEM text": TlsFiles(truststore_certificates=(folder / "ca.pem").read_text()),
    }[form]
    server = server_context(settings_of(folder, "PEM file"))
    shaken(server, client_context(trust))
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(server, client_context(TlsFiles(truststore_location=str(folder / "other-ca.pem"))))


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"keystore_location": "broker.jks"}, r"is a JKS key store.*keytool -importkeystore"),
        ({"truststore_location": "broker.jks"}, r"ssl.truststore.location.*JKS"),
        ({"keystore_location": "broker.p12", "keystore_password": "wrong"}, "neither PEM nor a PKCS12 file"),
        ({"keystore_location": "nowhere.pem"}, "No such file"),
        ({"keystore_location": "ca.pem"}, "certificate and key cannot be loaded"),
        ({"cipher_suites": ("TLS_MADE_UP_WITH_NOTHING",)}, "ssl.cipher.suites"),
    ],
)
def test_what_cannot_be_loaded_is_said(folder: Path, settings: dict[str, str], why: str) -> None:
    given = {
        name: str(folder / value) if name.endswith("location") else value for name, value in settings.items()
    }
    with pytest.raises(InvalidConfig, match=why) as refused:
        server_context(replace(settings_of(folder, "PEM file"), **given))
    assert "wrong" not in str(refused.value)


def test_cipher_suites_go_by_javas_names(folder: Path) -> None:
    suites = ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",)
    server = server_context(
        replace(settings_of(folder, "PEM file"), cipher_suites=suites, enabled_protocols=("TLSv1.2",))
    )
    end = shaken(server, trusting(folder))
    assert (end.version(), (end.cipher() or ("",))[0]) == ("TLSv1.2", "ECDHE-RSA-AES256-GCM-SHA384")
    other = trusting(folder)
    other.maximum_version = ssl.TLSVersion.TLSv1_2
    other.set_ciphers("ECDHE-RSA-AES128-GCM-SHA256")
    with pytest.raises(ssl.SSLError, match="NO_SHARED_CIPHER"):
        shaken(server, other)


def test_tls_1_1_is_refused(folder: Path) -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.load_verify_locations(folder / "ca.pem")
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning):
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError, match=r"UNSUPPORTED_PROTOCOL|VERSION"):
        shaken(server_context(settings_of(folder, "PEM file")), old)


def test_settings_that_are_others_count_at_once(folder: Path) -> None:
    current = [settings_of(folder, "PEM file")]
    files = TlsContext(lambda: current[0])
    first = files.get()
    assert files.get() is first
    current[0] = settings_of(folder, "PKCS12")
    second = files.get()
    assert second is not first
    current[0] = TlsFiles(keystore_location=str(folder / "nowhere.pem"))
    assert files.get() is second


@pytest.mark.parametrize(
    ("allowed", "same_name", "same_host", "taken"),
    [
        ({}, True, True, True),
        ({}, False, True, False),
        ({}, True, False, False),
        ({"allow_dn_changes": True}, False, True, True),
        ({"allow_dn_changes": True}, False, False, False),
        ({"allow_san_changes": True}, True, False, True),
    ],
)
def test_a_new_certificate_keeps_the_names_of_the_one_in_use(
    tmp_path: Path, allowed: dict[str, bool], same_name: bool, same_host: bool, taken: bool
) -> None:
    from tidelog.app.certificates import make_certificates as make

    make(tmp_path / "first", ["127.0.0.1", "one.example"], brokers=("broker",))
    name = "broker" if same_name else "another"
    make(
        tmp_path / "second",
        ["127.0.0.1", "one.example", "two.example"] if same_host else ["127.0.0.1"],
        brokers=(name,),
    )
    store = tmp_path / "store.pem"
    store.write_bytes((tmp_path / "first" / "broker.pem").read_bytes())
    files = TlsFiles(keystore_location=str(store), **allowed)
    context = TlsContext(lambda: files)
    before = context.get()
    store.write_bytes((tmp_path / "second" / f"{name}.pem").read_bytes())
    context._looked_s = 0.0
    assert (context.get() is not before) == taken
