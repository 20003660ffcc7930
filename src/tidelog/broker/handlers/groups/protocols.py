"""Which group protocols a broker serves: `group.coordinator.rebalance.protocols`."""

from __future__ import annotations

from tidelog import errors
from tidelog.broker.services import Context


def check_protocol(name: str, context: Context) -> None:
    """Raises UnsupportedVersion, as Kafka does, if the protocol is switched off."""
    if name not in context.services.config().group_coordinator_rebalance_protocols:
        raise errors.UnsupportedVersion(
            f"The {name} group protocol is switched off: group.coordinator.rebalance.protocols of the broker has no {name}."
        )
