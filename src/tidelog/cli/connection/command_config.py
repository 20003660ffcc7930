"""The security settings of a command: `--command-config`, a properties file under the names of Kafka's Java client or of
librdkafka, and above it the options for TLS and the log-in."""

from __future__ import annotations

import ssl
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

import click

if TYPE_CHECKING:
    from tidelog.aio import Security
    from tidelog.net.token_client import ClientCredentials

T = TypeVar("T")

_JAAS = "sasl.jaas.config"
_TRUST = ("ssl.truststore.location", "ssl.ca.location")
_CERTIFICATE = ("ssl.keystore.location", "ssl.certificate.location")
# A file for Java says of what kind its files are; ours are PEM, and a file of another kind is refused when it is read.
_KNOWN = {
    *("security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password", _JAAS),
    *_TRUST,
    *_CERTIFICATE,
    *("ssl.key.location", "ssl.key.password", "ssl.endpoint.identification.algorithm"),
    *("ssl.truststore.type", "ssl.keystore.type"),
    *("sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.scope", "sasl.oauthbearer.method"),
    *("sasl.kerberos.service.name", "sasl.kerberos.principal", "sasl.kerberos.keytab"),
    *("sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.id"),
    *("sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.client.secret"),
}
_SAME = (
    _TRUST,
    _CERTIFICATE,
    ("sasl.mechanism", "sasl.mechanisms"),
    ("sasl.username", _JAAS),
)
_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
_BASIC = ("schema.registry.basic.auth.user.info", "basic.auth.user.info")
_BEARER = ("schema.registry.bearer.auth.token", "bearer.auth.token")
_PROVIDER_CA = "https.ca.location"
_CLIENT_ID = ("sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.id")
_CLIENT_SECRET = ("sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.client.secret")


@dataclass(frozen=True, slots=True)
class RegistryLogin:
    """How the schema registry is asked: Basic or Bearer, and the authorities of its certificate."""

    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    authorization: Callable[[str], str] | None = None
    context: ssl.SSLContext | None = None
    of_brokers: bool = False
    """The log-in is the one for brokers: it was not given for this registry, and must not leave in plain text."""

    def header(self, host: str) -> str | None:
        """The value of Authorization for a server on this host."""
        if self.authorization is not None:
            return self.authorization(host)
        if self.token is not None:
            return f"Bearer {self.token}"
        if self.username is None:
            return None
        return f"Basic {b64encode(f'{self.username}:{self.password}'.encode()).decode()}"


def check_encrypted(urls: str, instead: str) -> None:
    """The log-in for brokers must not leave in plain text, unless it stays on this machine."""
    from tidelog.config.oauth import is_loopback

    for url in urls.split(","):
        parts = urlsplit(url)
        if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            raise click.ClickException(
                f"{url} is not encrypted, and the log-in of --command-config would be readable on the way: use https:, or "
                f"give {instead}"
            )


