"""The session: the identity of a client, for a connection of any protocol or for one HTTP request.

`broker.gate` makes sessions and decides for them; handlers read them.  The native part of a session caches the decisions,
where the produce shortcut reads them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog._speed.wire.session import Rules, SessionState
from tidelog.broker.bounds.pipelining import PipeliningWatch
from tidelog.broker.refused_batches import Refusals

if TYPE_CHECKING:
    from tidelog.access.tenants import Tenant, Tenants
    from tidelog.broker.bounds.quota_manager import SessionLimits
    from tidelog.types import NodeId

ANONYMOUS = "User:ANONYMOUS"


class Tenancy(NamedTuple):
    """The tenant of a session, and what it was found with."""

    tenant: Tenant | None
    tenants: Tenants
    principal: str


class Session(SessionState):
    """`admitted` once its listener knows who it is; until then only the requests of a login pass the gate."""

    __slots__ = (
        "_expiry",
        "authentication",
        "client_id",
        "counted_tenant",
        "groups",
        "host",
        "limits",
        "listener",
        "login_expired",
        "login_refused",
        "of_token",
        "peer",
        "pipelining",
        "pipelining",
        "principal",
        "protocol",
        "refusals",
        "software_name",
        "software_version",
        "tenancy",
    )

    def __init__(self, rules: Rules, listener: str, peer: str, protocol: str = "PLAINTEXT") -> None:
        super().__init__(rules)
        self.listener = listener
        self.protocol = protocol
        """PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL or HTTP."""
        self.peer = peer
        """host:port of the other end."""
        self.host = peer.rpartition(":")[0]
        self.principal = ANONYMOUS
        self.groups: Sequence[str] = ()
        """Further principals, such as the groups that a token names."""
        self.client_id: str | None = None
        """As the last request said that native code did not answer."""
        self.software_name = ""
        self.software_version = ""
        self.authentication: Any = None
        """The SASL exchange under way."""
        self.login_expired = False
        self.login_refused = False
        """The connection is closed as soon as its client was told."""
        self._expiry: asyncio.TimerHandle | None = None
        self.of_token = False
        """The session logged in with a delegation token, and so may not create delegation tokens."""
        self.limits: SessionLimits | None = None
        """As the quota manager found them when quotas were last asked for."""
        self.tenancy: Tenancy | None = None
        """The tenant that the gate found for the session."""
        self.counted_tenant: str | None = None
        """The tenant that the connection takes a place of."""
        self.pipelining = PipeliningWatch()
        self.refusals = Refusals()

    def expire_after(self, lifetime_ms: int, loop: asyncio.AbstractEventLoop) -> None:
        """The login counts for so long from now; 0: for as long as the connection lives."""
        self.ended()
        if lifetime_ms > 0:
            self._expiry = loop.call_later(lifetime_ms / 1000, self._expired)

    def _expired(self) -> None:
        self.admitted, self.login_expired = False, True

    def ended(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    @property
    def user(self) -> str:
        """The name without its type, as quotas use it."""
        return self.principal.partition(":")[2]


def of_broker(rules: Rules, node: NodeId) -> Session:
    """What a broker asks itself."""
    session = Session(rules, "", f"broker-{node}:0")
    session.admitted = True
    return session
