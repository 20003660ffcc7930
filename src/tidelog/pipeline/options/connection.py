"""The options that the source and the sink share: the brokers' addresses, and security.  Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tidelog.client.security.security import Security
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
        token_file, token = given.get("tokenFile"), given.get("token")
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
                token=_token(token, token_file),
            )
        except ValueError as problem:
            raise PipelineError(f"security options: {problem}") from None


def _token(token: str | None, token_file: str | None) -> Callable[[], str] | None:
    if token_file is not None:
        path = Path(token_file)
        return lambda: path.read_text().strip()
    return None if token is None else lambda: token


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
