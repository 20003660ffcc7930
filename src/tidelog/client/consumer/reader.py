"""The consumer's face for assigned partitions: which there are, pauses, seeks, positions, lag.  Every method is one
call of `AssignedPartitions`; `Consumer` adds subscriptions, records and commits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidelog.client import checks
from tidelog.client.cluster.list_offsets import EARLIEST, LATEST, OffsetAndTimestamp
from tidelog.client.consumer.assigned_partitions import AssignedPartitions
from tidelog.types import TopicPartition


class PartitionReader:
    _partitions: AssignedPartitions

    def assignment(self) -> set[TopicPartition]:
        """The partitions that this consumer reads now.

        print(sorted(consumer.assignment()))
        """
        return self._partitions.all()

    def pause(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Hands out no more records of these partitions, or of all, until `resume`; buffered records are kept.

        consumer.pause(TopicPartition("orders", 0))
        """
        self._partitions.pause(partitions)

    def resume(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Goes on with these partitions, or with all.

        consumer.resume(TopicPartition("orders", 0))
        """
        self._partitions.resume(partitions)

    def paused(self) -> set[TopicPartition]:
        """The partitions that `pause` has stopped.

        consumer.resume(consumer.paused())
        """
        return self._partitions.paused()

    async def partitions_for(self, topic: str) -> list[int]:
        """The numbers of the topic's partitions.

        partitions = await consumer.partitions_for("orders")
        """
        return await self._partitions.of_topic(topic)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Sets the position: the next `poll` reads from `offset` on.

        consumer.seek(TopicPartition("orders", 0), 42)
        """
        self._partitions.seek(partition, offset)

    def seek_to_beginning(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Sets these partitions, or all that are assigned, to the start of their logs.

        consumer.seek_to_beginning()
        """
        self._partitions.seek_by_look_up(partitions, EARLIEST)

    def seek_to_end(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Sets these partitions, or all that are assigned, to the end of their logs: only new records are read.

        consumer.seek_to_end()
        """
        self._partitions.seek_by_look_up(partitions, LATEST)

    def seek_to_time(self, timestamp: int, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Sets the position to the first record that is not older than `timestamp`, or to the end when there is none.

        consumer.seek_to_time(1_700_000_000_000)
        """
        checks.time("timestamp", timestamp)
        self._partitions.seek_by_look_up(partitions, timestamp)

    async def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that `poll` returns from this partition.

        offset = await consumer.position(TopicPartition("orders", 0))
        """
        return await self._partitions.position(partition)

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each partition's log.

        starts = await consumer.beginning_offsets([TopicPartition("orders", 0)])
        """
        offsets = await self._partitions.look_up(dict.fromkeys(partitions, EARLIEST))
        return {partition: start.offset for partition, start in offsets.items()}

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The high watermark of each partition; with `isolation_level="read_committed"` its last stable offset, the
        first offset of an unfinished transaction if there is one.

            ends = await consumer.end_offsets([TopicPartition("orders", 0)])
        """
        offsets = await self._partitions.look_up(dict.fromkeys(partitions, LATEST))
        return {partition: end.offset for partition, end in offsets.items()}

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record of each partition that is not older than its time; None where there is none.

        firsts = await consumer.offsets_for_times({TopicPartition("orders", 0): 1_700_000_000_000})
        """
        offsets = await self._partitions.look_up(times)
        return {partition: first if first.offset >= 0 else None for partition, first in offsets.items()}

    def lag(self) -> dict[TopicPartition, int]:
        """How many offsets the position of each assigned partition is behind the end, as of its last fetch.
        Partitions of which nothing was fetched yet are left out.

            behind = sum(consumer.lag().values())
        """
        return self._partitions.lag()
