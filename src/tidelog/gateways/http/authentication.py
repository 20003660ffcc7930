"""Who sends an HTTP request: Basic with the users of Kafka's listeners, a Bearer token, a Kerberos ticket, the console's
session cookie, or another broker on behalf of a user.

A refusal has one shape, whatever was wrong.  It comes after a delay, is counted, and logged with the address of the client.
An address that has failed five times in a minute for a user is refused without a look at the password until the minute is
over.  Every table here is bounded."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import logging
import secrets
from collections import Counter, OrderedDict, deque
from typing import TYPE_CHECKING, NamedTuple

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import Scope

from tidelog import errors
from tidelog.broker.bounds.fair_threads import ThreadsCrowded
from tidelog.gateways.http.problem import Problem
from tidelog.gateways.http.scrape_tokens import METRICS, SCRAPER, ScrapeTokens
from tidelog.net.on_behalf import Behalf

if TYPE_CHECKING:
    from tidelog.broker.services import Services
    from tidelog.broker.session import Session

log = logging.getLogger("tidelog.login")

ON_BEHALF = "tidelog-on-behalf"
SESSION_COOKIE = "tidelog_session"
SESSIONS_MAX = 10_000
SESSION_MS_MAX = 12 * 3_600_000
SESSION_IDLE_MS_MAX = 3_600_000
VERDICTS_MAX = 1_000
VERDICT_MS = 30_000
FAILURES_MAX = 5
FAILURES_WITHIN_MS = 60_000
FAILING_MAX = 10_000
VERIFYING_MAX = 4
WAITING_MAX = 64
LOGIN_BYTES_MAX = 16_384
TICKET_LENGTH_MAX = 65_536
NEGOTIATE = "Negotiate"
NEGOTIATED = "tidelog.negotiated"  # in the scope: what proves the broker to who sent a ticket
CHALLENGE = {"www-authenticate": 'Basic realm="Tidelog", charset="UTF-8", Bearer realm="Tidelog"'}
OPENID_CONNECT = "OPENID-CONNECT"
WORDS = "a login is needed: the user name and password, or the token, are missing or wrong"


class Refused(Exception):
    """Why, for the log only."""


class HttpIdentity(NamedTuple):
    principal: str
    groups: tuple[str, ...]
    expires_ms: int | None
    """When the token expires; None for a password."""
    fingerprint: tuple[object, ...]
    """A fingerprint of the user's password at the log-in; empty for a token."""


class _ConsoleSession(NamedTuple):
    identity: HttpIdentity
    began_ms: int
    used_ms: int


