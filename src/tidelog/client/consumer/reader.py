"""Reading assigned partitions, asyncio face: which, from where, and what is known about them.  `Consumer` adds
subscriptions and groups to it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from tidelog import errors
from tidelog.client import checks
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.list_offsets import EARLIEST, LATEST, OffsetAndTimestamp, list_offsets
from tidelog.client.consumer.fetch.assigned_partition import AssignedPartition
from tidelog.client.consumer.fetch.fetcher import Fetcher
from tidelog.client.consumer.options import ConsumerOptions
from tidelog.client.errors import ClientClosed
from tidelog.types import TopicPartition


class Reader:
    def __init__(self, cluster: Cluster, options: ConsumerOptions) -> None:
        self._cluster = cluster
        self._options = options
        self._timeout_ms = cluster.options.request_timeout_ms
        self._fetcher: Fetcher | None = None
        self._closed = False

    # Which partitions

    def assignment(self) -> set[TopicPartition]:
        """The partitions that this consumer reads now.

        print(sorted(consumer.assignment()))
        """
        return set(self._running().assigned)

    def pause(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """These, or all: nothing more of them is handed out until `resume`; what was fetched is kept.

        consumer.pause(TopicPartition("orders", 0))
        """
        for one in self._chosen(partitions):
            one.paused = True

    def resume(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Goes on with these, or with all.

        consumer.resume(TopicPartition("orders", 0))
        """
        for one in self._chosen(partitions):
            one.paused = False
        self._running().wake()

    def paused(self) -> set[TopicPartition]:
        """Those that `pause` has stopped.

        consumer.resume(consumer.paused())
        """
        return {one.partition for one in self._running().assigned.values() if one.paused}

    async def partitions_for(self, topic: str) -> list[int]:
        """The numbers of the topic's partitions.

        partitions = await consumer.partitions_for("orders")
        """
        self._running()
        known = await self._cluster.topic(topic, self._timeout_ms)
        return [one.index for one in known.partitions]

    # Where in them

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """The next `poll` goes on there.

        consumer.seek(TopicPartition("orders", 0), 42)
        """
        checks.whole("offset", offset, 0)
        for one in self._chosen((partition,)):
            one.seek(offset)
        self._moved()

    def seek_to_beginning(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """These partitions, or all that are assigned.

        consumer.seek_to_beginning()
        """
        self._seek_by_look_up(partitions, EARLIEST)

    def seek_to_end(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """These partitions, or all that are assigned: only what comes from now on.

        consumer.seek_to_end()
        """
        self._seek_by_look_up(partitions, LATEST)

    def seek_to_time(self, timestamp: int, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """To the first record that is not older than `timestamp`, or to the end when there is none.

        consumer.seek_to_time(1_700_000_000_000)
        """
        checks.time("timestamp", timestamp)
        self._seek_by_look_up(partitions, timestamp)

    async def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that `poll` returns from it.

        offset = await consumer.position(TopicPartition("orders", 0))
        """
        (one,) = self._chosen((partition,))
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                while one.position is None:
                    self._running().raise_problem()
                    await self._running().arrival(self._timeout_ms)
        except TimeoutError:
            raise errors.RequestTimedOut(
                f"where to begin in {one.partition} was not known within {self._timeout_ms} ms"
            ) from None
        return one.position

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where each partition's log starts.

        starts = await consumer.beginning_offsets([TopicPartition("orders", 0)])
        """
        found = await self._look_up(dict.fromkeys(partitions, EARLIEST))
        return {partition: one.offset for partition, one in found.items()}

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """With `isolation_level="read_committed"` the first offset of an unfinished transaction, if there is
        one.

            ends = await consumer.end_offsets([TopicPartition("orders", 0)])
        """
        found = await self._look_up(dict.fromkeys(partitions, LATEST))
        return {partition: one.offset for partition, one in found.items()}

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record that is not older than the time given; None where there is none.

        found = await consumer.offsets_for_times({TopicPartition("orders", 0): 1_700_000_000_000})
        """
        found = await self._look_up(times)
        return {partition: one if one.offset >= 0 else None for partition, one in found.items()}

    def lag(self) -> dict[TopicPartition, int]:
        """How many offsets each assigned partition's position is behind the end, as of its last fetch; without
        those of which nothing was fetched yet.

            behind = sum(consumer.lag().values())
        """
        found = {}
        for partition, one in self._running().assigned.items():
            end = one.stable_offset if self._options.read_committed else one.end_offset
            if end is not None and end >= 0 and one.position is not None:
                found[partition] = max(0, end - one.position)
        return found

    # Inside

    def _running(self) -> Fetcher:
        if self._closed:
            raise ClientClosed("this consumer is closed: make a new one")
        if self._fetcher is None:
            raise ClientClosed("this consumer is not started: use `async with`, or await start()")
        return self._fetcher

    def _moved(self) -> None:
        """Somebody has set a position."""
        self._running().wake()

    def _go_back(self, positions: Mapping[TopicPartition, int]) -> None:
        """What was handed out above these is read again."""
        for partition, offset in positions.items():
            one = self._fetcher.assigned.get(partition) if self._fetcher is not None else None
            if one is not None and not self._closed:
                one.seek(offset, one.epoch)

    def _chosen(
        self, partitions: Iterable[TopicPartition | Iterable[TopicPartition]]
    ) -> list[AssignedPartition]:
        assigned = self._running().assigned
        wanted = flat(partitions) or list(assigned)
        for one in wanted:
            if one not in assigned:
                raise ValueError(f"{TopicPartition(*one)} is not assigned to this consumer: assign it first")
        return [assigned[one] for one in wanted]

    def _seek_by_look_up(
        self, partitions: Iterable[TopicPartition | Iterable[TopicPartition]], time_ms: int
    ) -> None:
        for one in self._chosen(partitions):
            one.seek_by_look_up(time_ms)
        self._moved()

    async def _look_up(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp]:
        self._running()
        return await list_offsets(
            self._cluster, times, self._timeout_ms, read_committed=self._options.read_committed
        )


def flat(partitions: Iterable[TopicPartition | Iterable[TopicPartition]]) -> list[TopicPartition]:
    """`pause(a, b)` and `pause([a, b])` mean the same."""
    found: list[TopicPartition] = []
    for one in partitions:
        if isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], str):
            found.append(TopicPartition(*one))
        else:
            found += [TopicPartition(*each) for each in one]
    return found
