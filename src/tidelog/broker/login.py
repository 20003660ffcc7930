"""SASL logins: the mechanisms of a listener, the exchange of each session, the lifetime of a login.

The exchanges themselves are pure (`access.scram`, `access.plain`, `access.oauth`; Kerberos is in `broker.kerberos`).  This
module finds the credentials that they need, runs slow steps on threads, and records logins and refusals."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from typing import Protocol

from tidelog import errors
from tidelog.access.login_failures import LoginFailures
from tidelog.access.oauth import BearerServer, TokenPolicy, key_id_of, parse_bearer
from tidelog.access.plain import listed_password_accepted, parse_plain, password_accepted
from tidelog.access.scram import ScramCredentials, ScramServer, TokenLogin
from tidelog.broker.access import Access
from tidelog.broker.bounds.fair_threads import FairThreads
from tidelog.broker.gate import Gate
from tidelog.broker.jwks import KeySource
from tidelog.broker.session import Session
from tidelog.clock import Clock
from tidelog.config import BrokerConfig
from tidelog.config.listener_security import ListenerSecurity
from tidelog.config.oauth import OauthSettings
from tidelog.logs import SparingLog
from tidelog.net import on_behalf

log = logging.getLogger("tidelog.login")
sparing = SparingLog(log)

SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
NONCE_BYTES = 24
ILLEGAL_STATE = "SaslAuthenticate came without a SaslHandshake"


class Exchange(Protocol):
    """One login: `respond` until `principal` is there, or SaslAuthenticationFailed."""

    mechanism: str
    claimed: str | None
    """The name that the client gives itself, as long as nothing proves it."""
    principal: str | None
    groups: tuple[str, ...]
    expires_ms: int | None
    of_token: bool

    async def respond(self, message: bytes) -> bytes: ...


class Logins:
    def __init__(
        self,
        gate: Gate,
        access: Access,
        config: Callable[[], BrokerConfig],
        clock: Clock,
        keys: KeySource,
    ) -> None:
        self._gate = gate
        self._access = access
        self._config = config
        self._clock = clock
        self._keys = keys
        self._hashing = FairThreads("login", lambda: config().tidelog_login_waiting_max)
        self._failures = LoginFailures()
        self.succeeded = 0
        self.failed = 0

    def security(self, session: Session) -> ListenerSecurity:
        return self._config().security.get(session.listener) or ListenerSecurity()

    def begin(self, session: Session, mechanism: str) -> None:
        """UnsupportedSaslMechanism, or IllegalSaslState where no login is possible."""
        security = self.security(session)
        if mechanism == on_behalf.MECHANISM:
            # Of the HTTP ports of the cluster's brokers, on listeners without a login, too; offered to nobody.
            session.authentication = _OnBehalf(self.verify_on_behalf)
            return
        if not session.protocol.startswith("SASL"):
            raise errors.IllegalSaslState(f"listener {session.listener} has no SASL")
        if mechanism not in security.mechanisms:
            self._gate.audit.login_refused(
                session, mechanism, None, "the listener does not offer this mechanism"
            )
            raise errors.UnsupportedSaslMechanism(
                f"listener {session.listener} does not offer {mechanism[:40]!r}: it offers {', '.join(security.mechanisms)}"
            )
        session.authentication = self._exchange(mechanism, security, session.host)

    def refusal_delay_s(self, host: str) -> float:
        """A login of this address was refused: how long the answer waits, which is longer with each further refusal."""
        factor = self._failures.failed(host, self._clock.monotonic_ms())
        return factor * self._config().connection_failed_authentication_delay_ms / 1000

    def _exchange(self, mechanism: str, security: ListenerSecurity, host: str) -> Exchange:
        if mechanism in SCRAM:
            return _Scram(mechanism, self._access.credentials(mechanism), self._find_token(mechanism))
        if mechanism == "PLAIN":
            entry = security.jaas.get("PLAIN")
            listed = {} if entry is None else entry.listed_users
            return self._plain(listed, host)
        if mechanism == "GSSAPI":
            from tidelog.broker.kerberos import KerberosExchange

            return KerberosExchange(security.kerberos, self._hashing, host)
        return _Bearer(self._keys, security.oauth, self._clock)

    def _plain(self, listed: dict[str, str], host: str) -> Exchange:
        stored = [(name, self._access.credentials(name)) for name in SCRAM]
        return _Plain(listed, stored, self._hashing, host)

    def http_exchange(self, mechanism: str, host: str) -> Exchange:
        """A login of one HTTP request: PLAIN with the users of every listener, OAUTHBEARER, or a ticket (GSSAPI)."""
        if mechanism == "OAUTHBEARER":
            return _Bearer(self._keys, self._config().http_security.oauth, self._clock)
        if mechanism == "GSSAPI":
            from tidelog.broker.kerberos import NegotiateExchange

            return NegotiateExchange(self._config().http_security.kerberos, self._hashing, host)
        return self._plain(self.listed_users(), host)

    def listed_users(self) -> dict[str, str]:
        """The users of PLAIN in the JAAS entries of all listeners that offer it."""
        listed: dict[str, str] = {}
        for security in self._config().security.values():
            entry = security.jaas.get("PLAIN")
            offers_plain = security.of_amqp or (security.has_login and "PLAIN" in security.mechanisms)
            if entry is not None and offers_plain:
                listed |= entry.listed_users
        return listed

    def fingerprint(self, user: str) -> tuple[object, ...]:
        """Another value once the passwords of this user are others."""
        stored = (self._access.stored_credential(name, user) for name in SCRAM)
        return self.listed_users().get(user), *stored

    def verify_on_behalf(self, message: bytes) -> on_behalf.Behalf | None:
        """Whose request another broker, or this one, hands on; None if the message is not of a broker of this cluster."""
        return on_behalf.verify(self._access.secret, message, self._clock.now_ms())

    def sign_on_behalf(self, behalf: on_behalf.Behalf) -> str:
        """CoordinatorNotAvailable until this broker knows the cluster's secret."""
        secret = self._access.secret
        if not secret:
            raise errors.CoordinatorNotAvailable("the cluster's secret is not known here yet: try again")
        return on_behalf.sign(secret, behalf, self._clock.now_ms())

    def _find_token(self, mechanism: str) -> Callable[[str], TokenLogin | None]:
        return lambda token_id: self._access.tokens.login(mechanism, token_id, self._clock.now_ms())

    async def respond(self, session: Session, message: bytes) -> tuple[bytes, int]:
        """(what the client is answered, for how many ms its login counts: 0 for as long as it stays)"""
        exchange: Exchange | None = session.authentication
        if exchange is None:
            raise errors.IllegalSaslState(ILLEGAL_STATE)
        if len(message) > self.security(session).sasl_message_bytes_max:
            session.authentication = None
            self._gate.audit.login_refused(session, exchange.mechanism, None, "the message is too large")
            raise errors.SaslAuthenticationFailed(
                "the SASL message is larger than sasl.server.max.receive.size"
            )
        try:
            answer = await exchange.respond(message)
            if exchange.principal is None:
                return answer, 0
            re_authenticates = session.admitted and session.protocol.startswith("SASL")
            if re_authenticates and exchange.principal != session.principal:
                raise errors.SaslAuthenticationFailed(
                    f"Cannot change principals during re-authentication from {session.principal}: {exchange.principal}"
                )
            self._take_place(session, exchange)
        except errors.TidelogError as problem:
            session.authentication = None
            self.failed += 1
            self._gate.audit.login_refused(session, exchange.mechanism, exchange.claimed, str(problem))
            sparing.warning(
                session.host,
                "refused the login of %s on listener %s: %s",
                session.peer,
                session.listener,
                problem,
            )
            raise
        session.authentication = None
        return answer, self._logged_in(session, exchange)

    def _take_place(self, session: Session, exchange: Exchange) -> None:
        """SaslAuthenticationFailed when the tenant of who logs in has no connection left."""
        assert exchange.principal is not None
        tenant = self._gate.tenants.of(exchange.principal, exchange.groups)
        try:
            self._gate.tenant_connections.took(session, tenant)
        except errors.PolicyViolation as problem:
            raise errors.SaslAuthenticationFailed(str(problem)) from None

    def _logged_in(self, session: Session, exchange: Exchange) -> int:
        assert exchange.principal is not None
        session.principal, session.groups = exchange.principal, exchange.groups
        session.of_token = exchange.of_token
        if isinstance(exchange, _OnBehalf):
            session.host = exchange.host
        self._gate.admitted(session)
        self.succeeded += 1
        if not isinstance(exchange, _OnBehalf):  # the HTTP port has recorded the log-in of its client
            self._gate.audit.logged_in(session, exchange.mechanism)
        lifetimes = [self.security(session).max_reauth_ms] if self.security(session).max_reauth_ms > 0 else []
        if exchange.expires_ms is not None:
            lifetimes.append(max(exchange.expires_ms - self._clock.now_ms(), 1))
        session.expire_after(min(lifetimes, default=0), asyncio.get_running_loop())
        return min(lifetimes, default=0)


