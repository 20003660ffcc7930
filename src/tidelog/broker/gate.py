"""The gate: authentication, authorization and quotas of every request, of Kafka and HTTP, of the produce shortcut and of
held answers.

The gate checks that the session is authenticated, that the request stays within the session's tenant, that the principal
has the right, and that the client is within its quota.  The session caches the decisions; a change of the rules makes
them void at once."""

from __future__ import annotations

from collections.abc import Callable

from tidelog import errors
from tidelog._speed.wire.session import Rules
from tidelog.access.acls import Authorizer
from tidelog.access.tenants import Tenant, Tenants
from tidelog.broker.audit.trail import AuditTrail
from tidelog.broker.bounds.quota_manager import QuotaManager
from tidelog.broker.session import ANONYMOUS, Session, Tenancy
from tidelog.broker.tenant_connections import TenantConnections
from tidelog.metadata.tenants import SEPARATOR
from tidelog.wire.acls import CLUSTER_NAME, AclOperation, AclResourceType

API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 17, 36
BEFORE_LOGIN = frozenset((API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE))

_NO_TENANTS = Tenants({})
_TOPIC, _CLUSTER = AclResourceType.TOPIC, AclResourceType.CLUSTER
_REFUSALS: dict[int, type[errors.TidelogError]] = {
    AclResourceType.TOPIC: errors.TopicAuthorizationFailed,
    AclResourceType.GROUP: errors.GroupAuthorizationFailed,
    AclResourceType.CLUSTER: errors.ClusterAuthorizationFailed,
    AclResourceType.TRANSACTIONAL_ID: errors.TransactionalIdAuthorizationFailed,
    AclResourceType.DELEGATION_TOKEN: errors.DelegationTokenAuthorizationFailed,
}


class NotLoggedIn(errors.IllegalSaslState):
    """The connection asked for something before its login, or after its login expired: it is closed."""


