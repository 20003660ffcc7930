"""Settings about OAuth: which tokens a listener takes, where the provider's keys are, how brokers get tokens of their own,
and the OpenID Connect log-in of the console.

The names are Kafka's (`sasl.oauthbearer.*`), and `tidelog.oauthbearer.*` where Kafka has none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import cast
from urllib.parse import urlsplit

from tidelog.config.setting import Value
from tidelog.errors import InvalidConfig

OAUTH_PREFIXES = ("sasl.oauthbearer.", "tidelog.oauthbearer.")
TIMEOUT_MS = 10_000
_RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"


@dataclass(frozen=True, slots=True)
class ProviderConnection:
    """How a token provider is reached."""

    truststore_location: str | None = None
    """PEM file with its authorities; None: those of the system."""
    connect_timeout_ms: int = TIMEOUT_MS
    read_timeout_ms: int = TIMEOUT_MS


@dataclass(frozen=True, slots=True)
class KeyEndpoint:
    """Where the keys of a provider are, and how often they are asked for."""

    url: str
    connection: ProviderConnection = field(default_factory=ProviderConnection)
    refresh_ms: int = 3_600_000
    retry_ms: int = 100
    retry_ms_max: int = 10_000
    reload_ms_min: int = 10_000
    """Between two loads for tokens whose key is unknown: anybody can make up key ids."""
    stale_ms_max: int = 86_400_000
    """How long keys serve that cannot be loaded again."""


@dataclass(frozen=True, slots=True)
class LoginRefresh:
    """When a token is renewed, and when the provider is asked again after a failure."""

    window_factor: float = 0.8
    """Share of the token's life after which it is renewed."""
    window_jitter: float = 0.05
    min_period_s: int = 60
    buffer_s: int = 300
    """Kept between a renewal and the end of the token."""
    retry_ms: int = 100
    retry_ms_max: int = 10_000


@dataclass(frozen=True, slots=True)
class ClientAssertion:
    """A JSON Web Token that proves to the token endpoint who asks (RFC 7523): from a file, or signed with a key."""

    file: str | None = None
    private_key_file: str | None = None
    passphrase: str | None = field(default=None, repr=False)
    algorithm: str = "RS256"
    audience: str | None = None
    issuer: str | None = None
    subject: str | None = None
    life_s: int = 300
    not_before_s: int = 60
    has_id: bool = False
    template_file: str | None = None


@dataclass(frozen=True, slots=True)
class TokenClient:
    """How a broker gets a token for itself: from the token endpoint, or from a file that something else renews."""

    url: str
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    scope: str | None = None
    connection: ProviderConnection = field(default_factory=ProviderConnection)
    assertion: ClientAssertion | None = None
    assertion_is_grant: bool = False
    """Whether the assertion itself is the grant; otherwise it takes the place of the client's secret."""
    refresh: LoginRefresh = field(default_factory=LoginRefresh)


@dataclass(frozen=True, slots=True)
class OauthSettings:
    """Of one listener."""

    connection: ProviderConnection = field(default_factory=ProviderConnection)
    keys: KeyEndpoint | None = None
    client: TokenClient | None = None
    expected_issuer: str | None = None
    expected_audience: tuple[str, ...] = ()
    scope_claim_name: str = "scope"
    sub_claim_name: str = "sub"
    groups_claim_name: str | None = None
    required_scopes: tuple[str, ...] = ()
    clock_skew_seconds: int = 30


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """The log-in page's way through an OpenID Connect provider."""

    issuer: str
    client_id: str
    client_secret: str | None = field(repr=False)
    redirect_url: str
    scopes: tuple[str, ...]
    user_claim_name: str
    groups_claim_name: str | None
    session_ms_max: int
    name: str
    """On the button."""


CALLBACK = "/console/login/oidc/callback"


def oidc_settings(value: Callable[[str], Value]) -> OidcSettings | None:
    """None without an issuer; `value` gets names below `tidelog.http.oidc.`."""
    prefix = "tidelog.http.oidc."
    issuer, client_id, redirect = (
        cast("str | None", value(prefix + name)) or None for name in ("issuer", "client.id", "redirect.url")
    )
    given = {"issuer": issuer, "client.id": client_id, "redirect.url": redirect}
    missing = [prefix + name for name, text in given.items() if text is None]
    if issuer is None or client_id is None or redirect is None:
        if len(missing) < len(given):
            raise InvalidConfig(f"{missing[0]} is missing: the log-in with OpenID Connect needs it")
        return None
    scopes = cast("tuple[str, ...]", value(prefix + "scopes"))
    if "openid" not in scopes:
        raise InvalidConfig(f"{prefix}scopes lacks openid: without it there is no id token")
    checked_url(issuer, prefix + "issuer", ("https",))
    if urlsplit(checked_url(redirect, prefix + "redirect.url", ("https",))).path != CALLBACK:
        raise InvalidConfig(f"{prefix}redirect.url cannot be {redirect!r}: it must end with {CALLBACK}")
    return OidcSettings(
        issuer,
        client_id,
        cast("str | None", value(prefix + "client.secret")) or None,
        redirect,
        scopes,
        str(value(prefix + "user.claim.name")),
        cast("str | None", value(prefix + "groups.claim.name")) or None,
        cast(int, value(prefix + "session.max.ms")),
        str(value(prefix + "name")) or urlsplit(issuer).hostname or issuer,
    )


