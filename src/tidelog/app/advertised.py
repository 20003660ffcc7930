"""Advertised addresses: where clients and other brokers reach this broker, from its settings and its bound ports.  Pure."""

from __future__ import annotations

from tidelog.config import BrokerConfig
from tidelog.metadata.records import Endpoint

EVERY_ADDRESS = ("", "0.0.0.0", "::")
HERE = ("127.0.0.1", "::1", "localhost")

Bound = dict[str, tuple[str, int]]
"""Listener name -> (host as configured, bound port)."""


def endpoints_of(config: BrokerConfig, bound: Bound, host_name: str) -> tuple[Endpoint, ...]:
    """The endpoints for Kafka clients."""
    advertised = {listener.name: (listener.host, listener.port) for listener in config.advertised_listeners}
    endpoints = []
    for name, (host, port) in bound.items():
        host, port = advertised.get(name, (host, port))
        host = host_name if host in EVERY_ADDRESS else host
        endpoints.append(Endpoint(name, host, port or bound[name][1]))
    return tuple(endpoints)


def http_address(
    config: BrokerConfig, bound: tuple[str, int] | None, endpoints: tuple[Endpoint, ...]
) -> str | None:
    """The address where other brokers reach the HTTP port; None if only this machine can reach the port and the others are
    on other machines."""
    if bound is None:
        return None
    if config.tidelog_http_advertise is not None:
        host, port = config.tidelog_http_advertise
        return shown(host, port or bound[1])
    host, port = bound
    if host in HERE and endpoints[0].host not in HERE:
        return None
    return shown(endpoints[0].host if host in EVERY_ADDRESS else host, port)


def own_address(bound: tuple[str, int]) -> str:
    """The address where this process reaches itself."""
    host, port = bound
    return shown("127.0.0.1" if host in EVERY_ADDRESS else host, port)


def own_names(config: BrokerConfig, endpoints: tuple[Endpoint, ...], host_name: str) -> frozenset[str]:
    """The host names of this broker, in lower case."""
    names = {host_name, *(endpoint.host for endpoint in endpoints)}
    if config.tidelog_http_advertise is not None:
        names.add(config.tidelog_http_advertise[0])
    return frozenset(name.lower() for name in names)


def shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
