"""The state of one assigned partition: its position, and the fetched records that are not handed out yet.  Pure: no
clock, no I/O.

`position` is the next offset to hand out, `fetch_offset` the next to ask for; between them lies the buffer.
`settled` is the position that may be committed without losing records when the application dies: the position of its
last `poll`.  A seek replaces `generation`, so that answers to older requests are recognised and dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from tidelog import errors
from tidelog._speed.client.consumed import Record
from tidelog._speed.log.batch import header_at, walk
from tidelog.client.cluster.topology import NO_ID
from tidelog.client.consumer.fetch.completed_fetch import CompletedFetch
from tidelog.record import HEADER_SIZE
from tidelog.types import TopicPartition
from tidelog.wire.primitives import Records

__all__ = ["AssignedPartition", "Record"]

NO_EPOCH = -1


class AssignedPartition:
    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.position: int | None = None
        self.epoch = NO_EPOCH  # of the record before `position`
        self.settled: int | None = None
        self.settled_epoch = NO_EPOCH
        self.fetch_offset = 0
        self.fetch_epoch = NO_EPOCH
        self.topic_id = NO_ID  # of the topic that the position is in
        self.look_up: int | None = None
        self.needs_committed = False
        self.generation = object()
        self.paused = False
        self.fetching = False
        self.buffered_bytes = 0
        self.end_offset: int | None = None
        self.stable_offset: int | None = None
        self.replica: int | None = None
        self.replica_until_ms = 0.0
        self.not_before_ms = 0.0
        self.failures = 0
        self.failing_since_ms: float | None = None
        self.problem: errors.TidelogError | None = None
        self._fetched: deque[CompletedFetch] = deque()

    # Where to read

    def seek(self, offset: int, epoch: int = NO_EPOCH) -> None:
        """`epoch`: the leader epoch of the record before it, when that is known."""
        self._drop()
        self.position = self.settled = self.fetch_offset = offset
        self.epoch = self.settled_epoch = self.fetch_epoch = epoch
        self.look_up = None
        self.needs_committed = False

    def seek_by_look_up(self, time_ms: int) -> None:
        """To the offset that ListOffsets will answer."""
        self._drop()
        self.position = self.settled = None
        self.needs_committed = False
        self.look_up = time_ms

    def seek_to_committed(self) -> None:
        """To the offset that the group's coordinator, or the offset store, will answer."""
        self._drop()
        self.position = self.settled = None
        self.look_up = None
        self.needs_committed = True

    def _drop(self) -> None:
        self.generation = object()
        self.topic_id = NO_ID
        self.fetching = False
        self._fetched.clear()
        self.buffered_bytes = 0
        self.problem = None
        self.end_offset = self.stable_offset = None

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

    def fetched(
        self,
        data: Records,
        end_offset: int,
        check_crc: bool,
        aborted: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        """`aborted`: the answer's aborted transactions, for a `read_committed` reader."""
        self.worked()
        self.end_offset = end_offset
        if not data:
            return
        headers = walk(data)
        if not headers and _is_cut(data):
            self.problem = errors.RecordListTooLarge(
                f"the batch at offset {self.fetch_offset} of {self.partition} is larger than a "
                "fetch: raise max_partition_fetch_bytes"
            )
            return
        # Bytes that are no batch at all are kept too: `take` says what is wrong with them.
        if headers:
            self.fetch_offset = headers[-1].last_offset + 1
            self.fetch_epoch = headers[-1].leader_epoch
        self._fetched.append(CompletedFetch(self.partition, data, self.fetch_offset, check_crc, aborted))
        self.buffered_bytes += len(data)

    def worked(self) -> None:
        self.failures = 0
        self.failing_since_ms = None
        self.not_before_ms = 0.0

    def failed(self, problem: errors.TidelogError, now_ms: float, wait_ms: float, give_up_ms: int) -> None:
        """A retriable failure; when it lasts longer than `give_up_ms`, `poll` raises it."""
        self.failures += 1
        self.not_before_ms = now_ms + wait_ms
        self.replica = None
        if self.failing_since_ms is None:
            self.failing_since_ms = now_ms
        elif now_ms - self.failing_since_ms >= give_up_ms:
            self.problem = problem

    # Handing out

    def take(self, records_max: int) -> list[Record]:
        """Raises `CorruptMessage` or `InvalidRecord` at a batch that cannot be read; the position stays in
        front of it, and the next fetch asks for it again."""
        out: list[Record] = []
        position = self.position
        assert position is not None or not self._fetched
        while self._fetched and len(out) < records_max:
            assert position is not None
            current = self._fetched[0]
            try:
                records = current.next(position, records_max - len(out))
            except (errors.CorruptMessage, errors.InvalidRecord) as problem:
                # The good records go out first; the next call meets the bad batch again.
                self.seek_back(position)
                if out:
                    break
                raise type(problem)(
                    f"{self.partition} at offset {position}: {problem}; seek past it to continue"
                ) from problem
            if records:
                out += records
                position = records[-1].offset + 1
                self.epoch = records[-1].leader_epoch
            else:
                # Compaction may have taken the last records, or they are not for readers: the reader is past
                # them all the same.
                position = max(position, current.end)
                self._fetched.popleft()
                self.buffered_bytes -= current.size
        self.position = position
        return out

    def take_fetched(self) -> CompletedFetch | None:
        """A whole answer, for a caller that reads whole batches; the position moves behind all of it."""
        if not self._fetched:
            return None
        current = self._fetched.popleft()
        self.buffered_bytes -= current.size
        self.position = max(self.position or 0, current.end)
        return current

    def settle(self) -> None:
        """The application has polled again: the records that it was given before are settled."""
        self.settled, self.settled_epoch = self.position, self.epoch

    def seek_back(self, position: int) -> None:
        """Drops the buffered records and reads again from `position`; the settled position stays."""
        settled, settled_epoch, epoch = self.settled, self.settled_epoch, self.epoch
        self.seek(position, epoch)
        self.settled, self.settled_epoch = settled, settled_epoch


def _is_cut(data: Records) -> bool:
    """The start of a batch, without its end."""
    header = header_at(data)
    return len(data) < HEADER_SIZE if header is None else header.size > len(data)
