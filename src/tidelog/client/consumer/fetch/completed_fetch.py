"""One partition's bytes of a fetch answer, read batch by batch as records are handed out.  Pure.

Records that a reader must not see are left out here: control records, and under `read_committed` the records of the
aborted transactions that the answer lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tidelog._speed.client.consumed import Record, read
from tidelog.record import Batch, EndMarker, Marker, read_batches, read_marker
from tidelog.types import TopicPartition
from tidelog.wire.primitives import Records

NO_PRODUCER = -1


class AbortedTransactions:
    """Which batches belong to aborted transactions; asked about every batch, in order."""

    def __init__(self, transactions: Iterable[tuple[int, int]]) -> None:
        """`transactions`: producer id and first offset of each."""
        self._coming = sorted(transactions, key=lambda transaction: transaction[1], reverse=True)
        self._open: set[int] = set()

    def hide(self, batch: Batch) -> bool:
        header = batch.header
        if header.producer_id == NO_PRODUCER:
            return False
        while self._coming and self._coming[-1][1] <= header.last_offset:
            self._open.add(self._coming.pop()[0])
        if not header.control:
            return header.transactional and header.producer_id in self._open
        if header.producer_id in self._open:
            marker = _marker(batch)
            if marker is not None and marker.marker is Marker.ABORT:
                self._open.discard(header.producer_id)
        return True


def _marker(batch: Batch) -> EndMarker | None:
    records = batch.records()
    return read_marker(records[0]) if records else None


class CompletedFetch:
    """`end` is the offset behind the last batch, whether or not any record of it is left."""

    __slots__ = (
        "_aborts",
        "_at",
        "_batches",
        "_partition",
        "_records",
        "_topic",
        "aborted",
        "data",
        "end",
        "size",
    )

    def __init__(
        self,
        partition: TopicPartition,
        data: Records,
        end: int,
        check_crc: bool,
        aborted: Sequence[tuple[int, int]] | None,
    ) -> None:
        """`aborted`: producer id and first offset of transactions; None to show those as well."""
        self.data = data
        self.size = len(data)
        self.end = end
        self.aborted = aborted
        self._topic, self._partition = partition
        self._batches: Iterator[Batch] = read_batches(data, check_crc=check_crc)
        self._aborts = None if aborted is None else AbortedTransactions(aborted)
        self._records: list[Record] = []
        self._at = 0

    def next(self, start: int, count: int) -> list[Record]:
        """Up to `count` records from offset `start` on, of one batch, to be left as they are; none when all is
        read.

        Raises `CorruptMessage` or `InvalidRecord` at a batch that cannot be read."""
        if self._at == len(self._records):
            self._records, self._at = self._load(start), 0
        at, self._at = self._at, min(self._at + count, len(self._records))
        return self._records[at : self._at] if self._at - at < len(self._records) else self._records

    def batches(self, start: int) -> Iterator[Batch]:
        """The batches with records for a reader at `start`, for a caller that reads whole batches."""
        for batch in self._batches:
            hidden = self._aborts is not None and self._aborts.hide(batch)
            if not hidden and not batch.header.control and batch.header.last_offset >= start:
                yield batch

    def _load(self, start: int) -> list[Record]:
        for batch in self.batches(start):
            header = batch.header
            records = read(
                batch.section(),
                header.count,
                header.base_offset,
                header.base_timestamp,
                header.max_timestamp if header.log_append_time else None,
                self._topic,
                self._partition,
                start,
                header.leader_epoch,
            )
            if records:
                return records
        return []
