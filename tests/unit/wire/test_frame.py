from __future__ import annotations

import struct

import pytest

from tidelog import errors
from tidelog.wire import frame
from tidelog.wire.frame import RequestHeader
from tidelog.wire.primitives import Malformed

METADATA, API_VERSIONS = 3, 18


@pytest.mark.parametrize("client_id", [None, "", "a client", "Größe"])
@pytest.mark.parametrize("version", [8, 9])
def test_a_request_header_comes_back_from_its_frame(client_id: str | None, version: int) -> None:
    header = RequestHeader(METADATA, version, 7, client_id)
    whole = frame.encode_request(header, b"body")
    assert struct.unpack_from(">i", whole) == (len(whole) - 4,)
    decoded, at = frame.decode_request_header(memoryview(whole)[4:])
    assert decoded == header
    assert whole[4 + at :] == b"body"


def test_only_flexible_requests_have_tagged_fields_in_their_header() -> None:
    sizes = [len(frame.encode_request(RequestHeader(METADATA, v, 1, "c"), b"")) for v in (8, 9)]
    assert sizes[1] == sizes[0] + 1


def test_tagged_fields_in_a_header_are_skipped() -> None:
    start = struct.pack(">hhih", METADATA, 9, 1, -1)
    header, at = frame.decode_request_header(start + b"\x01\x05\x02zz" + b"body")
    assert header.client_id is None
    assert at == len(start) + 5
    assert frame.decode_response_header(METADATA, 9, b"\0\0\0\x07\x01\x05\x02zzbody") == (7, 9)


def test_a_version_the_api_does_not_have_still_gives_its_header() -> None:
    header, _ = frame.decode_request_header(struct.pack(">hhih", API_VERSIONS, 99, 5, -1) + b"\0")
    assert (header.api_version, header.correlation_id) == (99, 5)


def test_api_versions_is_answered_without_tagged_fields_in_the_header() -> None:
    assert frame.encode_response(API_VERSIONS, 4, 9, b"b") == b"\0\0\0\x05\0\0\0\x09b"
    assert frame.encode_response(METADATA, 9, 9, b"b") == b"\0\0\0\x06\0\0\0\x09\0b"
    assert frame.encode_response(METADATA, 8, 9, b"b") == b"\0\0\0\x05\0\0\0\x09b"
    assert frame.decode_response_header(API_VERSIONS, 4, b"\0\0\0\x09b") == (9, 4)
    assert frame.decode_response_header(METADATA, 9, b"\0\0\0\x09\0b") == (9, 5)


@pytest.mark.parametrize("key", [-1, 4, 7, 93, 32767])
def test_a_key_without_an_api_is_refused(key: int) -> None:
    with pytest.raises(errors.InvalidRequest, match=f"key {key}"):
        frame.decode_request_header(struct.pack(">hhih", key, 0, 1, -1))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\x03\0\x08\0\0\0\x01\0",
        struct.pack(">hhih", METADATA, 8, 1, 5) + b"four",
        struct.pack(">hhih", METADATA, 8, 1, -2),
        struct.pack(">hhih", METADATA, 8, 1, 1) + b"\xff",
        struct.pack(">hhih", METADATA, 9, 1, -1),
        struct.pack(">hhih", METADATA, 9, 1, -1) + b"\x01\x00\x7f",
        struct.pack(">hhih", METADATA, 9, 1, -1) + b"\xff\xff\xff\xff\xff\xff",
    ],
)
def test_a_broken_request_header_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        frame.decode_request_header(data)


@pytest.mark.parametrize(
    "data", [b"", b"\0\0\0", b"\0\0\0\x01", b"\0\0\0\x01\x01", b"\0\0\0\x01\x01\x00\x09"]
)
def test_a_broken_response_header_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        frame.decode_response_header(METADATA, 9, data)
