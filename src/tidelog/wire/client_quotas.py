"""Client quotas as the protocol names them: entities and keys.  Pure; shared by clients, metadata and `access.quotas`."""

from __future__ import annotations

from typing import NamedTuple

USER, CLIENT_ID, IP, TENANT = "user", "client-id", "ip", "tenant"
DEFAULT_ENTITY = ""
"""In an entity: whoever has no quota of their own.  No user, client id or address is empty."""

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"


class QuotaEntity(NamedTuple):
    """Whom a quota is for: each part is a name, DEFAULT_ENTITY, or None when the entity does not speak of it."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None
    tenant: str | None = None
    """A tenant's limits are stored and told as the quotas of an entity of this type, which Kafka's tools can read."""

    def parts(self) -> dict[str, str]:
        pairs = zip((USER, CLIENT_ID, IP, TENANT), self, strict=True)
        return {kind: name for kind, name in pairs if name is not None}

    @staticmethod
    def of(parts: dict[str, str]) -> QuotaEntity:
        return QuotaEntity(parts.get(USER), parts.get(CLIENT_ID), parts.get(IP), parts.get(TENANT))

    def __str__(self) -> str:
        return ", ".join(f"{kind} {name or '<default>'}" for kind, name in self.parts().items())
