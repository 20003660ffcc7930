"""What each process of `tidelog serve --processes N` is: the settings of N brokers, from those of the one broker that was
described.  Pure.

The brokers have consecutive ids and ports, a part of each data directory, and the same machine: no partition has two
replicas among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidelog.config import BrokerConfig
from tidelog.config.cordoned_dirs import ALL
from tidelog.config.embedded_member import NO_MEMBER, own_member
from tidelog.config.listener import Listener
from tidelog.config.metadata_address import EmbeddedAddress
from tidelog.errors import InvalidConfig


def broker_folder(data: str, node: int) -> str:
    return f"{data.rstrip('/')}/broker-{node}"


def plan(
    settings: Mapping[str, str], count: int, machine: str, metadata: str | None
) -> dict[int, dict[str, str]]:
    """Node id -> settings of the process.  `machine`: its name, unless the settings have one.  `metadata`: the address of
    the store that the processes share, unless the settings name one that is shared already."""
    config = BrokerConfig.of(settings)
    _check_ports(config, count)
    machine = config.tidelog_machine or machine
    shared = {
        "tidelog.processes": str(count),
        "tidelog.processes.first": str(config.node_id),
        "tidelog.machine": machine,
        # Tools of Kafka know racks, and no machines.
        "broker.rack": config.broker_rack or machine,
    }
    if metadata is not None:
        shared["tidelog.metadata"] = metadata
    address = config.metadata_address
    member = own_member(config, address) if isinstance(address, EmbeddedAddress) else None
    plans = {}
    for number in range(count):
        node = config.node_id + number
        own = {
            "node.id": str(node),
            "log.dirs": ",".join(broker_folder(folder, node) for folder in config.log_dirs),
            "listeners": _moved(config.listeners, number),
        }
        if isinstance(address, EmbeddedAddress):
            # One member for the machine, however many brokers it has.
            own["tidelog.metadata.member"] = NO_MEMBER if number or member is None else member.endpoint
        if config.cordoned_log_dirs:
            own["cordoned.log.dirs"] = ",".join(
                path if path == ALL else broker_folder(path, node) for path in config.cordoned_log_dirs
            )
        if config.advertised_listeners:
            own["advertised.listeners"] = _moved(config.advertised_listeners, number)
        for name, http_address in _http_addresses(config).items():
            own[name] = _address(http_address, number)
        kept = {name: value for name, value in settings.items() if name not in ("broker.id", "log.dir")}
        plans[node] = kept | shared | own
    return plans


def with_known_ports(settings: Mapping[str, str], kafka: str, http: str) -> dict[str, str]:
    """The settings of a process that starts again, and must be found where it was: `kafka` and `http` are host:port of its
    first listener and its HTTP port, which may have been picked at its first start."""
    config = BrokerConfig.of(settings)
    first, *others = config.listeners
    port = int(kafka.rpartition(":")[2])
    settled = {"listeners": _moved((replace(first, port=port), *others), 0)}
    host, old = config.tidelog_http_listen
    if not old and http.rpartition(":")[2].isdecimal():
        settled["tidelog.http.listen"] = _address((host, int(http.rpartition(":")[2])), 0)
    return {**settings, **settled}


def _http_addresses(config: BrokerConfig) -> dict[str, tuple[str, int]]:
    addresses = {"tidelog.http.listen": config.tidelog_http_listen}
    if config.tidelog_http_advertise is not None:
        addresses["tidelog.http.advertise"] = config.tidelog_http_advertise
    return addresses


def _check_ports(config: BrokerConfig, count: int) -> None:
    """Each listener takes as many ports in a row as there are processes."""
    taken: dict[int, str] = {}
    named = {f"listener {listener.name}": listener.port for listener in config.listeners}
    named["tidelog.http.listen"] = config.tidelog_http_listen[1]
    for name, first in named.items():
        for port in range(first, first + count) if first else ():
            if port > 65535:
                raise InvalidConfig(
                    f"{name} has port {first}, and {count} processes need ports up to {first + count - 1}: use a lower one"
                )
            if port in taken:
                raise InvalidConfig(
                    f"{taken[port]} and {name} both need port {port}: each takes {count} ports in a row, one for each "
                    "process"
                )
            taken[port] = name


def _moved(listeners: tuple[Listener, ...], by: int) -> str:
    return ",".join(
        str(replace(listener, port=listener.port and listener.port + by)) for listener in listeners
    )


def _address(address: tuple[str, int], by: int) -> str:
    host, port = address
    host = f"[{host}]" if ":" in host else host
    return f"{host}:{port and port + by}"
