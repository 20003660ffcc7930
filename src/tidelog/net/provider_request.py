"""One request to a token provider: over TLS, without following redirects, bounded in time and in size.  Blocks: call it in
a thread.

http: is only for addresses of this machine; `config.oauth.checked_url` refuses others, and what a provider names itself is
checked here again."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from tidelog.config.oauth import ProviderConnection, is_loopback

BYTES_MAX = 1 << 20
PIECE_BYTES = 65_536
SHOWN_MAX = 200


class ProviderFailed(Exception):
    """What failed, for the log; no secret is in it."""


def ask_provider(
    url: str,
    connection: ProviderConnection,
    *,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """The body of the answer, or of a file; `body`: of a POST."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ProviderFailed(f"{url[:SHOWN_MAX]!r} is no URL") from None
    if parts.scheme == "file":
        return _read(url2pathname(parts.path))
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
        raise ProviderFailed(f"{url[:SHOWN_MAX]!r} is refused: it must begin with https:")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connect_s, read_s = connection.connect_timeout_ms / 1000, connection.read_timeout_ms / 1000
    try:
        if parts.scheme == "https":
            context = ssl.create_default_context(cafile=connection.truststore_location)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            link: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, port, timeout=connect_s, context=context
            )
        else:
            link = http.client.HTTPConnection(host, port, timeout=connect_s)
        try:
            link.connect()
            link.sock.settimeout(read_s)
            link.request(
                "GET" if body is None else "POST",
                target,
                body,
                {"accept": "application/json", "connection": "close"} | dict(headers or {}),
            )
            return _body(link, time.monotonic() + read_s)
        finally:
            link.close()
    except (OSError, http.client.HTTPException) as problem:
        raise ProviderFailed(f"{_origin(url)}: {problem or type(problem).__name__}") from None


def ask_for_object(url: str, connection: ProviderConnection, **request: Any) -> dict[str, Any]:
    """The JSON object that the provider answers."""
    try:
        content = json.loads(ask_provider(url, connection, **request))
    except (ValueError, RecursionError):
        raise ProviderFailed(f"{_origin(url)} does not answer with JSON") from None
    if not isinstance(content, dict):
        raise ProviderFailed(f"{_origin(url)} does not answer with a JSON object")
    return content


def _read(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            data = file.read(BYTES_MAX + 1)
    except OSError as problem:
        raise ProviderFailed(f"{path}: {problem.strerror or problem}") from None
    if len(data) > BYTES_MAX:
        raise ProviderFailed(f"{path} has more than {BYTES_MAX} bytes")
    return data


def _body(link: http.client.HTTPConnection, deadline_s: float) -> bytes:
    """A provider that sends a byte now and then does not hold the thread for longer than one that sends nothing."""
    answer = link.getresponse()
    data = bytearray()
    while piece := answer.read1(PIECE_BYTES):
        data += piece
        if len(data) > BYTES_MAX:
            raise ProviderFailed(f"the answer has more than {BYTES_MAX} bytes")
        if time.monotonic() > deadline_s:
            raise TimeoutError("timed out")
    if answer.status != 200:
        raise ProviderFailed(f"{link.host} answers with status {answer.status}{_reason(bytes(data))}")
    return bytes(data)


def _reason(data: bytes) -> str:
    """OAuth's `error` and `error_description`, if they are there."""
    try:
        content = json.loads(data)
        details = [
            content[name] for name in ("error", "error_description") if isinstance(content.get(name), str)
        ]
    except (ValueError, AttributeError, RecursionError):
        return ""
    return f": {': '.join(details)[:SHOWN_MAX]!r}" if details else ""


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path}"[:SHOWN_MAX]