class Authentication:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._key = secrets.token_bytes(32)
        self._verdicts: OrderedDict[bytes, tuple[HttpIdentity, int]] = OrderedDict()
        self._sessions: OrderedDict[str, _ConsoleSession] = OrderedDict()
        self._failures: OrderedDict[tuple[str, str], deque[int]] = OrderedDict()
        self._verifying = asyncio.Semaphore(VERIFYING_MAX)
        self._waiting: Counter[str] = Counter()
        self._scrape_tokens = ScrapeTokens(
            lambda: services.config().tidelog_http_metrics_token_file, self._now_ms
        )

    # Requests

    async def identify(self, scope: Scope) -> Session:
        """The session of this request; raises `Problem` 401 unless the request proves who sent it."""
        headers = Headers(scope=scope)
        given = headers.get("authorization", "")
        scheme, _, proof = given.partition(" ")
        scheme, proof = scheme.lower(), proof.strip()
        if scheme == ON_BEHALF:
            behalf = self._services.logins.verify_on_behalf(proof.encode("latin-1"))
            if behalf is None:
                raise await self.refused(
                    scope, "another broker", "its message is not of this cluster, or too old"
                )
            return self._session(scope, behalf.principal, behalf.groups, behalf.host)
        reads_metrics = scope.get("path") == METRICS and scope.get("method") in ("GET", "HEAD")
        if scheme == "bearer" and reads_metrics and self._scrape_tokens.accepts(proof):
            return self._session(scope, SCRAPER, ())
        if given:
            identity = await self._logged_in(scope, scheme, proof)
        else:
            cookie_identity = self._of_cookie(headers)
            if cookie_identity is None:
                # No attempt, so that it is neither delayed nor counted.
                raise _challenge()
            identity = cookie_identity
        return self._session(scope, identity.principal, identity.groups)

    def anonymous(self, scope: Scope) -> Session:
        return self._services.gate.open("HTTP", _peer(scope), "HTTP")

    def _session(
        self, scope: Scope, principal: str, groups: tuple[str, ...], host: str | None = None
    ) -> Session:
        session = self._services.gate.open("HTTP", _peer(scope), "HTTP")
        session.principal, session.groups = principal, groups
        if host is not None:
            session.host = host
        return session

    async def _logged_in(self, scope: Scope, scheme: str, proof: str) -> HttpIdentity:
        if scheme == "bearer":
            return await self.verified(scope, "OAUTHBEARER", "a token", proof)
        if scheme == NEGOTIATE.lower() and self.negotiates:
            return await self.ticket_holder(scope, proof)
        if scheme != "basic":
            raise await self.refused(scope, "a client", f"{scheme[:20]!r} is no way to log in here")
        try:
            text = base64.b64decode(proof, validate=True).decode()
        except (binascii.Error, ValueError):
            raise await self.refused(scope, "a client", "its Basic login cannot be read") from None
        user, _, password = text.partition(":")
        return await self.verified(scope, "PLAIN", user, password)

    async def verified(self, scope: Scope, mechanism: str, user: str, proof: str) -> HttpIdentity:
        """The identity behind a password or a token; raises `Problem`."""
        if len(user) + len(proof) > LOGIN_BYTES_MAX:
            raise await self.refused(scope, user, "the login is too long", mechanism)
        key = hmac.digest(self._key, f"{mechanism}\0{user}\0{proof}".encode("utf-8", "replace"), "sha256")
        verdict = self._verdict(key)
        if verdict is not None:
            return verdict
        failing = self._failing_key(scope, user)
        now_ms = self._now_ms()
        by_password = mechanism == "PLAIN"  # nobody guesses a signature
        if by_password and self._is_locked_out(failing, now_ms):
            raise await self.refused(scope, user, "it has failed too often in the last minute", mechanism)
        try:
            identity = await self._verify(mechanism, user, proof, failing[0])
        except (Refused, errors.SaslAuthenticationFailed) as problem:
            if by_password:
                self._failed(failing, now_ms)
            raise await self.refused(scope, user, str(problem), mechanism) from None
        self._failures.pop(failing, None)
        self._succeeded(scope, mechanism, identity)
        self._keep(key, identity)
        return identity

    async def _verify(self, mechanism: str, user: str, proof: str, host: str) -> HttpIdentity:
        """One exchange of SASL.  The hashing is left to threads, few at a time; a token may wait for the keys of its
        provider, and takes no place of a password meanwhile."""
        if self._waiting[mechanism] >= WAITING_MAX:
            raise _crowded()
        fingerprint = self._services.logins.fingerprint(user) if mechanism == "PLAIN" else ()
        exchange = self._services.logins.http_exchange(mechanism, host)
        self._waiting[mechanism] += 1
        try:
            if mechanism == "PLAIN":
                async with self._verifying:
                    await exchange.respond(f"\0{user}\0{proof}".encode())
            else:
                await exchange.respond(f"n,,\x01auth=Bearer {proof}\x01\x01".encode())
        except ThreadsCrowded:
            raise _crowded() from None
        finally:
            self._waiting[mechanism] -= 1
        if exchange.principal is None:
            raise Refused("the token does not count")
        return HttpIdentity(exchange.principal, exchange.groups, exchange.expires_ms, fingerprint)

    @property
    def negotiates(self) -> bool:
        return self._services.config().http_negotiates

    async def ticket_holder(self, scope: Scope, proof: str) -> HttpIdentity:
        """The user of this ticket; raises `Problem`.  No verdict is kept: a ticket counts once."""
        mechanism, claimed = "GSSAPI", "a ticket's holder"
        host = _peer(scope).rpartition(":")[0]
        try:
            if len(proof) > TICKET_LENGTH_MAX:
                raise Refused("its ticket is too long")
            ticket = base64.b64decode(proof, validate=True)
            if self._waiting[mechanism] >= WAITING_MAX:
                raise _crowded()
            exchange = self._services.logins.http_exchange(mechanism, host)
            self._waiting[mechanism] += 1
            try:
                scope[NEGOTIATED] = base64.b64encode(await exchange.respond(ticket)).decode()
            finally:
                self._waiting[mechanism] -= 1
        except ThreadsCrowded:
            raise _crowded() from None
        except (ValueError, Refused, errors.SaslAuthenticationFailed) as problem:
            raise await self.refused(scope, claimed, str(problem), mechanism) from None
        assert exchange.principal is not None
        identity = HttpIdentity(exchange.principal, exchange.groups, None, ())
        self._ticket_counted(scope, host, identity)
        return identity

    def _ticket_counted(self, scope: Scope, host: str, identity: HttpIdentity) -> None:
        """Recorded as often as a password is checked, and not with every request."""
        key = hmac.digest(self._key, f"GSSAPI\0{host}\0{identity.principal}".encode(), "sha256")
        if self._verdict(key) is None:
            self._succeeded(scope, "GSSAPI", identity)
            self._keep(key, identity)

    def _keep(self, key: bytes, identity: HttpIdentity) -> None:
        self._verdicts[key] = identity, self._now_ms() + VERDICT_MS
        if len(self._verdicts) > VERDICTS_MAX:
            self._verdicts.popitem(last=False)

    def _verdict(self, key: bytes) -> HttpIdentity | None:
        identity, until_ms = self._verdicts.get(key, (None, 0))
        if identity is None:
            return None
        if self._now_ms() >= until_ms or not self._still_counts(identity):
            del self._verdicts[key]
            return None
        return identity

    def _still_counts(self, identity: HttpIdentity) -> bool:
        """Whether the token has not expired, and the password of the user is the one that was checked."""
        if identity.expires_ms is not None and self._services.clock.now_ms() >= identity.expires_ms:
            return False
        if not identity.fingerprint:
            return True
        user = identity.principal.partition(":")[2]
        return self._services.logins.fingerprint(user) == identity.fingerprint

    # Failures

    async def refused(self, scope: Scope, user: str, why: str, mechanism: str = "HTTP") -> Problem:
        """To be raised.  All refusals look the same, and come after the same delay."""
        session = self.anonymous(scope)
        self._services.gate.audit.login_refused(session, mechanism, user, why)
        self._services.logins.failed += 1
        log.warning("refused the HTTP login of %s from %s: %s", _shown(user), _peer(scope), why)
        await asyncio.sleep(self._services.logins.refusal_delay_s(_peer(scope).rpartition(":")[0]))
        return _challenge()

    def _failing_key(self, scope: Scope, user: str) -> tuple[str, str]:
        return _peer(scope).rpartition(":")[0], hashlib.sha256(user.encode("utf-8", "replace")).hexdigest()

    def _is_locked_out(self, key: tuple[str, str], now_ms: int) -> bool:
        times = self._failures.get(key)
        return times is not None and len(times) == FAILURES_MAX and now_ms - times[0] < FAILURES_WITHIN_MS

    def _failed(self, key: tuple[str, str], now_ms: int) -> None:
        self._failures.setdefault(key, deque(maxlen=FAILURES_MAX)).append(now_ms)
        self._failures.move_to_end(key)
        if len(self._failures) > FAILING_MAX:
            self._failures.popitem(last=False)

    # Sessions of the console

    def open_console(self, identity: HttpIdentity) -> str:
        """A new id for the cookie; never one that the browser brought."""
        session_id, now_ms = secrets.token_urlsafe(32), self._now_ms()
        self._sessions[_digest(session_id)] = _ConsoleSession(identity, now_ms, now_ms)
        if len(self._sessions) > SESSIONS_MAX:
            self._sessions.popitem(last=False)
        return session_id

    def _succeeded(self, scope: Scope, mechanism: str, identity: HttpIdentity) -> None:
        self._services.logins.succeeded += 1
        session = self._session(scope, identity.principal, identity.groups)
        self._services.gate.audit.logged_in(session, mechanism)

    def logged_in(self, scope: Scope, identity: HttpIdentity) -> str:
        """As `open_console`, for a log-in that was checked elsewhere."""
        self._succeeded(scope, OPENID_CONNECT, identity)
        return self.open_console(identity)

    def close_console(self, session_id: str) -> None:
        self._sessions.pop(_digest(session_id), None)

    def _of_cookie(self, headers: Headers) -> HttpIdentity | None:
        session_id = cookie_parser(headers.get("cookie", "")).get(SESSION_COOKIE)
        if not session_id:
            return None
        key, now_ms = _digest(session_id), self._now_ms()
        session = self._sessions.get(key)
        if session is None:
            return None
        is_old = now_ms - session.began_ms > SESSION_MS_MAX or now_ms - session.used_ms > SESSION_IDLE_MS_MAX
        if is_old or not self._still_counts(session.identity):
            del self._sessions[key]
            return None
        self._sessions[key] = session._replace(used_ms=now_ms)
        self._sessions.move_to_end(key)
        return session.identity

    def _now_ms(self) -> int:
        return self._services.clock.monotonic_ms()


def signed_headers(services: Services, behalf: Behalf | None) -> dict[str, str]:
    """What a request to the HTTP port of another broker carries: on whose behalf it is."""
    if behalf is None or not services.config().http_logs_in:
        return {}
    return {"authorization": f"{ON_BEHALF} {services.logins.sign_on_behalf(behalf)}"}


def _crowded() -> Problem:
    return Problem(503, "too many logins are under way: try again", headers={"retry-after": "1"})


def _challenge() -> Problem:
    return Problem(401, WORDS, 40101, CHALLENGE)


def _peer(scope: Scope) -> str:
    host, port = scope.get("client") or ("unknown", 0)
    return f"{host}:{port}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _shown(user: str) -> str:
    return repr(user[:100])
