"""Parses `tidelog.metadata`, which says where the metadata store is: a SQLite file of this broker, the addresses of etcd,
the Unix socket of a store that brokers of one machine share, or the machines whose brokers run members of etcd."""

from __future__ import annotations

import re
from typing import NamedTuple

from tidelog.errors import InvalidConfig

SQLITE = "sqlite:"
EMBEDDED = "embedded://"
MEMBER_COUNTS = (1, 3, 5)
ROOT = "/tidelog/"
PORT = 2379

_ETCD = re.compile(r"etcd://(?P<endpoints>[^/\s]+)(?P<root>/\S*)?")
_ENDPOINT = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^:/\[\]\s]+)(?::([0-9]{1,5}))?")


_SOCKET = re.compile(r"unix:(?://)?(?P<path>/[^/].*)")


class EtcdAddress(NamedTuple):
    """`root`: begins and ends with a slash; the cluster's keys are below it."""

    endpoints: tuple[str, ...]
    root: str


class SocketAddress(NamedTuple):
    path: str


class EmbeddedMember(NamedTuple):
    """A member of etcd that a broker runs: clients connect to `port`, other members to the next one."""

    host: str
    port: int

    @property
    def name(self) -> str:
        return f"{self.host.strip('[]').replace(':', '.')}-{self.port}"

    @property
    def endpoint(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def peer(self) -> str:
        return f"{self.host}:{self.port + 1}"


class EmbeddedAddress(NamedTuple):
    members: tuple[EmbeddedMember, ...]

    @property
    def etcd(self) -> EtcdAddress:
        return EtcdAddress(tuple(member.endpoint for member in self.members), ROOT)

    def __str__(self) -> str:
        return f"embedded://{','.join(member.endpoint for member in self.members)}"


def parse_metadata(text: str, setting: str) -> EtcdAddress | SocketAddress | EmbeddedAddress | None:
    """None for SQLite."""
    if text == SQLITE:
        return None
    if socket := _SOCKET.fullmatch(text):
        return SocketAddress(socket["path"])
    if text.startswith(EMBEDDED):
        return _embedded(text, setting)
    parts = _ETCD.fullmatch(text)
    if parts is None:
        hint = " (the path of a socket is absolute)" if text.startswith("unix:") else ""
        raise InvalidConfig(
            f"{setting} cannot be {text!r}: write {SQLITE}, etcd://host:port,host:port/prefix, unix:/path/to/socket or "
            f"embedded://host,host,host{hint}"
        )
    endpoints = tuple(_endpoint(endpoint, text, setting) for endpoint in parts["endpoints"].split(","))
    root = (parts["root"] or "").strip("/")
    return EtcdAddress(tuple(dict.fromkeys(endpoints)), f"/{root}/" if root else ROOT)


def _embedded(text: str, setting: str) -> EmbeddedAddress:
    endpoints = [
        _endpoint(entry, text, setting) for entry in text.removeprefix(EMBEDDED).strip("/").split(",")
    ]
    places = [endpoint.rpartition(":") for endpoint in dict.fromkeys(endpoints)]
    members = tuple(EmbeddedMember(host, int(port)) for host, _, port in places)
    if len(members) not in MEMBER_COUNTS:
        raise InvalidConfig(
            f"{setting} cannot be {text!r}: name 1, 3 or 5 machines; 3 go on when one of them is lost, 5 when two are"
        )
    return EmbeddedAddress(members)


def _endpoint(text: str, whole: str, setting: str) -> str:
    parts = _ENDPOINT.fullmatch(text)
    port = PORT if parts is None or parts[2] is None else int(parts[2])
    if parts is None or not 0 < port < 65536:
        raise InvalidConfig(f"{setting} cannot be {whole!r}: {text!r} is not host:port")
    return f"{parts[1]}:{port}"
