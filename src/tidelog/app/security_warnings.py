"""What a start warns of: listeners that are open to everybody, and brokers that may not do a broker's work.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address

from tidelog.access.acls import Authorizer
from tidelog.config import BrokerConfig
from tidelog.config.amqp import amqp_logs_in
from tidelog.wire.acls import CLUSTER_NAME, AclOperation, AclResourceType

ANYWHERE = "0.0.0.0"


def open_to_everybody(config: BrokerConfig) -> str | None:
    """Names the listeners, and the HTTP port, that others reach and where nobody has to say who they are; None when there
    are none."""
    listeners_open = [
        f"{listener.name} ({listener.host or 'every address'}:{listener.port})"
        for listener in config.listeners
        if not _is_loopback(listener.host) and not _authenticates(config, listener.name)
    ]
    http_host, http_port = config.tidelog_http_listen
    if not _is_loopback(http_host) and not config.http_logs_in:
        listeners_open.append(f"HTTP ({http_host or 'every address'}:{http_port})")
    if not listeners_open:
        return None
    which = (
        f"Listener {listeners_open[0]} has"
        if len(listeners_open) == 1
        else f"Listeners {', '.join(listeners_open)} have"
    )
    allowed = (
        "may do what the ACLs allow User:ANONYMOUS"
        if config.authorizes
        else "may read, change and delete all data"
    )
    return (
        f"{which} no authentication: everybody who reaches this machine {allowed}. "
        "Use `tidelog serve --secure`, set up SASL_SSL (docs/guide/security.md), or listen on 127.0.0.1."
    )


def _authenticates(config: BrokerConfig, listener: str) -> bool:
    security = config.security[listener]
    return amqp_logs_in(config, listener) if security.of_amqp else security.authenticates


def _is_loopback(host: str) -> bool:
    if host in ("localhost", "localhost.localdomain"):
        return True
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def powerless_broker(config: BrokerConfig, authorizer: Authorizer | None) -> str | None:
    """The warning for a cluster whose brokers come to each other as somebody without CLUSTER_ACTION."""
    if authorizer is None or config.metadata_address is None:
        return None
    for principal in _broker_principals(config):
        if not authorizer.allowed(
            principal, "127.0.0.1", AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER, CLUSTER_NAME
        ):
            return (
                f"Brokers come to each other as {principal}, which may not do CLUSTER_ACTION: there is no replication, "
                f"and no transaction ends. Add {principal} to super.users on every broker."
            )
    return None


def _broker_principals(config: BrokerConfig) -> Iterator[str]:
    """The principals of this broker on the listener for brokers; none when only its certificate says who it is."""
    security = config.security[config.inter_broker_listener]
    if security.has_login:
        entry = security.jaas.get(config.sasl_mechanism_inter_broker_protocol)
        if entry is not None and entry.username is not None:
            yield f"User:{entry.username}"
    elif not security.encrypts:
        yield "User:ANONYMOUS"
