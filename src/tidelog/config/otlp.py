"""Settings of the OTLP receiver that gets the metrics of clients.  Pure."""

from __future__ import annotations

from urllib.parse import urlsplit

from tidelog.errors import InvalidConfig

ENDPOINT, HEADERS = "tidelog.telemetry.otlp.endpoint", "tidelog.telemetry.otlp.headers"
RESERVED = frozenset(
    {"connection", "content-encoding", "content-length", "content-type", "host", "transfer-encoding"}
)


def check_otlp(endpoint: str | None, headers: str | None) -> None:
    """Raises InvalidConfig; no header's value is in its text."""
    if endpoint is None:
        if headers is not None:
            raise InvalidConfig(f"{HEADERS} needs {ENDPOINT}")
        return
    try:
        parts = urlsplit(endpoint)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise InvalidConfig(f"{ENDPOINT} cannot be {endpoint!r}: it is no URL") from None
    printable = endpoint.isascii() and endpoint.isprintable() and " " not in endpoint
    if parts.scheme not in ("http", "https") or not host or parts.username is not None or not printable:
        raise InvalidConfig(
            f"{ENDPOINT} cannot be this URL: it must be as http://collector:4318/v1/metrics, without a user in it "
            f"({HEADERS} has room for a key)"
        )
    try:
        parse_headers(headers or "")
    except ValueError as problem:
        raise InvalidConfig(f"{HEADERS}: {problem}") from None


def parse_headers(setting: str) -> dict[str, str]:
    """NAME=VALUE,NAME=VALUE; raises ValueError for anything else."""
    headers = {}
    for pair in filter(None, map(str.strip, setting.split(","))):
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
            raise ValueError("a header must be NAME=VALUE, and headers are separated by commas")
        if name.lower() in RESERVED:
            raise ValueError(f"header {name} is the broker's own")
        if not value.isascii() or not value.isprintable():
            raise ValueError(f"the value of header {name} has characters that HTTP does not allow")
        headers[name.lower()] = value
    return headers
