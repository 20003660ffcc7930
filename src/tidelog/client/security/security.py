"""TLS and SASL options: how a client proves its identity and checks the broker's."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from errno import ENOENT
from os import PathLike, fspath
from os.path import isfile

from tidelog.net.kerberos_login import KerberosLogin

Path = str | PathLike[str]
Token = Callable[[], str | Awaitable[str]]

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")


@dataclass(frozen=True, slots=True)
class Security:
    """
    Security(tls=True)                                            # the system's authorities
    Security(ca="ca.pem", certificate="me.pem", key="me.key")     # mutual TLS
    Security(tls=True, mechanism="SCRAM-SHA-512", username="me", password="secret")
    Security(mechanism="OAUTHBEARER", token=fetch_token)          # called for every connection
    Security(mechanism="GSSAPI")                                  # Kerberos, with the tickets that kinit got

    `ca`, `certificate` and `key` are PEM files and turn TLS on.  `token` is a function, plain or async, that
    returns a token.  Without TLS, passwords and tokens can be read on the way.
    """

    tls: bool = False
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    context: ssl.SSLContext | None = None
    """One of your own, in place of the options above."""
    mechanism: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token: Token | None = field(default=None, repr=False)
    kerberos_service_name: str = "kafka"
    """The first part of the brokers' Kerberos principals."""
    kerberos_principal: str | None = None
    kerberos_keytab: Path | None = None
    """A file with the key of the principal, in place of the tickets that kinit got."""

    def __post_init__(self) -> None:
        if self.key is not None and self.certificate is None:
            raise ValueError("a key needs its certificate: give both, or neither")
        if self.mechanism is None:
            if self.username is not None or self.token is not None:
                raise ValueError(f"mechanism is missing: use {', '.join(MECHANISMS)}")
            return
        if self.mechanism not in MECHANISMS:
            raise ValueError(f"mechanism cannot be {self.mechanism!r}: use {', '.join(MECHANISMS)}")
        if self.mechanism == "OAUTHBEARER":
            if self.token is None:
                raise ValueError("OAUTHBEARER needs token, a function that returns one")
        elif self.mechanism == "GSSAPI":
            if self.username is not None or self.password is not None:
                raise ValueError(
                    "GSSAPI has no username and password: use kerberos_principal and kerberos_keytab, or kinit"
                )
        elif self.username is None or self.password is None:
            raise ValueError(f"{self.mechanism} needs username and password")

    @property
    def kerberos(self) -> KerberosLogin | None:
        if self.mechanism != "GSSAPI":
            return None
        keytab = None if self.kerberos_keytab is None else fspath(self.kerberos_keytab)
        return KerberosLogin(self.kerberos_service_name, self.kerberos_principal, keytab)

    def ssl_context(self) -> ssl.SSLContext | None:
        """None without TLS; reads the files."""
        if self.context is not None:
            return self.context
        if not self.tls and self.ca is None and self.certificate is None:
            return None
        for name, path in (("ca", self.ca), ("certificate", self.certificate), ("key", self.key)):
            if path is not None and not isfile(path):
                raise FileNotFoundError(ENOENT, f"{name} names no file", fspath(path))
        made = ssl.create_default_context(cafile=None if self.ca is None else fspath(self.ca))
        made.check_hostname = self.check_hostname
        if self.certificate is not None:
            key = None if self.key is None else fspath(self.key)
            made.load_cert_chain(fspath(self.certificate), key, self.key_password)
        return made
