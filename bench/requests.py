"""Produce and Fetch requests encoded once and patched before each send, so that making load costs little.

Both systems get the same bytes: the versions are fixed here, and are those of Kafka's own Java client.
"""

from __future__ import annotations

import struct
import time
from typing import NamedTuple

from bench.admin import CLIENT_ID, Identity, Topic
from tidelog import errors
from tidelog._speed.log.batch import CRC_AT, HEADER_SIZE
from tidelog._speed.log.crc32c import crc32c
from tidelog.record import BatchBuilder
from tidelog.wire.frame import RequestHeader, encode_request
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PRODUCE_VERSION = 13
FETCH_VERSION = 17
ACKS_ALL = -1
IN_FLIGHT_MAX = 5  # what an idempotent producer may have

CORRELATION_AT = 8  # after length, API key and version
SEQUENCE_AT = 53
CRC_FROM = CRC_AT + 4
SEQUENCE_MASK = 0x7FFFFFFF

# A produce answer for one partition: length, correlation id, tags, one topic by id, one partition, its index.
PRODUCE_ERROR_AT = 4 + 4 + 1 + 1 + 16 + 1 + 4

# A fetch answer for one partition, up to the number of its aborted transactions.
FETCH_START = struct.Struct(">iix i h i x16sx i h q q q")
FETCH_ABORTED_AT = FETCH_START.size
FETCH_RECORDS_AT = FETCH_ABORTED_AT + 1 + 4  # none aborted, and the preferred replica

_INT32 = struct.Struct(">i")
_UINT32 = struct.Struct(">I")


class Batch(NamedTuple):
    data: bytes
    records: int


def batch(record_bytes: int, size_max: int, first_key: int | None = None) -> Batch:
    """As many records as fit into `size_max`, or one; values have `record_bytes`; keys are numbered, if wanted."""
    builder = BatchBuilder(size_max)
    now_ms = time.time_ns() // 1_000_000
    value = bytes(range(256)) * (record_bytes // 256 + 1)
    value = value[:record_bytes]
    key = None if first_key is None else b"key-%012d" % first_key
    while builder.add(key, value, now_ms):
        if first_key is not None:
            key = b"key-%012d" % (first_key + builder.count)
    return Batch(builder.build(), builder.count)


def single(record_bytes: int) -> Batch:
    return batch(record_bytes, HEADER_SIZE)


class ProduceFrame:
    """A whole Produce request of one batch for one partition.  `renew` readies it for the next send: with an
    identity by another sequence, which takes another CRC; without one nothing changes but the correlation id."""

    def __init__(self, topic: Topic, partition: int, content: Batch, identity: Identity | None) -> None:
        self.batch_bytes = len(content.data)
        self.count = content.records
        self._identified = identity is not None
        self._correlation = 0
        data = bytearray(content.data)
        if identity is not None:
            struct.pack_into(">qhi", data, SEQUENCE_AT - 10, identity.producer_id, identity.epoch, 0)
            struct.pack_into(">I", data, CRC_AT, crc32c(memoryview(data)[CRC_FROM:]))
        part = PartitionProduceData(partition, bytes(data))
        request = ProduceRequest(
            acks=ACKS_ALL,
            timeout_ms=30_000,
            topic_data=[TopicProduceData(topic_id=topic.id, partition_data=[part])],
        )
        header = RequestHeader(ProduceRequest.API_KEY, PRODUCE_VERSION, 0, CLIENT_ID)
        self.data = bytearray(encode_request(header, request.encode(PRODUCE_VERSION)))
        at = self.data.index(bytes(data))
        self._crc_at = at + CRC_AT
        self._sequence_at = at + SEQUENCE_AT
        self._covered = memoryview(self.data)[at + CRC_FROM : at + len(data)]

    def renew(self, sequence: int) -> bytearray:
        _INT32.pack_into(self.data, CORRELATION_AT, self._correlation)
        self._correlation += 1
        if self._identified:
            _INT32.pack_into(self.data, self._sequence_at, sequence & SEQUENCE_MASK)
            _UINT32.pack_into(self.data, self._crc_at, crc32c(self._covered))
        return self.data


def check_produced(answer: bytes | bytearray) -> None:
    code = int.from_bytes(answer[PRODUCE_ERROR_AT : PRODUCE_ERROR_AT + 2], "big", signed=True)
    if code:
        raise errors.by_code(code)(f"the broker refused a produce request: {errors.name_of(code)}")


class FetchFrame:
    """A whole Fetch request for one partition, without a session; `at_offset` moves it on."""

    def __init__(self, topic: Topic, partition: int, partition_bytes_max: int = 1 << 20) -> None:
        marker = 0x7EDC_BA98_7654_3210
        part = FetchPartition(
            partition=partition, fetch_offset=marker, partition_max_bytes=partition_bytes_max
        )
        request = FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=50 << 20,
            session_epoch=-1,
            topics=[FetchTopic(topic_id=topic.id, partitions=[part])],
        )
        header = RequestHeader(FetchRequest.API_KEY, FETCH_VERSION, 0, CLIENT_ID)
        self.data = bytearray(encode_request(header, request.encode(FETCH_VERSION)))
        self._offset_at = self.data.index(struct.pack(">q", marker))

    def at_offset(self, offset: int) -> bytearray:
        struct.pack_into(">q", self.data, self._offset_at, offset)
        return self.data


class Fetched(NamedTuple):
    """Where the records lie in an answer (its length included)."""

    position: int
    size: int


def fetched(answer: memoryview) -> Fetched:
    """`answer` may end before its records do."""
    *_, top, _session, _topic, _partition, code, _committed, _stable, _start = FETCH_START.unpack_from(answer)
    if top or code:
        raise errors.by_code(top or code)(f"the broker refused a fetch: {errors.name_of(top or code)}")
    if answer[FETCH_ABORTED_AT] > 1:
        raise ValueError("the bench reads no transactions, but the broker speaks of aborted ones")
    at = FETCH_RECORDS_AT
    size = shift = 0
    while True:
        byte = answer[at]
        at += 1
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return Fetched(at, max(0, size - 1))
