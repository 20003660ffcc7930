"""TLS contexts from certificates and keys: PEM or PKCS12 files, or PEM text in a setting.

A `TlsContext` looks at its files before each use, at most once a second, and loads them again when they have changed, so
that a certificate is renewed by writing the file.  Files that cannot be read keep the context that was there."""

from __future__ import annotations

import logging
import os
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from tidelog.errors import InvalidConfig
from tidelog.net.certificate_names import CertificateNames, certificate_names, check_change

log = logging.getLogger("tidelog.tls")

LOOK_EVERY_S = 1.0
JKS_MAGIC = b"\xfe\xed\xfe\xed"
PEM_BEGIN = b"-----BEGIN"
CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


class TlsSettings(Protocol):
    """As `config.listener_security.TlsFiles` has them."""

    @property
    def keystore_location(self) -> str | None: ...
    @property
    def keystore_password(self) -> str | None: ...
    @property
    def keystore_certificate_chain(self) -> str | None: ...
    @property
    def keystore_key(self) -> str | None: ...
    @property
    def key_password(self) -> str | None: ...
    @property
    def truststore_location(self) -> str | None: ...
    @property
    def truststore_password(self) -> str | None: ...
    @property
    def truststore_certificates(self) -> str | None: ...
    @property
    def client_auth(self) -> str: ...
    @property
    def enabled_protocols(self) -> tuple[str, ...]: ...
    @property
    def cipher_suites(self) -> tuple[str, ...]: ...
    @property
    def endpoint_identification_algorithm(self) -> str: ...
    @property
    def allow_dn_changes(self) -> bool: ...
    @property
    def allow_san_changes(self) -> bool: ...
    @property
    def has_certificate(self) -> bool: ...


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """InvalidConfig names the setting that is wrong, never a password."""
    context = _context(ssl.PROTOCOL_TLS_SERVER, settings)
    if not settings.has_certificate:
        raise InvalidConfig("ssl.keystore.location is not set: a TLS listener needs a certificate")
    context.verify_mode = CLIENT_AUTH[settings.client_auth]
    if context.verify_mode is not ssl.CERT_NONE and not _trusts_somebody(settings):
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """For a broker that connects to another one."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT, settings)
    context.check_hostname = settings.endpoint_identification_algorithm.lower() == "https"
    if not _trusts_somebody(settings):
        context.load_default_certs()
    return context


def _trusts_somebody(settings: TlsSettings) -> bool:
    return settings.truststore_location is not None or settings.truststore_certificates is not None


def _context(protocol: int, settings: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    versions = [_VERSIONS[name] for name in settings.enabled_protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_SINGLE_ECDH_USE
    older = [name for name in settings.cipher_suites if not name.startswith("TLS_AES") and name != _CHACHA]
    if older:
        try:
            context.set_ciphers(":".join(_openssl_name(name) for name in older))
        except ssl.SSLError:
            raise InvalidConfig(f"ssl.cipher.suites: OpenSSL supports none of {', '.join(older)}") from None
    if settings.has_certificate:
        _load_certificate(context, settings)
    for pem in _trusted(settings):
        try:
            context.load_verify_locations(cadata=pem)
        except ssl.SSLError as problem:
            raise InvalidConfig(
                f"ssl.truststore: the trusted certificates cannot be read: {problem.reason}"
            ) from None
    return context


_CHACHA = "TLS_CHACHA20_POLY1305_SHA256"


def _openssl_name(name: str) -> str:
    """TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, as Java writes it, is ECDHE-RSA-AES256-GCM-SHA384 in OpenSSL."""
    parts = name.removeprefix("TLS_").replace("_WITH_", "_")
    for bits in ("128", "256"):
        parts = parts.replace(f"AES_{bits}", f"AES{bits}")
    return parts.replace("_", "-").replace("-SHA256-POLY1305", "-POLY1305")


def _key_and_certificates(settings: TlsSettings) -> tuple[str, bytes]:
    """(the setting they come from, PEM)"""
    if settings.keystore_location is not None:
        setting = "ssl.keystore.location"
        return setting, _pem_of_store(
            setting, settings.keystore_location, settings.keystore_password, with_key=True
        )
    pem = f"{settings.keystore_key or ''}\n{settings.keystore_certificate_chain or ''}\n"
    return "ssl.keystore.key", pem.encode()


def names_in_keystore(settings: TlsSettings) -> CertificateNames | None:
    """None without a certificate, or if it cannot be read."""
    if not settings.has_certificate:
        return None
    try:
        return certificate_names(_key_and_certificates(settings)[1])
    except InvalidConfig:
        return None


def _load_certificate(context: ssl.SSLContext, settings: TlsSettings) -> None:
    setting, pem = _key_and_certificates(settings)
    password = settings.key_password or settings.keystore_password or ""
    with _nameless_file(pem) as path:
        try:
            # A function, so that OpenSSL never asks the terminal for a password.
            context.load_cert_chain(path, password=lambda: password)
        except ssl.SSLError as problem:
            why = problem.reason or str(problem)
            raise InvalidConfig(
                f"{setting}: certificate and key cannot be loaded ({why}): the file needs both, and ssl.key.password "
                "if the key has one"
            ) from None


def _trusted(settings: TlsSettings) -> Iterator[str]:
    if settings.truststore_location is not None:
        store = _pem_of_store(
            "ssl.truststore.location",
            settings.truststore_location,
            settings.truststore_password,
            with_key=False,
        )
        yield store.decode("ascii", "replace")
    elif settings.truststore_certificates is not None:
        yield settings.truststore_certificates


def _pem_of_store(setting: str, path: str, password: str | None, with_key: bool) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as problem:
        raise InvalidConfig(f"{setting}: {path}: {os.strerror(problem.errno or 0)}") from None
    if PEM_BEGIN in data:
        return data
    if data.startswith(JKS_MAGIC):
        raise InvalidConfig(
            f"{setting}: {path} is a JKS key store, which only Java reads: convert it with "
            "keytool -importkeystore -srckeystore FILE -destkeystore NEW.p12 -deststoretype PKCS12"
        )
    return _pem_of_pkcs12(setting, path, data, password, with_key)


def _pem_of_pkcs12(setting: str, path: str, data: bytes, password: str | None, with_key: bool) -> bytes:
    try:
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError:
        raise InvalidConfig(
            f"{setting}: PKCS12 files need a package that is not installed: pip install 'tidelog[security]', or use PEM"
        ) from None
    try:
        store = load_pkcs12(data, None if password is None else password.encode())
    except ValueError:
        raise InvalidConfig(
            f"{setting}: {path} is neither PEM nor a PKCS12 file that opens with ssl.keystore.password or "
            "ssl.truststore.password"
        ) from None
    pieces = []
    if with_key and store.key is not None:
        pieces.append(store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    certificates = [] if store.cert is None else [store.cert]
    certificates += store.additional_certs
    pieces += [entry.certificate.public_bytes(Encoding.PEM) for entry in certificates]
    return b"".join(pieces)


@contextmanager
def _nameless_file(data: bytes) -> Iterator[str]:
    """A file in memory alone: Python's ssl reads certificates from paths only, and a key must not get onto a disk."""
    descriptor = os.memfd_create("tls", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


class TlsContext:
    def __init__(
        self,
        settings: Callable[[], TlsSettings],
        make: Callable[[TlsSettings], ssl.SSLContext] = server_context,
    ) -> None:
        """`settings` is asked each time: they can change while the broker runs."""
        self._settings = settings
        self._make = make
        self._looked_s = 0.0
        self._loaded: tuple[TlsSettings, tuple[object, ...]] | None = None
        self._context: ssl.SSLContext | None = None
        self._names: CertificateNames | None = None

    def get(self) -> ssl.SSLContext:
        now_s = time.monotonic()
        settings = self._settings()
        if self._context is not None and now_s - self._looked_s < LOOK_EVERY_S and self._is_of(settings):
            return self._context
        self._looked_s = now_s
        state = (settings, _state_of(settings))
        if self._context is None or state != self._loaded:
            try:
                names = (
                    certificate_names(_key_and_certificates(settings)[1])
                    if settings.has_certificate
                    else None
                )
                check_change(self._names, names, settings)
                self._context, self._names = self._make(settings), names
            except InvalidConfig as problem:
                if self._context is None:
                    raise
                log.error("The new certificates were not loaded, and TLS uses the earlier ones: %s", problem)
            else:
                if self._loaded is not None:
                    log.info("loaded new certificates")
            self._loaded = state
        return self._context

    def _is_of(self, settings: TlsSettings) -> bool:
        return self._loaded is not None and self._loaded[0] is settings


def _state_of(settings: TlsSettings) -> tuple[object, ...]:
    """What changes when a file is written."""
    state: list[object] = []
    for path in (settings.keystore_location, settings.truststore_location):
        if path is not None:
            try:
                facts = os.stat(path)
                state.append((facts.st_mtime_ns, facts.st_size, facts.st_ino))
            except OSError:
                state.append(None)
    return tuple(state)
