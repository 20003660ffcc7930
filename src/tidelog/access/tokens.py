"""Delegation tokens: made, renewed, expired, and what they log in with.  Pure: ids and clocks are passed in.

A token's HMAC is computed from its id with `delegation.token.secret.key`, so that nothing secret is stored; its base64
is the password with which SCRAM logs in under the token's id."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from tidelog import errors
from tidelog.access.principals import USER, Principal
from tidelog.access.scram import TokenLogin
from tidelog.metadata.access.access_records import TokenRecord
from tidelog.net.scram import ITERATIONS_MIN, ScramCredential

RENEWERS_MAX = 100

ChangeToken = Callable[[TokenRecord | None], TokenRecord | None]
"""From a token to what it becomes; None is no token."""


class TokenSettings(NamedTuple):
    """`delegation.token.*`; without a key there are no tokens."""

    secret_key: str | None
    max_lifetime_ms: int = 604_800_000
    expiry_time_ms: int = 86_400_000


def token_hmac(settings: TokenSettings, token_id: str) -> bytes:
    if settings.secret_key is None:
        raise errors.DelegationTokenAuthDisabled()
    return hmac.digest(settings.secret_key.encode(), token_id.encode(), "sha512")


def new_token(
    settings: TokenSettings,
    requester: str,
    owner: str | None,
    renewers: Iterable[str],
    max_lifetime_ms: int,
    now_ms: int,
) -> TokenRecord:
    """`owner` None: the requester.  A lifetime that is not positive is the longest allowed."""
    if settings.secret_key is None:
        raise errors.DelegationTokenAuthDisabled()
    who = tuple(renewers)
    if len(who) > RENEWERS_MAX:
        raise errors.InvalidRequest(f"a token has at most {RENEWERS_MAX} renewers")
    if any(Principal.parse(renewer).kind != USER for renewer in who):
        raise errors.InvalidPrincipalType()
    lifetime_ms = settings.max_lifetime_ms
    if max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, max_lifetime_ms)
    max_ms = now_ms + lifetime_ms
    expires_ms = min(max_ms, now_ms + settings.expiry_time_ms)
    return TokenRecord(owner or requester, requester, who, now_ms, expires_ms, max_ms)


def may_use(token: TokenRecord, principal: str) -> bool:
    """True if the principal may renew and expire the token."""
    return principal in (token.owner, *token.renewers)


def may_see(token: TokenRecord, principal: str) -> bool:
    """True if the principal may describe the token without a right to do so."""
    return principal in (token.owner, token.requester, *token.renewers)


def expired(token: TokenRecord, now_ms: int) -> bool:
    return token.max_ms < now_ms or token.expires_ms < now_ms


def renewed(
    settings: TokenSettings, token: TokenRecord | None, principal: str, period_ms: int, now_ms: int
) -> TokenRecord:
    token = _usable(settings, token, principal, now_ms)
    lifetime_ms = settings.expiry_time_ms
    if period_ms > 0:
        lifetime_ms = min(lifetime_ms, period_ms)
    return token._replace(expires_ms=min(token.max_ms, now_ms + lifetime_ms))


def expiring(
    settings: TokenSettings, token: TokenRecord | None, principal: str, period_ms: int, now_ms: int
) -> TokenRecord | None:
    """The token as it is from now on; None: it ends at once."""
    token = _usable(settings, token, principal, now_ms)
    return None if period_ms < 0 else token._replace(expires_ms=min(token.max_ms, now_ms + period_ms))


def _usable(settings: TokenSettings, token: TokenRecord | None, principal: str, now_ms: int) -> TokenRecord:
    if settings.secret_key is None:
        raise errors.DelegationTokenAuthDisabled()
    if token is None:
        raise errors.DelegationTokenNotFound()
    if expired(token, now_ms):
        raise errors.DelegationTokenExpired()
    if not may_use(token, principal):
        raise errors.DelegationTokenOwnerMismatch()
    return token


class Tokens:
    """All tokens of the cluster, by id and by HMAC; made anew when `Image.tokens` is another object."""

    def __init__(self, settings: TokenSettings, tokens: Mapping[str, TokenRecord]) -> None:
        self._settings = settings
        self._tokens = tokens
        self._ids: dict[bytes, str] | None = None
        self._logins: dict[tuple[str, str], ScramCredential] = {}

    def id_of(self, token_hmac_bytes: bytes) -> str | None:
        if self._settings.secret_key is None:
            return None
        if self._ids is None:
            self._ids = {token_hmac(self._settings, token_id): token_id for token_id in self._tokens}
        return self._ids.get(token_hmac_bytes)

    def login(self, mechanism: str, token_id: str, now_ms: int) -> TokenLogin | None:
        """What SCRAM with `tokenauth=true` checks; None: no such token, or it has expired.  The first time for a token
        it takes milliseconds."""
        token = self._tokens.get(token_id)
        if token is None or self._settings.secret_key is None or expired(token, now_ms):
            return None
        credential = self._logins.get((mechanism, token_id))
        if credential is None:
            password = base64.b64encode(token_hmac(self._settings, token_id)).decode()
            salt = hmac.digest(self._settings.secret_key.encode(), b"salt\0" + token_id.encode(), "sha256")
            credential = ScramCredential.of_password(mechanism, password, salt[:24], ITERATIONS_MIN)
            self._logins[mechanism, token_id] = credential
        return TokenLogin(token.owner, credential, token.expires_ms)
