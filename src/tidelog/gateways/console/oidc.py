"""The console's log-in through an OpenID Connect provider: the authorization code flow with PKCE.

What a log-in was begun with (state, nonce, verifier) lies in the browser, in a cookie that is signed and counts for ten
minutes; nothing is kept here for people who never come back.  Any broker of the cluster can finish what another began.
Requests to the provider run in threads, few at a time."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote_plus, urlencode, urlsplit

from tidelog.access.oauth import TokenPolicy, TokenRefused, key_id_of, validate_token
from tidelog.broker.jwks import KeySource
from tidelog.config.oauth import KeyEndpoint, OidcSettings, ProviderConnection, checked_url
from tidelog.errors import InvalidConfig
from tidelog.gateways.http.authentication import HttpIdentity
from tidelog.net.provider_request import ProviderFailed, ask_for_object

if TYPE_CHECKING:
    from tidelog.broker.services import Services

COOKIE = "tidelog_oidc"
COOKIE_PATH = "/console/login/oidc"
BEGUN_MS_MAX = 600_000
COOKIE_LENGTH_MAX = 8_192
CODE_LENGTH_MAX = 4_096
ASKING_MAX = 4
WAITING_MAX = 64
DISCOVERY_MS = 3_600_000
RETRY_MS = 2_000
NOT_BEGUN = "This log-in was not begun in this browser, or it took longer than ten minutes: try again."
NO_ANSWER = "The provider cannot be reached: try again, or log in with a password."
DOES_NOT_COUNT = "The provider's answer does not count: the log of the broker says why."


class LoginFailed(Exception):
    """`shown` is for the person, `why` for the log."""

    def __init__(self, shown: str, why: str, status: int = 403) -> None:
        super().__init__(why)
        self.shown, self.why, self.status = shown, why, status


class ProviderMetadata(NamedTuple):
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    secret_in_body: bool


class _Begun(NamedTuple):
    state: str
    nonce: str
    verifier: str
    following: str


class OidcLogin:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._keys: KeySource | None = None
        self._own_key = secrets.token_bytes(32)
        self._known: tuple[str, ProviderMetadata] | None = None
        self._due_ms = 0
        self._problem = ""
        self._discovering = asyncio.Lock()
        self._asking = asyncio.Semaphore(ASKING_MAX)
        self._waiting = 0

    @property
    def settings(self) -> OidcSettings | None:
        return self._services.config().oidc

    async def begin(self, settings: OidcSettings, following: str) -> tuple[str, str]:
        """(where the browser goes, what its cookie holds)"""
        provider = await self._provider(settings)
        begun = _Begun(
            secrets.token_urlsafe(32), secrets.token_urlsafe(32), secrets.token_urlsafe(32), following
        )
        challenge = _packed(hashlib.sha256(begun.verifier.encode()).digest())
        query = {
            "response_type": "code",
            "client_id": settings.client_id,
            "redirect_uri": settings.redirect_url,
            "scope": " ".join(settings.scopes),
            "state": begun.state,
            "nonce": begun.nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        separator = "&" if urlsplit(provider.authorization_endpoint).query else "?"
        return f"{provider.authorization_endpoint}{separator}{urlencode(query)}", self._signed(begun)

    async def finish(
        self, settings: OidcSettings, cookie: str, query: Mapping[str, str]
    ) -> tuple[HttpIdentity, str]:
        """(who has logged in, the page that was asked for)"""
        begun = self._begun(cookie)
        if begun is None or not hmac.compare_digest(begun.state.encode(), query.get("state", "").encode()):
            raise LoginFailed(NOT_BEGUN, "state and cookie do not belong together")
        if query.get("iss", settings.issuer) != settings.issuer:
            raise LoginFailed(DOES_NOT_COUNT, "the answer is of another issuer")
        code = query.get("code", "")
        if "error" in query or not 0 < len(code) <= CODE_LENGTH_MAX:
            reason = query.get("error", "no code")[:100]
            raise LoginFailed(f"The provider refused the log-in: {reason}.", f"the provider says {reason!r}")
        provider = await self._provider(settings)
        token = await self._token(settings, provider, code, begun.verifier)
        return await self._identity(settings, provider, token, begun.nonce), begun.following

    async def _token(
        self, settings: OidcSettings, provider: ProviderMetadata, code: str, verifier: str
    ) -> str:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": settings.redirect_url,
            "code_verifier": verifier,
        }
        headers = {"content-type": "application/x-www-form-urlencoded"}
        if settings.client_secret is None or provider.secret_in_body:
            form["client_id"] = settings.client_id
            if settings.client_secret is not None:
                form["client_secret"] = settings.client_secret
        else:
            login = f"{quote_plus(settings.client_id)}:{quote_plus(settings.client_secret)}"
            headers["authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
        answer = await self._ask(provider.token_endpoint, body=urlencode(form).encode(), headers=headers)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise LoginFailed(DOES_NOT_COUNT, "the token endpoint gave no id_token")
        return token

    async def _identity(
        self, settings: OidcSettings, provider: ProviderMetadata, token: str, nonce: str
    ) -> HttpIdentity:
        policy = TokenPolicy(
            expected_issuer=settings.issuer,
            expected_audience=(settings.client_id,),
            sub_claim_name=settings.user_claim_name,
            groups_claim_name=settings.groups_claim_name,
            expected_nonce=nonce,
            authorized_party=settings.client_id,
            issuer_setting="tidelog.http.oidc.issuer",
            audience_setting="tidelog.http.oidc.client.id",
        )
        if self._keys is None:
            self._keys = KeySource(self._services.clock)
        keys = await self._keys.keys(KeyEndpoint(provider.jwks_uri, self._connection), key_id_of(token))
        now_ms = self._services.clock.now_ms()
        try:
            token_identity = validate_token(token, keys, policy, now_ms)
        except TokenRefused as problem:
            raise LoginFailed(DOES_NOT_COUNT, str(problem)) from None
        groups = tuple(f"Group:{group}" for group in token_identity.groups)
        return HttpIdentity(f"User:{token_identity.name}", groups, now_ms + settings.session_ms_max, ())

    # The provider

    @property
    def _connection(self) -> ProviderConnection:
        return self._services.config().http_security.oauth.connection

    async def _provider(self, settings: OidcSettings) -> ProviderMetadata:
        """What its discovery document says.  The last good one serves while the provider is away."""
        async with self._discovering:
            now_ms = self._services.clock.monotonic_ms()
            if self._known is not None and self._known[0] != settings.issuer:
                self._known, self._due_ms = None, 0
            if now_ms >= self._due_ms:
                try:
                    document = await self._ask(
                        settings.issuer.rstrip("/") + "/.well-known/openid-configuration"
                    )
                    self._known = settings.issuer, _metadata(document, settings.issuer)
                    self._due_ms = now_ms + DISCOVERY_MS
                except LoginFailed as problem:
                    self._problem, self._due_ms = problem.why, now_ms + RETRY_MS
            if self._known is None:
                raise LoginFailed(NO_ANSWER, self._problem, 503)
            return self._known[1]

    async def _ask(self, url: str, **request: Any) -> dict[str, Any]:
        if self._waiting >= WAITING_MAX:
            raise LoginFailed("Too many log-ins are under way: try again.", "too many are under way", 503)
        self._waiting += 1
        try:
            async with self._asking:
                return await asyncio.to_thread(ask_for_object, url, self._connection, **request)
        except ProviderFailed as problem:
            raise LoginFailed(NO_ANSWER, str(problem), 503) from None
        finally:
            self._waiting -= 1

    # The cookie

    def _key(self) -> bytes:
        """The cluster's key, so that the browser may come back to another broker."""
        secret = self._services.access.secret or self._own_key
        return hmac.digest(secret, b"console log-in by OpenID Connect", "sha256")

    def _signed(self, begun: _Begun) -> str:
        until_ms = self._services.clock.now_ms() + BEGUN_MS_MAX
        content = _packed(json.dumps([*begun, until_ms]).encode())
        return f"{content}.{_packed(hmac.digest(self._key(), content.encode(), 'sha256'))}"

    def _begun(self, cookie: str) -> _Begun | None:
        content, _, signature = cookie.partition(".")
        expected = _packed(hmac.digest(self._key(), content.encode("utf-8", "replace"), "sha256"))
        if len(cookie) > COOKIE_LENGTH_MAX or not hmac.compare_digest(
            expected.encode(), signature.encode("utf-8", "replace")
        ):
            return None
        *begun, until_ms = json.loads(base64.urlsafe_b64decode(content + "=" * (-len(content) % 4)))
        return _Begun(*begun) if self._services.clock.now_ms() < until_ms else None


def _metadata(document: Mapping[str, Any], issuer: str) -> ProviderMetadata:
    if document.get("issuer") != issuer:
        raise LoginFailed(
            NO_ANSWER,
            f"the provider calls itself {str(document.get('issuer'))[:200]!r}: set {issuer!r} so",
            503,
        )
    addresses = []
    for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
        try:
            addresses.append(checked_url(str(document.get(name)), f"{name} of the provider", ("https",)))
        except InvalidConfig as problem:
            raise LoginFailed(NO_ANSWER, str(problem), 503) from None
    methods = document.get("token_endpoint_auth_methods_supported")
    in_body = isinstance(methods, list) and "client_secret_basic" not in methods
    return ProviderMetadata(addresses[0], addresses[1], addresses[2], in_body)


def _packed(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
