"""The options that the source and the sink share: the brokers' addresses, and security.  Pure."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import fspath
from pathlib import Path

from tidelog.client.security.security import Security
from tidelog.net.token_client import ClientCredentials
from tidelog.pipeline.options.text import OptionText, PipelineError

SECURITY = (
    "security.tls",
    "security.ca",
    "security.certificate",
    "security.key",
    "security.keyPassword",
    "security.checkHostname",
    "security.mechanism",
    "security.username",
    "security.password",
    "security.token",
    "security.tokenFile",
    "security.tokenEndpoint",
    "security.tokenEndpointCa",
    "security.clientId",
    "security.clientSecret",
    "security.scope",
)
FILES = (
    "security.ca",
    "security.certificate",
    "security.key",
    "security.tokenFile",
    "security.tokenEndpointCa",
)
KNOWN = ("bootstrap", "clientId", "timeoutMs", *SECURITY)
ALIASES = {"kafka.bootstrap.servers": "bootstrap", "bootstrap.servers": "bootstrap"}
TIMEOUT_MS = 120_000


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """`timeout_ms`: how long brokers may be unreachable before a query fails."""

    bootstrap: str
    client_id: str
    timeout_ms: int
    login: tuple[tuple[str, str], ...]

    def security(self) -> Security | None:
        """The client's security settings.  The caller, the driver or an executor, reads the files."""
        if not self.login:
            return None
        given = dict(self.login)
        try:
            return Security(
                tls=given.get("tls", "false") == "true",
                ca=given.get("ca"),
                certificate=given.get("certificate"),
                key=given.get("key"),
                key_password=given.get("keyPassword"),
                check_hostname=given.get("checkHostname", "true") == "true",
                mechanism=given.get("mechanism"),
                username=given.get("username"),
                password=given.get("password"),
                token=_token(given),
            )
        except ValueError as problem:
            raise PipelineError(f"security options: {problem}") from None


def _token(given: Mapping[str, str]) -> Callable[[], str] | None:
    if "tokenEndpoint" in given:
        return ClientCredentials(
            given["tokenEndpoint"],
            given.get("clientId"),
            given.get("clientSecret"),
            given.get("scope"),
            given.get("tokenEndpointCa"),
        )
    if "tokenFile" in given:
        path = Path(given["tokenFile"])
        return lambda: path.read_text().strip()
    token = given.get("token")
    return None if token is None else lambda: token


def security_options(security: Security | None) -> dict[str, str]:
    """The options that `ConnectionSettings.security` makes the same of, for options that need no code."""
    if security is None:
        return {}
    paths = {"ca": security.ca, "certificate": security.certificate, "key": security.key}
    given: dict[str, str | None] = {
        "tls": "true" if security.tls else None,
        **{name: None if path is None else fspath(path) for name, path in paths.items()},
        "keyPassword": security.key_password,
        "checkHostname": None if security.check_hostname else "false",
        "mechanism": security.mechanism,
        "username": security.username,
        "password": security.password,
    }
    if isinstance(security.token, ClientCredentials):
        credentials = security.token
        given |= {
            "tokenEndpoint": credentials.url,
            "tokenEndpointCa": None if credentials.ca is None else fspath(credentials.ca),
            "clientId": credentials.client_id,
            "clientSecret": credentials.client_secret,
            "scope": credentials.scope,
        }
    return {f"security.{name}": value for name, value in given.items() if value is not None}


def absolute_paths(options: Mapping[str, str]) -> dict[str, str]:
    """The security options with absolute paths, for a process that works in another folder."""
    return {name: os.path.abspath(value) if name in FILES else value for name, value in options.items()}


def connection_of(options: OptionText) -> ConnectionSettings:
    for name in ("security.tls", "security.checkHostname"):
        options.flag(name, False)
    login = []
    for name in SECURITY:
        value = options.text(name)
        if value is not None:
            short = name.removeprefix("security.")
            login.append((short, value.lower() if short in ("tls", "checkHostname") else value))
    settings = ConnectionSettings(
        bootstrap=options.needed("bootstrap", "127.0.0.1:9092"),
        client_id=options.text("clientId") or "tidelog-spark",
        timeout_ms=options.count("timeoutMs", TIMEOUT_MS),
        login=tuple(login),
    )
    settings.security()
    return settings
