"""What compaction knows of transactions while it goes through a log: which batches were aborted, and whose markers still
end something.  Used by `compactor`."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from tidelog._speed.log.batch import ATTRIBUTES_AT, CRC_AT, Header
from tidelog._speed.log.crc32c import crc32c
from tidelog._speed.log.writer import replace_records
from tidelog.record.builder import Marker, read_marker
from tidelog.record.reader import read_batches
from tidelog.storage.segments.txn_index import Aborted

DELETE_HORIZON = 0x40
_BASE_TIMESTAMP_AT = 27
_TIMESTAMP = Struct(">q")


class Transactions:
    """False when none was aborted."""

    def __init__(self, aborted: Iterable[Aborted]) -> None:
        self._by_producer: dict[int, list[Aborted]] = {}
        for transaction in aborted:
            self._by_producer.setdefault(transaction.producer_id, []).append(transaction)
        self._met: set[int] = set()  # producers with batches since their last marker

    def __bool__(self) -> bool:
        return bool(self._by_producer)

    def hold(self, header: Header) -> bool:
        """Whether the batch belongs to one that was aborted."""
        return header.transactional and any(
            transaction.first_offset <= header.base_offset <= transaction.last_offset
            for transaction in self._by_producer.get(header.producer_id, ())
        )

    def met(self, header: Header) -> None:
        """The batch is in the log, with or without records."""
        self._met.add(header.producer_id)

    def ended(self, batch: memoryview, header: Header) -> tuple[bool, Aborted | None]:
        """Whether the marker ends anything that is still there, and the transaction if it aborts one."""
        needed = header.producer_id in self._met
        self._met.discard(header.producer_id)
        for each in read_batches(batch, check_crc=False):
            for record in each.records():
                end = read_marker(record)
                if end is None:
                    return True, None  # another kind of control record: not ours to judge
                if needed and end.marker is Marker.ABORT:
                    mine = self._by_producer.get(header.producer_id, ())
                    return True, next(
                        (
                            transaction
                            for transaction in mine
                            if transaction.last_offset == header.base_offset
                        ),
                        None,
                    )
        return needed, None


def with_delete_horizon(batch: memoryview, header: Header, horizon_ms: int) -> bytes:
    """The same control batch, with the time at which it may go where its base timestamp was."""
    section = bytearray()
    for each in read_batches(batch, check_crc=False):
        for record in each.records():
            key, value = record.key or b"", record.value or b""
            body = b"\0" + _varint(record.timestamp - horizon_ms)
            body += _varint(record.offset - header.base_offset)
            body += _varint(len(key)) + key + _varint(len(value)) + value + _varint(0)
            section += _varint(len(body)) + body
    changed = bytearray(replace_records(batch, section, header.attributes | DELETE_HORIZON))
    _TIMESTAMP.pack_into(changed, _BASE_TIMESTAMP_AT, horizon_ms)
    changed[CRC_AT : CRC_AT + 4] = crc32c(memoryview(changed)[ATTRIBUTES_AT:]).to_bytes(4)
    return bytes(changed)


def _varint(value: int) -> bytes:
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
