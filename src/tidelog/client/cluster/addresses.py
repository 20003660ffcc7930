"""Broker addresses as people write them: `host:port`, `[::1]:9092`, several with commas between.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

PORT = 9092


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_addresses(text: str | Sequence[str]) -> tuple[Address, ...]:
    """Raises a `ValueError` that names the address."""
    if (
        isinstance(text, bytes)
        or not isinstance(text, Iterable)
        or not all(isinstance(item, str) for item in text)
    ):
        raise ValueError(f"{text!r} is no broker address: write HOST:PORT as text, or a list of such")
    parts = text.split(",") if isinstance(text, str) else [part for item in text for part in item.split(",")]
    addresses = tuple(dict.fromkeys(_parse(part.strip()) for part in parts if part.strip()))
    if not addresses:
        raise ValueError("no broker address given: write HOST:PORT, several with commas between")
    return addresses


def _parse(text: str) -> Address:
    # A listener as brokers write it (PLAINTEXT://host:port) is what people paste.
    plain = text.split("://", 1)[-1]
    if plain.startswith("["):
        host, bracket, rest = plain[1:].partition("]")
        port = rest.removeprefix(":")
        valid = bool(bracket) and (not rest or rest.startswith(":"))
    elif plain.count(":") > 1:
        host, port, valid = plain, "", True
    else:
        host, colon, port = plain.partition(":")
        valid = not colon or bool(port)
    if not valid or not host or (port and not port.isdecimal()) or not 0 < int(port or PORT) < 65536:
        raise ValueError(f"{text!r} is not a broker address: write HOST:PORT")
    return Address(host, int(port or PORT))
