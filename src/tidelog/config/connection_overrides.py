"""`max.connections.per.ip.overrides`: how many connections each of some addresses may have."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from ipaddress import ip_address

from tidelog.errors import InvalidConfig


@lru_cache(maxsize=16)
def connection_overrides(text: str) -> Mapping[str, int]:
    """By address, as sockets write addresses."""
    by_address = {}
    for entry in filter(None, map(str.strip, text.split(","))):
        host, _, count = entry.rpartition(":")
        try:
            address = str(ip_address(host.strip("[]")))
            most = int(count)
        except ValueError:
            most = -1
        if most < 0:
            raise InvalidConfig(
                f"max.connections.per.ip.overrides has {entry!r}: give an address and how many connections it may have, "
                "as 127.0.0.1:200 (host names are not resolved)"
            )
        by_address[address] = most
    return by_address
