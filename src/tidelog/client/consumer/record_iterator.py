"""`async for record in consumer`: polls when no record is left, and attends to rebalances, commits and seeks between
two records.

Records that were yielded before the last one are settled; the last one is settled, too, once the loop comes back for
more."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from tidelog._speed.client.consumed import Record
from tidelog.client.consumer.fetch.assigned_partition import AssignedPartition
from tidelog.client.groups.metadata import OffsetAndMetadata
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from tidelog.client.consumer.poller import Poller
    from tidelog.client.consumer.runtime import ConsumerRuntime

# How long one poll of the loop waits; the loop polls again after it.
WAIT_MS = 60_000


class RecordIterator:
    """`at` is the place in `records` of the next one to yield."""

    __slots__ = ("_from", "_poller", "_runtime", "at", "records")

    def __init__(self, runtime: ConsumerRuntime, poller: Poller) -> None:
        self._runtime = runtime
        self._poller = poller
        self.records: list[Record] = []
        self.at = 0
        self._from: dict[TopicPartition, tuple[AssignedPartition, object]] = {}

    def __aiter__(self) -> RecordIterator:
        return self

    async def __anext__(self) -> Record:
        if self._runtime.attention and self.at < len(self.records):
            await self._look_up()
        while self.at >= len(self.records):
            self.records, self.at = [], 0
            self.records = await self._poller.poll(WAIT_MS)
            assigned = self._runtime.fetcher().assigned
            self._from = {
                partition: (assigned[partition], assigned[partition].generation)
                for partition in {TopicPartition(record.topic, record.partition) for record in self.records}
            }
        self.at += 1
        return self.records[self.at - 1]

    def take(self, count: int) -> list[Record]:
        """Up to `count` records that are left in hand, for a `poll` after the loop has ended; they are not settled
        yet."""
        rest = self.records[self.at : self.at + count]
        self.at += len(rest)
        if self.at >= len(self.records):
            self.records, self.at, self._from = [], 0, {}
        return rest

    def put_back(self) -> None:
        """Returns the records in hand to the fetcher, for a caller that reads them in another way."""
        self._rewind(self.unread(self.at))

    def paused(self, partitions: Collection[TopicPartition]) -> None:
        """Returns the records of these partitions that are in hand to the fetcher: they are read again after a resume."""
        unread = self.unread(self.at)
        paused = {partition: unread[partition] for partition in partitions if partition in unread}
        if not paused:
            return
        self._seek_back(paused)
        for partition in paused:
            state, _ = self._from[partition]
            self._from[partition] = state, state.generation
        kept = [
            record
            for record in self.records[self.at :]
            if TopicPartition(record.topic, record.partition) not in paused
        ]
        # The one that was yielded last stays: it may not be settled yet.
        last = self.records[max(self.at - 1, 0) : self.at]
        self.records, self.at = last + kept, len(last)

    def unread(self, start: int) -> dict[TopicPartition, Record]:
        """The first record of each partition from place `start` on."""
        first_records: dict[TopicPartition, Record] = {}
        for record in self.records[start:]:
            first_records.setdefault(TopicPartition(record.topic, record.partition), record)
        return first_records

    def positions(
        self, handed_out: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The positions in `handed_out`, set back to the first record that is still in hand."""
        positions = dict(handed_out)
        for partition, record in self.unread(self.at).items():
            if partition in positions:
                positions[partition] = OffsetAndMetadata(record.offset, "", positions[partition].leader_epoch)
        return positions

    def settle(self, last_done: bool) -> None:
        """Every record that was yielded is settled, the last one only with `last_done`."""
        start = self.at if last_done or not self.at else self.at - 1
        unread = self.unread(start)
        for partition, (state, generation) in self._from.items():
            if state.generation is generation:
                if partition in unread:
                    state.settled, state.settled_epoch = unread[partition].offset, state.epoch
                else:
                    state.settle()

    async def _look_up(self) -> None:
        """The loop has come back, so every record that was yielded is settled."""
        self.settle(last_done=True)
        before = dict(self._runtime.fetcher().assigned)
        await self._poller.attend()
        assigned = self._runtime.fetcher().assigned
        unread = self.unread(self.at)
        stale = any(state.generation is not generation for state, generation in self._from.values())
        if stale or any(assigned.get(partition) is not before[partition] for partition in unread):
            self._rewind(unread)

    def _rewind(self, unread: Mapping[TopicPartition, Record]) -> None:
        """Drops the records in hand; a partition that is still assigned and was not moved by a seek reads them
        again."""
        self._seek_back(unread)
        self.records, self.at = [], 0

    def _seek_back(self, unread: Mapping[TopicPartition, Record]) -> None:
        assigned = self._runtime.fetcher().assigned
        for partition, record in unread.items():
            state, generation = self._from[partition]
            if assigned.get(partition) is state and state.generation is generation:
                state.seek_back(record.offset)