class _Scram:
    def __init__(
        self,
        mechanism: str,
        credentials: ScramCredentials,
        find_token: Callable[[str], TokenLogin | None],
    ) -> None:
        self._server = ScramServer(mechanism, credentials, secrets.token_urlsafe(NONCE_BYTES), find_token)
        self.mechanism = mechanism
        self.claimed: str | None = None
        self.principal: str | None = None
        self.groups: tuple[str, ...] = ()
        self.expires_ms: int | None = None
        self.of_token = False

    async def respond(self, message: bytes) -> bytes:
        try:
            answer = self._server.respond(message)
        finally:
            self.claimed = self._server.username or None
        if self._server.complete:
            token = self._server.token
            self.principal = f"User:{self._server.username}" if token is None else token.owner
            self.expires_ms = None if token is None else token.expires_ms
            self.of_token = token is not None
        return answer


class _Plain:
    """Users of the JAAS configuration, and those with SCRAM credentials."""

    mechanism = "PLAIN"

    def __init__(
        self,
        listed: dict[str, str],
        stored: list[tuple[str, ScramCredentials]],
        hashing: FairThreads,
        host: str,
    ) -> None:
        self._listed = listed
        self._stored = stored
        self._hashing = hashing
        self._host = host
        self.claimed: str | None = None
        self.principal: str | None = None
        self.groups: tuple[str, ...] = ()
        self.expires_ms: int | None = None
        self.of_token = False

    async def respond(self, message: bytes) -> bytes:
        login = parse_plain(message)
        self.claimed = login.username
        accepted = listed_password_accepted(self._listed, login)
        for mechanism, credentials in self._stored:
            # Thousands of rounds of hashing, as often for a user that is not there: not on the event loop.
            fits = await self._hashing.run(self._host, password_accepted, mechanism, credentials, login)
            accepted = accepted or fits
        if not accepted:
            raise errors.SaslAuthenticationFailed("Authentication failed: Invalid username or password")
        self.principal = f"User:{login.username}"
        return b""


