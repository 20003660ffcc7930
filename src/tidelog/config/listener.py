"""Addresses to listen on and to tell clients, as `listeners` and `advertised.listeners` write them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidelog.config.listener_security import PROTOCOLS
from tidelog.errors import InvalidConfig

_LISTENER = re.compile(r"([A-Za-z0-9_]+)://(\[[0-9A-Fa-f:.%]+\]|[^:/\[\]\s]*):([0-9]{1,5})")
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^:/\[\]\s]*):([0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class Listener:
    """An empty host is every address of the machine; port 0 picks a free one."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}://{_bracketed(self.host)}:{self.port}"


def parse_listener(text: str, setting: str) -> Listener:
    parts = _LISTENER.fullmatch(text)
    if parts is None or int(parts[3]) > 65535:
        raise InvalidConfig(f"{setting} cannot be {text!r}: write it as PLAINTEXT://host:port")
    return Listener(parts[1].upper(), parts[2].strip("[]"), int(parts[3]))


def parse_listeners(entries: tuple[str, ...], setting: str) -> tuple[Listener, ...]:
    """One listener of each name, and of each port except for 0."""
    listeners = tuple(parse_listener(entry, setting) for entry in entries)
    names = [listener.name for listener in listeners]
    if len(set(names)) != len(names):
        raise InvalidConfig(f"{setting} has two listeners of one name: each needs a name of its own")
    return listeners


def parse_protocols(text: str, setting: str) -> dict[str, str]:
    """`listener.security.protocol.map`: the security protocol of each listener's name."""
    protocols = {}
    for entry in text.split(","):
        name, colon, protocol = entry.strip().partition(":")
        if not colon or not name or protocol.upper() not in PROTOCOLS:
            raise InvalidConfig(
                f"{setting} cannot have {entry!r}: write it as NAME:PROTOCOL, with {', '.join(PROTOCOLS)}"
            )
        if name.upper() in protocols:
            raise InvalidConfig(f"{setting} names listener {name} twice")
        protocols[name.upper()] = protocol.upper()
    return protocols


def parse_address(text: str, setting: str) -> tuple[str, int]:
    """host:port, with an IPv6 host in brackets."""
    parts = _ADDRESS.fullmatch(text)
    if parts is None or int(parts[2]) > 65535:
        raise InvalidConfig(f"{setting} cannot be {text!r}: write it as host:port")
    return parts[1].strip("[]"), int(parts[2])


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
