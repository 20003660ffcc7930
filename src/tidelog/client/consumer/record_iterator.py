"""`async for record in consumer`: polls when it has nothing left, and in between looks up from the records it
has in hand whenever the consumer needs attention (a rebalance, a commit, a seek).

What was yielded before the last record is settled; the last one is, too, once the loop comes back for more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidelog._speed.consumed import Record
from tidelog.client.consumer.fetch.assigned_partition import AssignedPartition
from tidelog.client.groups.metadata import OffsetAndMetadata
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from tidelog.client.consumer.consumer import Consumer

# How long one wait lasts; it goes on waiting after it.
WAIT_MS = 60_000


class RecordIterator:
    """`at` is the place in `records` of the next one to yield."""

    __slots__ = ("_consumer", "_from", "at", "records")

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self.records: list[Record] = []
        self.at = 0
        self._from: dict[TopicPartition, tuple[AssignedPartition, object]] = {}

    def __aiter__(self) -> RecordIterator:
        return self

    async def __anext__(self) -> Record:
        if self._consumer._attention and self.at < len(self.records):
            await self._look_up()
        while self.at >= len(self.records):
            self.records, self.at = [], 0
            self.records = await self._consumer.poll(WAIT_MS)
            assigned = self._consumer._running().assigned
            self._from = {
                partition: (assigned[partition], assigned[partition].generation)
                for partition in {TopicPartition(record.topic, record.partition) for record in self.records}
            }
        self.at += 1
        return self.records[self.at - 1]

    def take(self, count: int) -> list[Record]:
        """What is left in hand, for a `poll` after a loop was left; nothing of it counts as settled."""
        rest = self.records[self.at : self.at + count]
        self.at += len(rest)
        if self.at >= len(self.records):
            self.records, self.at, self._from = [], 0, {}
        return rest

    def put_back(self) -> None:
        """What is left in hand, for whoever reads it in another way."""
        self._rewind(self.unread(self.at))

    def unread(self, start: int) -> dict[TopicPartition, Record]:
        """The first record of each partition from place `start` on."""
        first_records: dict[TopicPartition, Record] = {}
        for record in self.records[start:]:
            first_records.setdefault(TopicPartition(record.topic, record.partition), record)
        return first_records

    def positions(
        self, handed_out: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """`handed_out`, without what is still in hand here."""
        positions = dict(handed_out)
        for partition, record in self.unread(self.at).items():
            if partition in positions:
                positions[partition] = OffsetAndMetadata(record.offset, "", positions[partition].leader_epoch)
        return positions

    def settle(self, last_done: bool) -> None:
        """All that was yielded is done with; the last one only with `last_done`."""
        start = self.at if last_done or not self.at else self.at - 1
        unread = self.unread(start)
        for partition, (state, generation) in self._from.items():
            if state.generation is generation:
                if partition in unread:
                    state.settled, state.settled_epoch = unread[partition].offset, state.epoch
                else:
                    state.settle()

    async def _look_up(self) -> None:
        """The loop has come back, so everything yielded is done with."""
        self.settle(last_done=True)
        before = dict(self._consumer._running().assigned)
        await self._consumer._attend()
        assigned = self._consumer._running().assigned
        unread = self.unread(self.at)
        stale = any(state.generation is not generation for state, generation in self._from.values())
        if stale or any(assigned.get(partition) is not before[partition] for partition in unread):
            self._rewind(unread)

    def _rewind(self, unread: Mapping[TopicPartition, Record]) -> None:
        """What is in hand is dropped, and read again where it is still ours and nobody has moved."""
        assigned = self._consumer._running().assigned
        for partition, record in unread.items():
            state, generation = self._from[partition]
            if assigned.get(partition) is state and state.generation is generation:
                state.seek_back(record.offset)
        self.records, self.at = [], 0
