"""Which member of `tidelog.metadata=embedded://...` a broker runs.  Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.config.metadata_address import EmbeddedAddress, EmbeddedMember
from tidelog.errors import InvalidConfig

if TYPE_CHECKING:
    from tidelog.config.broker import BrokerConfig

NO_MEMBER = "none"


def own_member(config: BrokerConfig, address: EmbeddedAddress) -> EmbeddedMember | None:
    """The one that this broker runs: the one that `tidelog.metadata.member` names, or whose host the broker has."""
    named = config.tidelog_metadata_member
    if named == NO_MEMBER:
        return None
    if named is not None:
        for member in address.members:
            if named == member.endpoint:
                return member
        endpoints = ", ".join(member.endpoint for member in address.members)
        raise InvalidConfig(
            f"tidelog.metadata.member cannot be {named!r}: it must be none or one of {endpoints}"
        )
    hosts = {listener.host for listener in (*config.advertised_listeners, *config.listeners)}
    own = [member for member in address.members if member.host in hosts]
    if len(own) > 1:
        raise InvalidConfig(
            f"tidelog.metadata has {len(own)} members on this host: say which one this broker runs with "
            f"tidelog.metadata.member, as {own[0].endpoint}"
        )
    return own[0] if own else None
