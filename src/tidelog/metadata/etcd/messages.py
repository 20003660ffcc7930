"""The messages of etcd's v3 API that the store sends and reads, as protobuf bytes.  Pure.

Field numbers are etcd's.  The code is written by hand, because generated code needs the protobuf package, more memory and
a slower start.  Fields that are not read are skipped, as protobuf requires."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tidelog.wire.protobuf import BYTES, FIXED32, FIXED64, VARINT, data, message, number, varint

RANGE = "/etcdserverpb.KV/Range"
TXN = "/etcdserverpb.KV/Txn"
WATCH = "/etcdserverpb.Watch/Watch"
LEASE_GRANT = "/etcdserverpb.Lease/LeaseGrant"
LEASE_REVOKE = "/etcdserverpb.Lease/LeaseRevoke"
LEASE_KEEP_ALIVE = "/etcdserverpb.Lease/LeaseKeepAlive"
AUTHENTICATE = "/etcdserverpb.Auth/Authenticate"
STATUS = "/etcdserverpb.Maintenance/Status"

_COMPARE_MOD = (
    2  # compares the revision that last wrote the key; the operator EQUAL is 0, which is not written
)
_DELETED = 1

Value = int | bytes


class MalformedEtcdMessage(ValueError):
    """The bytes are not a message of etcd."""


class KeyValue(NamedTuple):
    key: bytes
    value: bytes
    revision: int
    lease: int


class RangeAnswer(NamedTuple):
    revision: int
    entries: list[KeyValue]
    more: bool


class TxnAnswer(NamedTuple):
    """`ranges`: the results of the range operations in the branch that ran, in order."""

    revision: int
    succeeded: bool
    ranges: list[RangeAnswer]


class Event(NamedTuple):
    """`value` None: the key is gone."""

    key: bytes
    value: bytes | None
    revision: int


class Header(NamedTuple):
    """The header of every answer: the cluster that answered, and its newest revision."""

    cluster_id: int
    revision: int


class WatchAnswer(NamedTuple):
    header: Header
    created: bool
    canceled: bool
    compacted: int
    reason: str
    events: list[Event]


class LeaseAnswer(NamedTuple):
    """`ttl_s` 0 or less: there is no such lease."""

    id: int
    ttl_s: int


class StatusAnswer(NamedTuple):
    """`leader` 0: the member knows no leader."""

    member: int
    version: str
    leader: int
    revision: int


def fields(text: bytes) -> Iterator[tuple[int, Value]]:
    """(number, value) of every varint and every length-delimited field; other fields are skipped."""
    at, size = 0, len(text)
    while at < size:
        tag, at = _read_varint(text, at)
        kind = tag & 7
        if kind == VARINT:
            value, at = _read_varint(text, at)
            yield tag >> 3, value
        elif kind == BYTES:
            length, at = _read_varint(text, at)
            if length > size - at:
                raise MalformedEtcdMessage(f"a field of {length} bytes where {size - at} are left")
            yield tag >> 3, text[at : at + length]
            at += length
        elif kind in (FIXED64, FIXED32):
            at += 8 if kind == FIXED64 else 4
            if at > size:
                raise MalformedEtcdMessage("a field is cut off")
        else:
            raise MalformedEtcdMessage(f"wire type {kind} is unknown")


def _read_varint(text: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(text) or shift > 63:
            raise MalformedEtcdMessage("a number is cut off or too long")
        byte = text[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= (1 << 64) - 1
            return (value - (1 << 64) if value >> 63 else value), at
        shift += 7


def _int(value: Value) -> int:
    if not isinstance(value, int):
        raise MalformedEtcdMessage("bytes where a number belongs")
    return value


def _bytes(value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise MalformedEtcdMessage("a number where bytes belong")
    return value


# Requests


def range_request(key: bytes, end: bytes = b"", limit: int = 0, revision: int = 0) -> bytes:
    """Asks for the keys from `key` up to `end` (exclusive), in order; without `end`, for the one key."""
    return data(1, key) + data(2, end) + number(3, limit) + number(4, revision)


def range_operation(key: bytes) -> bytes:
    return message(1, range_request(key))


def put_operation(key: bytes, value: bytes, lease: int) -> bytes:
    return message(2, data(1, key) + data(2, value) + number(3, lease))


def delete_operation(key: bytes, end: bytes = b"") -> bytes:
    return message(3, data(1, key) + data(2, end))


def compare_revision(key: bytes, revision: int) -> bytes:
    """Holds if the key was last written at `revision`; 0: if the key does not exist."""
    # The operand is a oneof field in protobuf, so it is written even if it is 0.
    operand = varint(6 << 3 | VARINT) + varint(revision)
    return number(2, _COMPARE_MOD) + data(3, key) + operand


def txn_request(compare: Sequence[bytes], success: Sequence[bytes], failure: Sequence[bytes]) -> bytes:
    parts = [message(1, comparison) for comparison in compare]
    parts += [message(2, operation) for operation in success]
    parts += [message(3, operation) for operation in failure]
    return b"".join(parts)


def watch_request(key: bytes, end: bytes, start_revision: int) -> bytes:
    return message(1, data(1, key) + data(2, end) + number(3, start_revision))


PROGRESS_REQUEST = message(3, b"")
"""A watch answers this request at once, or after the events that it still has to send: a sign of life."""


def lease_grant_request(ttl_s: int) -> bytes:
    return number(1, ttl_s)


def lease_request(lease: int) -> bytes:
    """The request of both revoke and keep-alive."""
    return number(1, lease)


def authenticate_request(user: str, password: str) -> bytes:
    return data(1, user.encode()) + data(2, password.encode())


# Answers


def header_revision(header: bytes) -> int:
    return read_header(header).revision


def read_header(text: bytes) -> Header:
    cluster_id = revision = 0
    for field, value in fields(text):
        if field == 1:
            cluster_id = _int(value)
        elif field == 3:
            revision = _int(value)
    return Header(cluster_id, revision)


def read_header_of(text: bytes) -> Header:
    """Every answer has its header in the first field."""
    return next((read_header(_bytes(value)) for field, value in fields(text) if field == 1), Header(0, 0))


def read_range(text: bytes) -> RangeAnswer:
    revision, entries, more = 0, [], False
    for field, value in fields(text):
        if field == 1:
            revision = header_revision(_bytes(value))
        elif field == 2:
            entries.append(_key_value(_bytes(value)))
        elif field == 3:
            more = bool(value)
    return RangeAnswer(revision, entries, more)


def _key_value(text: bytes) -> KeyValue:
    key, content, revision, lease = b"", b"", 0, 0
    for field, value in fields(text):
        if field == 1:
            key = _bytes(value)
        elif field == 3:
            revision = _int(value)
        elif field == 5:
            content = _bytes(value)
        elif field == 6:
            lease = _int(value)
    return KeyValue(key, content, revision, lease)


def read_txn(text: bytes) -> TxnAnswer:
    revision, succeeded, ranges = 0, False, []
    for field, value in fields(text):
        if field == 1:
            revision = header_revision(_bytes(value))
        elif field == 2:
            succeeded = bool(value)
        elif field == 3:
            ranges += [read_range(_bytes(answer)) for kind, answer in fields(_bytes(value)) if kind == 1]
    return TxnAnswer(revision, succeeded, ranges)


def read_watch(text: bytes) -> WatchAnswer:
    created = canceled = False
    header = Header(0, 0)
    compacted, reason, events = 0, "", []
    for field, value in fields(text):
        if field == 1:
            header = read_header(_bytes(value))
        elif field == 3:
            created = bool(value)
        elif field == 4:
            canceled = bool(value)
        elif field == 5:
            compacted = _int(value)
        elif field == 6:
            reason = _bytes(value).decode(errors="replace")
        elif field == 11:
            events.append(_event(_bytes(value)))
    return WatchAnswer(header, created, canceled, compacted, reason, events)


def _event(text: bytes) -> Event:
    kind, entry = 0, KeyValue(b"", b"", 0, 0)
    for field, value in fields(text):
        if field == 1:
            kind = _int(value)
        elif field == 2:
            entry = _key_value(_bytes(value))
    return Event(entry.key, None if kind == _DELETED else entry.value, entry.revision)


def read_lease(text: bytes) -> LeaseAnswer:
    lease, ttl_s = 0, 0
    for field, value in fields(text):
        if field == 2:
            lease = _int(value)
        elif field == 3:
            ttl_s = _int(value)
    return LeaseAnswer(lease, ttl_s)


def read_token(text: bytes) -> str:
    return next((_bytes(value).decode() for field, value in fields(text) if field == 2), "")


def read_status(text: bytes) -> StatusAnswer:
    member = leader = revision = 0
    version = ""
    for field, value in fields(text):
        if field == 1:
            header = _bytes(value)
            revision = header_revision(header)
            member = next((_int(content) for inner, content in fields(header) if inner == 2), 0)
        elif field == 2:
            version = _bytes(value).decode()
        elif field == 4:
            leader = _int(value)
    return StatusAnswer(member, version, leader, revision)
