"""How many connections each tenant has to this broker, and whether one more may log in.  The gate owns the only one."""

from __future__ import annotations

from tidelog import errors
from tidelog.access.tenants import Tenant
from tidelog.broker.session import Session


class TenantConnections:
    def __init__(self) -> None:
        self._held: dict[str, set[Session]] = {}

    def count(self, tenant: str) -> int:
        return len(self._held.get(tenant, ()))

    def took(self, session: Session, tenant: Tenant | None) -> None:
        """The session is of this tenant from now on; raises PolicyViolation when the tenant has no place left."""
        if tenant is None or session.counted_tenant == tenant.name:
            return
        self.ended(session)
        held = self._held.setdefault(tenant.name, set())
        if tenant.connections_max is not None and len(held) >= tenant.connections_max:
            if not held:
                del self._held[tenant.name]
            raise errors.PolicyViolation(
                f"Tenant {tenant.name!r} has all of its {tenant.connections_max} connections to this broker "
                "(connections_max): close some, or ask the operator for a higher limit"
            )
        held.add(session)
        session.counted_tenant = tenant.name

    def ended(self, session: Session) -> None:
        name, session.counted_tenant = session.counted_tenant, None
        held = self._held.get(name) if name else None
        if name and held is not None:
            held.discard(session)
            if not held:
                del self._held[name]