def token_policy(oauth: OauthSettings) -> TokenPolicy:
    return TokenPolicy(
        expected_issuer=oauth.expected_issuer,
        expected_audience=oauth.expected_audience,
        scope_claim_name=oauth.scope_claim_name,
        sub_claim_name=oauth.sub_claim_name,
        groups_claim_name=oauth.groups_claim_name,
        clock_skew_seconds=oauth.clock_skew_seconds,
        required_scopes=frozenset(oauth.required_scopes),
    )


class _Bearer:
    mechanism = "OAUTHBEARER"
    claimed: str | None = None
    """Nothing in a token counts before its signature does."""

    def __init__(self, keys: KeySource, oauth: OauthSettings, clock: Clock) -> None:
        self._keys = keys
        self._oauth = oauth
        self._clock = clock
        self._server: BearerServer | None = None
        self.principal: str | None = None
        self.groups: tuple[str, ...] = ()
        self.expires_ms: int | None = None
        self.of_token = False

    async def respond(self, message: bytes) -> bytes:
        if self._server is None:
            key_id = key_id_of(parse_bearer(message).token)
            keys = await self._keys.keys(self._oauth.keys, key_id)
            self._server = BearerServer(keys, token_policy(self._oauth))
        answer = self._server.respond(message, self._clock.now_ms())
        if self._server.refusal:
            log.warning("refused a token: %s", self._server.refusal)
        identity = self._server.identity
        if identity is not None:
            self.principal = f"User:{identity.name}"
            self.groups = tuple(f"Group:{group}" for group in identity.groups)
            self.expires_ms = identity.expires_ms
        return answer


class _OnBehalf:
    """The HTTP port of a broker of this cluster says who asked it."""

    mechanism = on_behalf.MECHANISM
    claimed: str | None = None

    def __init__(self, verify: Callable[[bytes], on_behalf.Behalf | None]) -> None:
        self._verify = verify
        self.principal: str | None = None
        self.groups: tuple[str, ...] = ()
        self.host = ""
        self.expires_ms: int | None = None
        self.of_token = True  # what it may do over HTTP ends with its login there: it makes no tokens

    async def respond(self, message: bytes) -> bytes:
        behalf = self._verify(message)
        if behalf is None:
            raise errors.SaslAuthenticationFailed("Authentication failed: Invalid credentials")
        self.principal, self.groups, self.host = behalf
        return b""
