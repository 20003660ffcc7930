"""Parses `tidelog.metadata`, which says where the metadata store is: SQLite, or the addresses of etcd."""

from __future__ import annotations

import re
from typing import NamedTuple

from tidelog.errors import InvalidConfig

SQLITE = "sqlite:"
ROOT = "/tidelog/"
PORT = 2379

_ETCD = re.compile(r"etcd://(?P<endpoints>[^/\s]+)(?P<root>/\S*)?")
_ENDPOINT = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^:/\[\]\s]+)(?::([0-9]{1,5}))?")


class EtcdAddress(NamedTuple):
    """`root`: begins and ends with a slash; the cluster's keys are below it."""

    endpoints: tuple[str, ...]
    root: str


def parse_metadata(text: str, setting: str) -> EtcdAddress | None:
    """The address of etcd; None for SQLite."""
    if text == SQLITE:
        return None
    parts = _ETCD.fullmatch(text)
    if parts is None:
        raise InvalidConfig(
            f"{setting} cannot be {text!r}: write {SQLITE} or etcd://host:port,host:port/prefix"
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
