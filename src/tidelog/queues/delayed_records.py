"""The records of `__delayed_records`: messages that wait for their time, and what became of them.

A delayed message is a record with its own key and value, and headers that say when it is due, and where it belongs.  A
record with the key `done` names offsets in its partition that were delivered or cancelled.  Pure."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from tidelog import errors
from tidelog._speed.log.records import Record
from tidelog.groups.share.expiry import DUE_HEADER
from tidelog.queues.message import QueueMessage

DELAYED_TOPIC = "__delayed_records"
TOPIC_HEADER = "tidelog.delayed.topic"
PARTITION_HEADER = "tidelog.delayed.partition"
DONE_KEY = b"done"
OFFSETS_A_RECORD = 1_000


class DelayedMessage(NamedTuple):
    due_ms: int
    topic: str
    partition: int
    message: QueueMessage


def delayed(due_ms: int, topic: str, partition: int, message: QueueMessage) -> QueueMessage:
    """The record that keeps the message."""
    own = [(name, value) for name, value in message.headers if name != DUE_HEADER]
    headers = [
        (TOPIC_HEADER, topic.encode()),
        (PARTITION_HEADER, b"%d" % partition),
        (DUE_HEADER, b"%d" % due_ms),
        *own,
    ]
    return message._replace(headers=headers)


def read_delayed(record: Record) -> DelayedMessage | None:
    """None for a record that keeps no message; raises InvalidRecord for one that was not written by a broker."""
    if len(record.headers) < 3 or record.headers[0][0] != TOPIC_HEADER:
        return None
    (_, topic), (_, partition), (name, due_ms), *own = record.headers
    if name != DUE_HEADER or topic is None or not _is_number(partition) or not _is_number(due_ms):
        raise errors.InvalidRecord(f"the record at offset {record.offset} is no delayed message")
    assert partition is not None and due_ms is not None
    # Delivered with the time of its delivery, so that its time to live and the topic's retention count from then.
    message = QueueMessage(record.value, record.key, (*own, (DUE_HEADER, due_ms)))
    return DelayedMessage(int(due_ms), topic.decode(), int(partition), message)


def done(offsets: Sequence[int]) -> QueueMessage:
    return QueueMessage(struct.pack(f">{len(offsets)}q", *offsets), DONE_KEY)


def read_done(record: Record) -> tuple[int, ...]:
    """The offsets that a record says are done; none for another record."""
    if record.key != DONE_KEY or record.value is None or record.headers or len(record.value) % 8:
        return ()
    return struct.unpack(f">{len(record.value) // 8}q", record.value)


def _is_number(value: bytes | None) -> bool:
    return value is not None and value.isdigit() and len(value) <= 18
