"""The records of a read of the log: which have expired, by the topic's setting or by a header of their own, and their keys
where they are delivered in the order of keys.

A record's time counts from its timestamp.  Pure; the time is passed in."""

from __future__ import annotations

from tidelog._speed.log.batch import Header
from tidelog._speed.log.records import Record
from tidelog.config import TopicConfig
from tidelog.groups.share.partition import OffsetSpan
from tidelog.record.codecs import DECOMPRESSED_BYTES_MAX, Codec
from tidelog.record.reader import Batch

TTL_HEADER = "tidelog.ttl.ms"
UNLIMITED = -1
_TTL_BYTES = TTL_HEADER.encode()
_DIGITS_MAX = 18


class Expiry:
    """`next_ms` is when the first record that was seen alive expires; None: it does not."""

    def __init__(self, ttl_ms: int, now_ms: int, by_key: bool = False) -> None:
        """`by_key`: each record makes a span of its own, with its key."""
        self._ttl_ms = ttl_ms
        self._by_key = by_key
        self._now_ms = now_ms
        self._met_alive = False
        self.next_ms: int | None = None

    def spans(self, data: memoryview, header: Header, first: int) -> list[OffsetSpan]:
        """The offsets of a batch from `first` on; `data` is what the header's position counts in."""
        batch = Batch(data, header, DECOMPRESSED_BYTES_MAX)
        no_own_ttl = header.compression == Codec.NONE and _TTL_BYTES not in bytes(batch.view)
        if self._ttl_ms == UNLIMITED and no_own_ttl and not self._by_key:
            self._met_alive = True
            return [OffsetSpan(first, header.last_offset)]
        spans: list[OffsetSpan] = []
        for record in batch.records(first):
            expires_ms = self._expires_ms(record)
            expired = expires_ms is not None and expires_ms <= self._now_ms
            if not expired and not self._met_alive:
                self._met_alive, self.next_ms = True, expires_ms
            start = spans[-1].last + 1 if spans else first
            if self._by_key:
                if start < record.offset:
                    spans.append(OffsetSpan(start, record.offset - 1, empty=True))
                spans.append(OffsetSpan(record.offset, record.offset, expired=expired, key=record.key))
            elif spans and spans[-1].expired == expired:
                spans[-1] = spans[-1]._replace(last=record.offset)
            else:
                spans.append(OffsetSpan(start, record.offset, expired=expired))
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
    """None: nothing in the topic expires, and keys do not matter."""
    if config.queue_ttl_ms == UNLIMITED and not config.queue_groups and not by_key:
        return None
    return Expiry(config.queue_ttl_ms, now_ms, by_key)


def own_ttl_ms(record: Record) -> int | None:
    """None: the record brings no time to live, or none that can be read."""
    for name, value in record.headers:
        if name == TTL_HEADER and value is not None and value.isdigit() and len(value) <= _DIGITS_MAX:
            return int(value)
    return None
