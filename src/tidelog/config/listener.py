"""Listeners: addresses to listen on and to advertise to clients, as in `listeners` and `advertised.listeners`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidelog.config.listener_security import PROTOCOLS
from tidelog.errors import InvalidConfig

_LISTENER = re.compile(r"([A-Za-z0-9_]+)://(\[[0-9A-Fa-f:.%]+\]|[^:/\[\]\s]*):([0-9]{1,5})")
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^:/\[\]\s]*):([0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class Listener:
    """An empty host means every address of the machine; port 0 picks a free port."""

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
    """Parses a list of listeners, each with its own name."""
    listeners = tuple(parse_listener(entry, setting) for entry in entries)
    names = [listener.name for listener in listeners]
    if len(set(names)) != len(names):
        raise InvalidConfig(f"{setting} has two listeners with the same name: give each its own name")
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
    """Parses host:port, with an IPv6 host in brackets."""
    parts = _ADDRESS.fullmatch(text)
    if parts is None or int(parts[2]) > 65535:
        raise InvalidConfig(f"{setting} cannot be {text!r}: write it as host:port")
    return parts[1].strip("[]"), int(parts[2])


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
