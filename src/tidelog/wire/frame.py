"""Headers of requests and responses, and the length that precedes each on a connection.

Header versions follow from API and version: a flexible request has header 2 (with tagged fields), a flexible
response header 1.  One exception: ApiVersions is always answered with response header 0, since the client
that asks does not know yet what the broker speaks.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import NamedTuple

from tidelog import errors
from tidelog.wire.apis import APIS
from tidelog.wire.primitives import Buffer, Malformed, skip_tagged

API_VERSIONS = 18

_REQUEST = Struct(">hhih")
_INT32 = Struct(">i")
_RESPONSE = Struct(">ii")
_RESPONSE_FLEXIBLE = Struct(">iix")  # the pad byte: no tagged fields


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """The header at the start of `frame` (length not included), and where the body starts.

    The version may be one that the API does not have: answering that is the caller's business.
    """
    try:
        api_key, version, correlation_id, size = _REQUEST.unpack_from(frame)
        api = APIS.get(api_key)
        if api is None:
            raise errors.InvalidRequest(
                f"no API has the key {api_key}: the sender may not speak Kafka's protocol"
            )
        at = _REQUEST.size
        client_id = None
        if size >= 0:
            client_id = str(frame[at : at + size], "utf-8")
            at += size
        elif size != -1:
            raise Malformed(f"the client id of a request has a negative length ({size})")
        if version >= api.flexible_from:
            tagged = frame[at]
            at += 1
            if tagged:
                at = skip_tagged(frame, at, tagged)
    except (StructError, IndexError, UnicodeDecodeError) as problem:
        raise Malformed(f"a frame of {len(frame)} bytes has no valid request header: {problem}") from None
    if at > len(frame):
        raise Malformed(f"the request header is longer than its frame of {len(frame)} bytes")
    return RequestHeader(api_key, version, correlation_id, client_id), at


def encode_request(header: RequestHeader, body: Buffer) -> bytes:
    """The whole frame of a request, length included."""
    api_key, version, correlation_id, client_id = header
    raw = b"" if client_id is None else client_id.encode()
    tags = b"\0" if version >= APIS[api_key].flexible_from else b""
    size = _REQUEST.size + len(raw) + len(tags) + len(body)
    start = _REQUEST.pack(api_key, version, correlation_id, -1 if client_id is None else len(raw))
    return b"".join((_INT32.pack(size), start, raw, tags, body))


def flexible_response(api_key: int, version: int) -> bool:
    """Whether the response has a header with tagged fields."""
    return version >= APIS[api_key].flexible_from and api_key != API_VERSIONS


def encode_response(api_key: int, version: int, correlation_id: int, body: Buffer) -> bytes:
    """The whole frame of a response, length included."""
    return response_start(api_key, version, correlation_id, len(body)) + body


def response_start(api_key: int, version: int, correlation_id: int, body_size: int) -> bytes:
    """The bytes before a body of that size."""
    if flexible_response(api_key, version):
        return _RESPONSE_FLEXIBLE.pack(body_size + 5, correlation_id)
    return _RESPONSE.pack(body_size + 4, correlation_id)


def decode_response_header(api_key: int, version: int, frame: Buffer) -> tuple[int, int]:
    """The correlation id at the start of `frame` (length not included), and where the body starts."""
    at = _INT32.size
    try:
        (correlation_id,) = _INT32.unpack_from(frame)
        if flexible_response(api_key, version):
            tagged = frame[at]
            at += 1
            if tagged:
                at = skip_tagged(frame, at, tagged)
    except (StructError, IndexError):
        at = len(frame) + 1
    if at > len(frame):
        raise Malformed(f"a frame of {len(frame)} bytes has no valid response header")
    return correlation_id, at