def oauth_settings(value: Callable[[str], Value]) -> OauthSettings:
    def text(name: str) -> str | None:
        return cast("str | None", value(name)) or None

    def number(name: str) -> int:
        setting_value = value(name)
        return TIMEOUT_MS if setting_value is None else int(cast(int, setting_value))

    connection = ProviderConnection(
        text("tidelog.oauthbearer.truststore.location"),
        number("sasl.login.connect.timeout.ms"),
        number("sasl.login.read.timeout.ms"),
    )
    url, token_url = text("sasl.oauthbearer.jwks.endpoint.url"), text("sasl.oauthbearer.token.endpoint.url")
    keys = client = None
    if url is not None:
        keys = KeyEndpoint(
            checked_url(url, "sasl.oauthbearer.jwks.endpoint.url"),
            connection,
            number("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
            number("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
            number("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"),
            number("tidelog.oauthbearer.jwks.reload.min.ms"),
            number("tidelog.oauthbearer.jwks.stale.max.ms"),
        )
    if token_url is not None:
        retriever = (text(_RETRIEVER) or "").rpartition(".")[2]
        is_file = urlsplit(token_url).scheme == "file"
        if retriever != "DefaultJwtRetriever" and is_file != (retriever == "FileJwtRetriever"):
            raise InvalidConfig(
                f"{_RETRIEVER} is {retriever}, which does not fit the {'file' if is_file else 'address'} in "
                "sasl.oauthbearer.token.endpoint.url: DefaultJwtRetriever fits both"
            )
        client = TokenClient(
            checked_url(token_url, "sasl.oauthbearer.token.endpoint.url"),
            text("sasl.oauthbearer.client.credentials.client.id"),
            text("sasl.oauthbearer.client.credentials.client.secret"),
            text("sasl.oauthbearer.scope"),
            connection,
            _client_assertion(text, number, value),
            retriever == "JwtBearerJwtRetriever",
            LoginRefresh(
                cast(float, value("sasl.login.refresh.window.factor")),
                cast(float, value("sasl.login.refresh.window.jitter")),
                number("sasl.login.refresh.min.period.seconds"),
                number("sasl.login.refresh.buffer.seconds"),
                number("sasl.login.retry.backoff.ms"),
                number("sasl.login.retry.backoff.max.ms"),
            ),
        )
    return OauthSettings(
        connection,
        keys,
        client,
        text("sasl.oauthbearer.expected.issuer"),
        cast("tuple[str, ...]", value("sasl.oauthbearer.expected.audience")),
        text("sasl.oauthbearer.scope.claim.name") or "scope",
        text("sasl.oauthbearer.sub.claim.name") or "sub",
        text("tidelog.oauthbearer.groups.claim.name"),
        cast("tuple[str, ...]", value("tidelog.oauthbearer.required.scopes")),
        number("sasl.oauthbearer.clock.skew.seconds"),
    )


def _client_assertion(
    text: Callable[[str], str | None], number: Callable[[str], int], value: Callable[[str], Value]
) -> ClientAssertion | None:
    """None unless there is a file with an assertion, or a key that signs one."""
    prefix = "sasl.oauthbearer.assertion."
    file, key_file = text(f"{prefix}file"), text(f"{prefix}private.key.file")
    if file is None and key_file is None:
        return None
    return ClientAssertion(
        file,
        key_file,
        text(f"{prefix}private.key.passphrase"),
        text(f"{prefix}algorithm") or "RS256",
        text(f"{prefix}claim.aud"),
        text(f"{prefix}claim.iss"),
        text(f"{prefix}claim.sub"),
        number(f"{prefix}claim.exp.seconds"),
        number(f"{prefix}claim.nbf.seconds"),
        bool(value(f"{prefix}claim.jti.include")),
        text(f"{prefix}template.file"),
    )


def checked_url(url: str, setting: str, schemes: tuple[str, ...] = ("https", "file")) -> str:
    """http: only to this machine, since whoever changes the keys on the way can be anybody."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise InvalidConfig(f"{setting} cannot be {url!r}: it is no URL") from None
    if parts.scheme == "http" and "https" in schemes:
        if not is_loopback(host):
            raise InvalidConfig(
                f"{setting} cannot be {url!r}: http: is only for addresses of this machine; use https:"
            )
    elif parts.scheme not in schemes:
        raise InvalidConfig(
            f"{setting} cannot be {url!r}: it must begin with {' or '.join(f'{name}:' for name in schemes)}"
        )
    if parts.scheme != "file" and (not host or parts.username is not None):
        raise InvalidConfig(f"{setting} cannot be this URL: it needs a host, and must have no user in it")
    return url


def is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
