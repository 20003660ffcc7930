"""One assigned partition: where its reader is, what was fetched and not handed out yet.  Pure: no clock, no
I/O.

`position` is the next offset to hand out, `fetch_offset` the next to ask for; between them lies the buffer.
A seek raises `generation`, by which an answer to an older question is known and dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Literal, NamedTuple

from tidelog import errors
from tidelog._speed.batch import header_at, walk
from tidelog.record import HEADER_SIZE, Batch, read_batches
from tidelog.types import TopicPartition

TimestampType = Literal["create", "append"]


class Record(NamedTuple):
    """A record as consumed.  `timestamp` is in milliseconds; `timestamp_type` says who set it: the producer
    that created the record, or the broker that appended it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class _Fetched:
    """The bytes of one answer, read batch by batch when they are handed out."""

    __slots__ = ("batches", "end", "records", "size")

    def __init__(self, data: bytes, end: int, check_crc: bool) -> None:
        self.size = len(data)
        self.end = end
        self.batches: Iterator[Batch] = read_batches(data, check_crc=check_crc)
        self.records: deque[Record] = deque()


class Assigned:
    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.position: int | None = None
        self.fetch_offset = 0
        self.look_up: int | None = None
        self.generation = 0
        self.paused = False
        self.fetching = False
        self.buffered_bytes = 0
        self.end_offset: int | None = None
        self.not_before_ms = 0.0
        self.failures = 0
        self.failing_since_ms: float | None = None
        self.problem: errors.TidelogError | None = None
        self._fetched: deque[_Fetched] = deque()

    def seek(self, offset: int) -> None:
        self._drop()
        self.position = self.fetch_offset = offset
        self.look_up = None

    def seek_by_look_up(self, time_ms: int) -> None:
        """To where a ListOffsets answer will say."""
        self._drop()
        self.position = None
        self.look_up = time_ms

    def _drop(self) -> None:
        self.generation += 1
        self.fetching = False
        self._fetched.clear()
        self.buffered_bytes = 0
        self.problem = None
        self.end_offset = None

    @property
    def has_records(self) -> bool:
        return bool(self._fetched) and not self.paused

    def wants_fetch(self, now_ms: float, buffered_bytes_max: int) -> bool:
        return (
            self.position is not None
            and not self.paused
            and not self.fetching
            and self.problem is None
            and self.buffered_bytes < buffered_bytes_max
            and now_ms >= self.not_before_ms
        )

    # Facts

    def fetched(self, data: bytes, end_offset: int, check_crc: bool) -> None:
        self.worked()
        self.end_offset = end_offset
        if not data:
            return
        headers = walk(data)
        if not headers and _is_cut(data):
            self.problem = errors.RecordListTooLarge(
                f"the batch at offset {self.fetch_offset} of {self.partition} is larger than what was "
                "fetched: raise max_partition_fetch_bytes"
            )
            return
        # Bytes that are no batch at all are kept too: `take` says what is wrong with them.
        self.fetch_offset = headers[-1].last_offset + 1 if headers else self.fetch_offset
        self._fetched.append(_Fetched(data, self.fetch_offset, check_crc))
        self.buffered_bytes += len(data)

    def worked(self) -> None:
        self.failures = 0
        self.failing_since_ms = None
        self.not_before_ms = 0.0

    def failed(self, problem: errors.TidelogError, now_ms: float, wait_ms: float, give_up_ms: int) -> None:
        """Something that may pass; when it lasts longer than `give_up_ms` the reader hears of it."""
        self.failures += 1
        self.not_before_ms = now_ms + wait_ms
        if self.failing_since_ms is None:
            self.failing_since_ms = now_ms
        elif now_ms - self.failing_since_ms >= give_up_ms:
            self.problem = problem

    # Handing out

    def take(self, records_max: int) -> list[Record]:
        """Raises `CorruptMessage` or `InvalidRecord` at a batch that cannot be read; the position stays in
        front of it, and the next fetch asks for it again."""
        out: list[Record] = []
        while self._fetched and len(out) < records_max:
            current = self._fetched[0]
            while current.records and len(out) < records_max:
                out.append(current.records.popleft())
                self.position = out[-1].offset + 1
            if current.records:
                break
            try:
                done = not self._next_batch(current)
            except (errors.CorruptMessage, errors.InvalidRecord) as problem:
                if out:
                    # What was good goes out first; the next call meets the bad batch again.
                    self._refetch()
                    break
                position = self.position
                self._refetch()
                raise type(problem)(
                    f"{self.partition} at offset {position}: {problem}; seek past it to go on"
                ) from problem
            if done:
                # Compaction may have taken the last records: the reader is past them all the same.
                self.position = max(self.position or 0, current.end)
                self._fetched.popleft()
                self.buffered_bytes -= current.size
        return out

    def _next_batch(self, current: _Fetched) -> bool:
        """Moves the next batch's records to `current.records`; False when there is none."""
        batch = next(current.batches, None)
        if batch is None:
            return False
        header = batch.header
        position = self.position
        assert position is not None
        if not header.control and header.last_offset >= position:
            kind: TimestampType = "append" if header.log_append_time else "create"
            topic, partition = self.partition
            current.records.extend(
                Record(topic, partition, one.offset, one.timestamp, kind, one.key, one.value, one.headers)
                for one in batch.records()
                if one.offset >= position
            )
        if not current.records:
            # A control batch, or one that compaction has emptied: nothing to hand out, but the reader is past
            # it.
            self.position = max(position, header.last_offset + 1)
        return True

    def _refetch(self) -> None:
        position = self.position
        assert position is not None
        self.seek(position)


def _is_cut(data: bytes) -> bool:
    """The start of a batch, without its end."""
    header = header_at(data)
    return len(data) < HEADER_SIZE if header is None else header.size > len(data)
