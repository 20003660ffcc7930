"""Record batches in plain Python, from the format's description: slow, obvious, the judge of `_speed`."""

from __future__ import annotations

import struct
from typing import NamedTuple

from tidelog.errors import InvalidRecord

HEADER = struct.Struct(">qiibIhiqqqhii")


class PlainRecord(NamedTuple):
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


def put_varint(value: int) -> bytes:
    raw = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def get_varint(data: bytes, at: int, bits: int) -> tuple[int, int]:
    """(value, position after it); bits beyond the type's width are dropped."""
    raw = 0
    for number in range(5 if bits == 32 else 10):
        if at >= len(data):
            raise InvalidRecord("cut")
        raw |= (data[at] & 0x7F) << (7 * number)
        at += 1
        if data[at - 1] < 0x80:
            raw &= (1 << bits) - 1
            return (raw >> 1) ^ -(raw & 1), at
    raise InvalidRecord("a number that does not end")


def put_bytes(data: bytes | None) -> bytes:
    return put_varint(-1) if data is None else put_varint(len(data)) + data


def get_bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = get_varint(data, at, 32)
    if size < 0:
        return None, at
    if size > len(data) - at:
        raise InvalidRecord("cut")
    return data[at : at + size], at + size


def encode_record(record: PlainRecord) -> bytes:
    body = b"\0" + put_varint(record.timestamp_delta) + put_varint(record.offset_delta)
    body += put_bytes(record.key) + put_bytes(record.value) + put_varint(len(record.headers))
    for name, value in record.headers:
        body += put_bytes(name) + put_bytes(value)
    return put_varint(len(body)) + body


def decode_body(body: bytes) -> PlainRecord:
    delta, at = get_varint(body, 1, 64)
    offset_delta, at = get_varint(body, at, 32)
    key, at = get_bytes(body, at)
    value, at = get_bytes(body, at)
    count, at = get_varint(body, at, 32)
    if not 0 <= count <= len(body) - at:
        raise InvalidRecord("header count")
    headers = []
    for _ in range(count):
        name, at = get_bytes(body, at)
        if name is None:
            raise InvalidRecord("header without a name")
        header_value, at = get_bytes(body, at)
        headers.append((name, header_value))
    if at != len(body):
        raise InvalidRecord("size")
    return PlainRecord(delta, offset_delta, key, value, tuple(headers))


def decode_records(data: bytes, count: int) -> list[PlainRecord]:
    at, found = 0, []
    for _ in range(count):
        size, at = get_varint(data, at, 32)
        if not 0 < size <= len(data) - at:
            raise InvalidRecord("size")
        found.append(decode_body(data[at : at + size]))
        at += size
    if at != len(data):
        raise InvalidRecord("left over")
    return found


def check_records(data: bytes, count: int, keys_required: bool) -> tuple[int, int, int]:
    found = decode_records(data, count)
    if not found:
        raise InvalidRecord("empty")
    for place, record in enumerate(found):
        if record.offset_delta != place or (keys_required and record.key is None):
            raise InvalidRecord("delta or key")
    deltas = [record.timestamp_delta for record in found]
    return max(deltas), deltas.index(max(deltas)), min(deltas)


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def encode_batch(
    records: list[PlainRecord],
    base_timestamp: int,
    *,
    attributes: int = 0,
    base_offset: int = 0,
    epoch: int = -1,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    section = b"".join(encode_record(record) for record in records)
    max_timestamp = base_timestamp + max(record.timestamp_delta for record in records)
    covered = struct.pack(
        ">hiqqqhii",
        attributes,
        records[-1].offset_delta,
        base_timestamp,
        max_timestamp,
        *producer,
        len(records),
    )
    covered += section
    return struct.pack(">qiibI", base_offset, 9 + len(covered), epoch, 2, crc32c(covered)) + covered