class Gate:
    def __init__(
        self,
        authorizer: Callable[[], Authorizer | None] = lambda: None,
        quotas: QuotaManager | None = None,
        tenants: Callable[[], Tenants] = lambda: _NO_TENANTS,
        audit: AuditTrail | None = None,
        protected: Callable[[], str] = str,
    ) -> None:
        """`authorizer` answers None when none is configured: everybody may do everything then, each within their tenant.
        Without `quotas` nobody is limited.  `protected` is the name of the audit topic, which only brokers write to."""
        self._authorizer = authorizer
        self.quotas = QuotaManager() if quotas is None else quotas
        self.audit = AuditTrail() if audit is None else audit
        self._protected = protected
        self.rules = Rules()
        self.denials = 0
        self._learned: Authorizer | None = None
        self._find_tenants = tenants
        self.tenants = _NO_TENANTS
        self.tenant_connections = TenantConnections()
        self._full: frozenset[str] = frozenset()
        """Tenants whose topics may not be written now: they store as much as they may."""

    def tenants_are_full(self, names: frozenset[str]) -> None:
        """Exactly these tenants have reached their limit: sessions drop the decisions that they remember."""
        if names != self._full:
            self._full = names
            self.rules.revision += 1

    def is_full(self, topic: str) -> bool:
        return bool(self._full) and topic.partition(SEPARATOR)[0] in self._full and SEPARATOR in topic

    def authorizes(self, session: Session) -> bool:
        """False: the session may do everything."""
        return self._authorizer() is not None or self.tenant(session) is not None

    @property
    def generation(self) -> object:
        """Another object once ACLs or super users have changed."""
        return self._authorizer()

    def tenant(self, session: Session) -> Tenant | None:
        """None: the session is of no tenant, and sees the whole cluster."""
        tenancy = session.tenancy
        if (
            tenancy is None
            or tenancy.tenants is not self.tenants
            or tenancy.principal is not session.principal
        ):
            tenant = self.tenants.of(session.principal, session.groups)
            tenancy = session.tenancy = Tenancy(tenant, self.tenants, session.principal)
        return tenancy.tenant

    def learned(self) -> None:
        """The metadata or the settings may have changed: with another authorizer or other quotas, sessions drop the
        decisions that they remember."""
        authorizer, tenants = self._authorizer(), self._find_tenants()
        if self.quotas.learned() or authorizer is not self._learned or tenants is not self.tenants:
            self._learned, self.tenants = authorizer, tenants
            self.rules.revision += 1

    # Is it known who asks?

    def open(
        self, listener: str, peer: str, protocol: str = "PLAINTEXT", principal: str = ANONYMOUS
    ) -> Session:
        """For a new connection; where its protocol has no login it is admitted at once.  `principal`: of its certificate."""
        session = Session(self.rules, listener, peer, protocol)
        session.principal = principal
        if not protocol.startswith("SASL"):
            self.admitted(session)
        return session

    def admitted(self, session: Session) -> None:
        """The session has authenticated `session.principal`."""
        session.admitted = True
        session.login_expired = False
        self._refresh(session)

    def admit(self, session: Session, api_key: int, name: str) -> None:
        """Raises `NotLoggedIn` for a request that may not pass before the login."""
        if session.admitted or api_key in BEFORE_LOGIN:
            return
        self.audit.denied(session, name, "", "")
        if session.login_expired:
            raise NotLoggedIn(f"{name} came after the login of {session.principal} had expired")
        raise NotLoggedIn(f"{name} came before a login, which listener {session.listener} wants first")

    # May it do that?

    def allows(self, session: Session, operation: AclOperation, kind: AclResourceType, name: str) -> bool:
        """For what a client asked to do: that it may not is counted, and recorded in the audit trail."""
        if self.sees(session, operation, kind, name):
            return True
        self.denials += 1
        self.audit.denied(session, operation.name, kind.name, name)
        return False

    def sees(self, session: Session, operation: AclOperation, kind: AclResourceType, name: str) -> bool:
        """As `allows`, for what is left out of an answer, and for rights of which another one will do as well."""
        tenant = self.tenant(session)
        if tenant is not None and not tenant.holds(operation, kind, name):
            return False
        return self._allowed(session, operation, kind, name)

    def administers(self, session: Session, operation: AclOperation) -> bool:
        """Whether a tenant's session has this right on the cluster, which counts within its tenant only: to manage the
        tenant's ACLs, users and quotas, and to see where its partitions are."""
        tenant = self.tenant(session)
        return (
            tenant is not None and tenant.exists and self._allowed(session, operation, _CLUSTER, CLUSTER_NAME)
        )

    def _allowed(self, session: Session, operation: AclOperation, kind: AclResourceType, name: str) -> bool:
        authorizer = self._authorizer()
        if authorizer is None:
            return True
        if session.groups:
            return authorizer.decide(
                session.principal, session.host, operation, kind, name, session.groups
            ).allowed
        return authorizer.allowed(session.principal, session.host, operation, kind, name)

    def check(self, session: Session, operation: AclOperation, kind: AclResourceType, name: str) -> None:
        """Raises the error that clients expect for this kind of resource."""
        if not self.allows(session, operation, kind, name):
            raise _REFUSALS[kind](
                f"{session.principal} may not {operation.name} {kind.name.lower().replace('_', ' ')} '{name}'"
            )

    def check_cluster(self, session: Session, operation: AclOperation) -> None:
        """Raises ClusterAuthorizationFailed."""
        self.check(session, operation, _CLUSTER, CLUSTER_NAME)

    def allows_on_some(self, session: Session, operation: AclOperation, kind: AclResourceType) -> bool:
        """On at least one resource of this kind."""
        tenant = self.tenant(session)
        if tenant is not None and not tenant.exists:
            return False
        authorizer = self._authorizer()
        return authorizer is None or authorizer.authorize_by_resource_type(
            session.principal, session.host, operation, kind, session.groups
        )

    def may_write(self, session: Session, topic: str, topic_id: bytes | None = None) -> bool:
        """Whether records may be produced to the topic; remembered where the shortcut looks."""
        if session.remembers_write(topic):
            return True
        if not session.is_current():
            self._refresh(session)
        if self.is_full(topic) or not self.allows(session, AclOperation.WRITE, _TOPIC, topic):
            return False
        if topic == self._protected() and not self.allows(
            session, AclOperation.CLUSTER_ACTION, _CLUSTER, CLUSTER_NAME
        ):
            return False  # nobody who may write to all topics may write audit events
        session.allow_writes(topic)
        if topic_id is not None:
            session.allow_writes(topic_id)
        return True

    def may_read(self, session: Session, topic: str) -> bool:
        """Whether records of the topic may be fetched; remembered on the session."""
        if session.may_read(topic):
            return True
        if not session.is_current():
            self._refresh(session)
        if not self.allows(session, AclOperation.READ, _TOPIC, topic):
            return False
        session.allow_reads(topic)
        return True

    def _refresh(self, session: Session) -> None:
        session.decided(anywhere=not self._full and not self.authorizes(session))
        self.quotas.renewed(session)
