"""GSSAPI log-ins (Kerberos) on the broker's side: the exchange of one session.

The library's calls read the keytab and the replay cache, so they run on the threads of log-ins, where addresses take turns.
The client gets the same answer for every defect of a ticket; the log has the reason."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import lru_cache

from tidelog import errors
from tidelog.access.principals import KerberosNamer, NoRuleApplies
from tidelog.broker.bounds.fair_threads import FairThreads
from tidelog.config.listener_security import KerberosSettings, ListenerSecurity
from tidelog.logs import SparingLog
from tidelog.net.gss import (
    Acceptor,
    GssFailed,
    NegotiateAcceptor,
    default_realm,
    keytab_credential,
    library,
    negotiating_credential,
)

sparing = SparingLog(logging.getLogger("tidelog.login"))

REFUSED = "Authentication failed: Invalid Kerberos credentials"
MESSAGE_BYTES_MAX = 65_536
"""A ticket with all the groups of a user in Active Directory has 48 KiB at most."""
STEPS_MAX = 8


class KerberosExchange:
    mechanism = "GSSAPI"
    claimed: str | None = None
    """A ticket says who it is of only once it is opened."""

    def __init__(self, settings: KerberosSettings, threads: FairThreads, host: str) -> None:
        self._settings = settings
        self._threads = threads
        self._host = host
        self._acceptor: Acceptor | NegotiateAcceptor | None = None
        self._steps = 0
        self.principal: str | None = None
        self.groups: tuple[str, ...] = ()
        self.expires_ms: int | None = None
        self.of_token = False

    async def respond(self, message: bytes) -> bytes:
        try:
            self._steps += 1
            if self._steps > STEPS_MAX or len(message) > MESSAGE_BYTES_MAX:
                raise GssFailed("the exchange is too long")
            answer = await self._threads.run(self._host, self._respond, message)
            if self._acceptor is not None and self._acceptor.principal is not None:
                self.principal = f"User:{self._short_name(self._acceptor.principal)}"
            return answer
        except (GssFailed, NoRuleApplies, errors.InvalidConfig) as problem:
            sparing.warning(self._host, "a Kerberos log-in from %s failed: %s", self._host, problem)
            raise errors.SaslAuthenticationFailed(REFUSED) from None

    def _respond(self, message: bytes) -> bytes:
        if self._acceptor is None:
            self._acceptor = self._new_acceptor()
        return self._acceptor.respond(message)

    def _new_acceptor(self) -> Acceptor | NegotiateAcceptor:
        return Acceptor(keytab_credential(self._settings.keytab, self._settings.principal))

    def _short_name(self, principal: str) -> str:
        return _namer(self._settings.rules, self._settings.realm).name_of(principal)


class NegotiateExchange(KerberosExchange):
    """The exchange of an HTTP request: a single step."""

    def _new_acceptor(self) -> NegotiateAcceptor:
        return NegotiateAcceptor(negotiating_credential(self._settings.keytab, self._settings.principal))


@lru_cache(maxsize=64)
def _namer(rules: tuple[str, ...], own_realm: str) -> KerberosNamer:
    return KerberosNamer(rules, default_realm() or own_realm)


def check_keytabs(listeners: Mapping[str, ListenerSecurity]) -> None:
    """At the start: InvalidConfig unless the library is there, the rules can be read, and each keytab has its key."""
    library()
    for name, security in listeners.items():
        _namer(security.kerberos.rules, security.kerberos.realm)
        try:
            keytab_credential(security.kerberos.keytab, security.kerberos.principal)
        except GssFailed as problem:
            raise errors.InvalidConfig(f"listener {name} offers Kerberos, and {problem}") from None