@dataclass(frozen=True, slots=True)
class ClientLogin:
    """How a command connects.  What is wrong with it ends as a click.BadParameter, which never shows a password."""

    file: Path | None = None
    tls: bool | None = None
    """None: what the file says, and TLS where an option needs TLS."""
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Above those of the file, under the same names."""

    def security(self) -> Security | None:
        """None for a connection with neither TLS nor a log-in."""
        return self._made(_broker_security)

    def registry_login(self) -> RegistryLogin:
        """`basic.auth.user.info` or `bearer.auth.token` of the file, and if neither is there, what brokers get."""
        return self._made(_registry_login)

    def _made(self, make: Callable[[dict[str, str]], T]) -> T:
        from tidelog.errors import TidelogError

        where = "TLS and log-in" if self.file is None else str(self.file)
        try:
            return make(self._merged())
        except OSError as problem:
            name = where if problem.filename is None else problem.filename
            raise click.BadParameter(f"{name}: {(problem.strerror or str(problem)).lower()}") from None
        except UnicodeDecodeError:
            raise click.BadParameter(f"{where} is not UTF-8 text") from None
        except (TidelogError, ValueError) as problem:
            raise click.BadParameter(f"{where}: {problem}") from None

    def _merged(self) -> dict[str, str]:
        from tidelog.config.listener_security import PROTOCOLS
        from tidelog.config.properties import parse_properties

        of_file = {} if self.file is None else parse_properties(self.file.read_text(encoding="utf-8"))
        if self.tls is None and not self.settings:
            return of_file
        # The file may use another of the names that mean the same, or name a user in a JAAS entry.
        hidden = {name for names in _SAME if any(same in self.settings for same in names) for name in names}
        merged = {name: value for name, value in of_file.items() if name not in hidden} | dict(self.settings)
        protocol = of_file.get("security.protocol", "PLAINTEXT").upper()
        if protocol not in PROTOCOLS:
            return of_file  # refused below, in these words
        encrypts = protocol.endswith("SSL") or any(name.startswith("ssl.") for name in self.settings)
        logs_in = protocol.startswith("SASL") or any(name.startswith("sasl.") for name in self.settings)
        if self.tls is not None:
            encrypts = self.tls
        merged["security.protocol"] = ("SASL_" if logs_in else "") + ("SSL" if encrypts else "PLAINTEXT")
        return merged


def read_security(path: Path) -> Security | None:
    """Of a file alone."""
    return ClientLogin(path).security()


def _registry_login(settings: dict[str, str]) -> RegistryLogin:
    security = _broker_security(settings)
    ca = _first(settings, _TRUST)
    context = None
    if security is not None:
        context = security.ssl_context()
    if context is None and ca is not None:
        context = ssl.create_default_context(cafile=ca)
    pair, token = _first(settings, _BASIC), _first(settings, _BEARER)
    if pair is not None:
        if ":" not in pair:
            raise ValueError("basic.auth.user.info is not of the form USER:PASSWORD")
        username, _, password = pair.partition(":")
        return RegistryLogin(username, password, context=context)
    if token is None and security is not None and security.token is not None:
        of_brokers = security.token()
        assert isinstance(of_brokers, str)
        return RegistryLogin(token=of_brokers, context=context, of_brokers=True)
    if token is not None:
        return RegistryLogin(token=token, context=context)
    if security is not None and security.username is not None:
        return RegistryLogin(security.username, security.password, context=context, of_brokers=True)
    if security is not None and security.mechanism == "GSSAPI":
        return RegistryLogin(authorization=partial(_ticket, security), context=context)
    return RegistryLogin(context=context)


def _ticket(security: Security, host: str) -> str:
    from tidelog.net.gss import Initiator, client_credential

    keytab = None if security.kerberos_keytab is None else str(security.kerberos_keytab)
    credential = client_credential(security.kerberos_principal, keytab)
    return f"Negotiate {b64encode(Initiator('HTTP', host, credential).respond(b'')).decode()}"


def _broker_security(settings: dict[str, str]) -> Security | None:
    from tidelog.config.listener_security import PROTOCOLS
    from tidelog.errors import InvalidConfig

    unknown = [name for name in settings if name.startswith(("ssl.", "sasl.")) and name not in _KNOWN]
    if unknown:
        raise InvalidConfig(f"{unknown[0]} is not a setting that the command line knows")
    protocol = settings.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise InvalidConfig(f"security.protocol must be one of {', '.join(PROTOCOLS)}")
    return _security(protocol, settings)


def _security(protocol: str, settings: dict[str, str]) -> Security | None:
    from tidelog.aio import Security
    from tidelog.config.jaas import parse_jaas

    if protocol == "PLAINTEXT":
        return None
    encrypts, logs_in = protocol.endswith("SSL"), protocol.startswith("SASL")
    username, password = settings.get("sasl.username"), settings.get("sasl.password")
    if logs_in and _JAAS in settings:
        entry = parse_jaas(settings[_JAAS], _JAAS)
        username, password = entry.username, entry.password
        given = {
            name: entry.options[name]
            for name in ("clientId", "clientSecret", "scope", "keyTab", "principal", "serviceName")
            if name in entry.options
        }
        settings = given | settings
    mechanism = settings.get("sasl.mechanism", settings.get("sasl.mechanisms", "")) if logs_in else None
    bears = mechanism == "OAUTHBEARER"
    by_password = logs_in and not bears and mechanism != "GSSAPI"
    certificate = _first(settings, _CERTIFICATE) if encrypts else None
    return Security(
        tls=encrypts,
        ca=_first(settings, _TRUST) if encrypts else None,
        certificate=certificate,
        key=settings.get("ssl.key.location") if encrypts else None,
        key_password=settings.get("ssl.key.password"),
        check_hostname=settings.get("ssl.endpoint.identification.algorithm", "https") != "",
        mechanism=mechanism,
        username=username if by_password else None,
        password=password if by_password else None,
        token=_credentials(settings) if bears else None,
        kerberos_service_name=_first(settings, ("sasl.kerberos.service.name", "serviceName")) or "kafka",
        kerberos_principal=_first(settings, ("sasl.kerberos.principal", "principal")),
        kerberos_keytab=_first(settings, ("sasl.kerberos.keytab", "keyTab")),
    )


def _credentials(settings: dict[str, str]) -> ClientCredentials:
    from tidelog.net.token_client import ClientCredentials

    if _ENDPOINT not in settings:
        raise ValueError(f"OAUTHBEARER needs {_ENDPOINT}: https:, or the file: of a token")
    return ClientCredentials(
        settings[_ENDPOINT],
        _first(settings, (*_CLIENT_ID, "clientId")),
        _first(settings, (*_CLIENT_SECRET, "clientSecret")),
        _first(settings, ("sasl.oauthbearer.scope", "scope")),
        settings.get(_PROVIDER_CA),
    )


def _first(settings: dict[str, str], names: tuple[str, ...]) -> str | None:
    return next((settings[name] for name in names if name in settings), None)
