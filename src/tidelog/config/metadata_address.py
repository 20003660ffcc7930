"""Parses `tidelog.metadata`, which says where the metadata store is: a SQLite file of this broker, the addresses of etcd,
or the Unix socket of a store that brokers of one machine share."""

from __future__ import annotations

import re
from typing import NamedTuple

from tidelog.errors import InvalidConfig

SQLITE = "sqlite:"
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


def parse_metadata(text: str, setting: str) -> EtcdAddress | SocketAddress | None:
    """None for SQLite."""
    if text == SQLITE:
        return None
    if socket := _SOCKET.fullmatch(text):
        return SocketAddress(socket["path"])
    parts = _ETCD.fullmatch(text)
    if parts is None:
        hint = ""
        if text.startswith("unix:"):
            hint = " (the path of a socket is absolute)"
        elif text.startswith("embedded:"):
            hint = " (brokers on several machines need etcd; brokers of one machine share a unix: store)"
        raise InvalidConfig(
            f"{setting} cannot be {text!r}: write {SQLITE}, etcd://host:port,host:port/prefix or unix:/path/to/socket{hint}"
        )
    endpoints = tuple(_endpoint(endpoint, text, setting) for endpoint in parts["endpoints"].split(","))
    root = (parts["root"] or "").strip("/")
    return EtcdAddress(tuple(dict.fromkeys(endpoints)), f"/{root}/" if root else ROOT)


def _endpoint(text: str, whole: str, setting: str) -> str:
    parts = _ENDPOINT.fullmatch(text)
    port = PORT if parts is None or parts[2] is None else int(parts[2])
    if parts is None or not 0 < port < 65536:
        raise InvalidConfig(f"{setting} cannot be {whole!r}: {text!r} is not host:port")
    return f"{parts[1]}:{port}"
