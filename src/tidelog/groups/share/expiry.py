"""The records of a read of the log: which have expired, or are not due yet, by the topic's settings or by headers of their
own, and their keys where they are delivered in the order of keys.

A record's time counts from its timestamp.  Pure; the time is passed in."""

from __future__ import annotations

from tidelog._speed.log.batch import Header
from tidelog._speed.log.records import Record
from tidelog.config import TopicConfig
from tidelog.groups.share.partition import OffsetSpan
from tidelog.record.codecs import DECOMPRESSED_BYTES_MAX, Codec
from tidelog.record.reader import Batch

TTL_HEADER = "tidelog.ttl.ms"
DUE_HEADER = "tidelog.due.ms"
UNLIMITED = -1
_OWN_TIMES = TTL_HEADER.encode(), DUE_HEADER.encode()
_DIGITS_MAX = 18


class Expiry:
    """`next_ms` is when the first record that was seen alive expires; None: it does not."""

    def __init__(self, ttl_ms: int, now_ms: int, by_key: bool = False, delay_ms: int = 0) -> None:
        """`by_key`: each record makes a span of its own, with its key.  `delay_ms`: of records that bring no due time."""
        self._ttl_ms = ttl_ms
        self._delay_ms = delay_ms
        self._by_key = by_key
        self._now_ms = now_ms
        self._met_alive = False
        self.next_ms: int | None = None

    def spans(self, data: memoryview, header: Header, first: int) -> list[OffsetSpan]:
        """The offsets of a batch from `first` on; `data` is what the header's position counts in."""
        batch = Batch(data, header, DECOMPRESSED_BYTES_MAX)
        if self._ttl_ms == UNLIMITED and not self._by_key and not self._delay_ms and _no_own_times(batch):
            self._met_alive = True
            return [OffsetSpan(first, header.last_offset)]
        spans: list[OffsetSpan] = []
        for record in batch.records(first):
            expires_ms = self._expires_ms(record)
            due_ms = due_of(record, self._delay_ms)
            delayed = due_ms is not None and due_ms > self._now_ms
            expired = not delayed and expires_ms is not None and expires_ms <= self._now_ms
            if not expired and not delayed and not self._met_alive:
                self._met_alive, self.next_ms = True, expires_ms
            start = spans[-1].last + 1 if spans else first
            if self._by_key:
                if start < record.offset:
                    spans.append(OffsetSpan(start, record.offset - 1, empty=True))
                spans.append(OffsetSpan(record.offset, record.offset, False, expired, delayed, record.key))
            elif spans and (spans[-1].expired, spans[-1].delayed) == (expired, delayed):
                spans[-1] = spans[-1]._replace(last=record.offset)
            else:
                spans.append(OffsetSpan(start, record.offset, False, expired, delayed))
        if not spans:
            return [OffsetSpan(first, header.last_offset, empty=True)]
        if not self._by_key:
            spans[-1] = spans[-1]._replace(last=header.last_offset)
        elif spans[-1].last < header.last_offset:
            spans.append(OffsetSpan(spans[-1].last + 1, header.last_offset, empty=True))
        return spans

    def _expires_ms(self, record: Record) -> int | None:
        ttl_ms = own_ttl_ms(record)
        if ttl_ms is None or UNLIMITED < self._ttl_ms < ttl_ms:
            ttl_ms = self._ttl_ms
        return None if ttl_ms == UNLIMITED else record.timestamp + ttl_ms


def expiry_of(config: TopicConfig, now_ms: int, by_key: bool) -> Expiry | None:
    """None: nothing in the topic has a time, and keys do not matter."""
    if config.queue_ttl_ms == UNLIMITED and not config.queue_groups and not by_key:
        return None
    return Expiry(config.queue_ttl_ms, now_ms, by_key, config.queue_delay_ms)


def own_ttl_ms(record: Record) -> int | None:
    """None: the record brings no time to live, or none that can be read."""
    return _number(record, TTL_HEADER)


def due_of(record: Record, delay_ms: int) -> int | None:
    """Nobody gets the record before; None: it has no due time, or had it when it was delivered here."""
    due_ms = _number(record, DUE_HEADER)
    if due_ms is None:
        return record.timestamp + delay_ms if delay_ms else None
    return due_ms if due_ms > record.timestamp else None


def _number(record: Record, header: str) -> int | None:
    for name, value in record.headers:
        if name == header and value is not None and value.isdigit() and len(value) <= _DIGITS_MAX:
            return int(value)
    return None


def _no_own_times(batch: Batch) -> bool:
    """Certain for batches that are not compressed."""
    if batch.header.compression != Codec.NONE:
        return False
    content = bytes(batch.view)
    return not any(name in content for name in _OWN_TIMES)
