"""The consumer, asyncio face: reads the partitions it is assigned, from any offset or time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from tidelog.client.addresses import parse_addresses
from tidelog.client.assigned import Assigned, Record
from tidelog.client.cluster import Cluster
from tidelog.client.environment import Environment
from tidelog.client.errors import ClientClosed
from tidelog.client.fetcher import Fetcher
from tidelog.client.offsets import EARLIEST, LATEST, OffsetAndTimestamp, list_offsets
from tidelog.client.options import ConnectionOptions, ConsumerOptions, reset_of
from tidelog.types import TopicPartition

# How long one wait of an iteration lasts; it goes on waiting after it.
ITERATION_WAIT_MS = 60_000


class Consumer:
    """
    async with Consumer(bootstrap_servers="127.0.0.1:9092", auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        async for record in consumer:
            print(record.offset, record.value)

    Records are fetched in the background, ahead of `poll`.  A partition that starts without a position, or
    whose position is not in the log any more, goes to where `auto_offset_reset` says: "earliest", "latest", a
    time in milliseconds, or "none" to raise `OffsetOutOfRange`.  Failures that may pass are retried; when
    they last longer than `request_timeout_ms`, `poll` raises the error, and the next `poll` tries again.
    """

    def __init__(
        self,
        *,
        bootstrap_servers: str | Sequence[str] = "127.0.0.1:9092",
        client_id: str = "tidelog",
        auto_offset_reset: str | int = "latest",
        max_poll_records: int = 500,
        fetch_min_bytes: int = 1,
        fetch_max_wait_ms: int = 500,
        fetch_max_bytes: int = 52_428_800,
        max_partition_fetch_bytes: int = 1_048_576,
        check_crcs: bool = True,
        request_timeout_ms: int = 30_000,
        retry_backoff_ms: int = 100,
        retry_backoff_max_ms: int = 1_000,
        connect_timeout_ms: int = 10_000,
        metadata_max_age_ms: int = 300_000,
        environment: Environment | None = None,
    ) -> None:
        self._options = ConsumerOptions(
            auto_offset_reset=reset_of(auto_offset_reset),
            fetch_min_bytes=fetch_min_bytes,
            fetch_max_wait_ms=fetch_max_wait_ms,
            fetch_max_bytes=fetch_max_bytes,
            max_partition_fetch_bytes=max_partition_fetch_bytes,
            max_poll_records=max_poll_records,
            check_crcs=check_crcs,
        )
        connection = ConnectionOptions(
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            connect_timeout_ms=connect_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
            retry_backoff_max_ms=retry_backoff_max_ms,
            metadata_max_age_ms=metadata_max_age_ms,
        )
        self._environment = environment or Environment.system()
        self._cluster = Cluster(parse_addresses(bootstrap_servers), connection, self._environment)
        self._timeout_ms = request_timeout_ms
        self._fetcher: Fetcher | None = None
        self._closed = False

    async def start(self) -> None:
        """Connects; raises `Unreachable` when no bootstrap address answers.  `async with` does it for you."""
        if self._fetcher is None:
            try:
                await self._cluster.open()
            except BaseException:
                await self._cluster.close()
                raise
            self._fetcher = Fetcher(self._cluster, self._options)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            if self._fetcher is not None:
                await self._fetcher.close()
            await self._cluster.close()

    # Which partitions

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Reads these from now on; those assigned already keep their position."""
        wanted = list(dict.fromkeys(TopicPartition(*one) for one in partitions))
        for one in wanted:
            self._cluster.track(one.topic)
        self._running().assign(wanted)

    def assignment(self) -> set[TopicPartition]:
        return set(self._running().assigned)

    def pause(self, *partitions: TopicPartition) -> None:
        for one in self._chosen(partitions):
            one.paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        for one in self._chosen(partitions):
            one.paused = False
        self._running().wake()

    async def partitions_for(self, topic: str) -> list[int]:
        self._running()
        known = await self._cluster.topic(topic, self._timeout_ms)
        return [one.index for one in known.partitions]

    # Where in them

    def seek(self, partition: TopicPartition, offset: int) -> None:
        if offset < 0:
            raise ValueError(f"offset cannot be {offset}: it must be at least 0")
        for one in self._chosen((partition,)):
            one.seek(offset)
        self._running().wake()

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """These partitions, or all that are assigned."""
        self._seek_by_look_up(partitions, EARLIEST)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        self._seek_by_look_up(partitions, LATEST)

    def seek_to_time(self, timestamp: int, *partitions: TopicPartition) -> None:
        """To the first record that is not older than `timestamp`, or to the end when there is none."""
        if timestamp < 0:
            raise ValueError(f"timestamp cannot be {timestamp}: it is in milliseconds since 1970")
        self._seek_by_look_up(partitions, timestamp)

    async def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that `poll` returns from it."""
        (one,) = self._chosen((partition,))
        while one.position is None:
            self._running().take(0)
            await self._running().arrival(self._timeout_ms)
        return one.position

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        found = await self._look_up(dict.fromkeys(partitions, EARLIEST))
        return {partition: one.offset for partition, one in found.items()}

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        found = await self._look_up(dict.fromkeys(partitions, LATEST))
        return {partition: one.offset for partition, one in found.items()}

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record that is not older than the time given; None where there is none."""
        found = await self._look_up(times)
        return {partition: one if one.offset >= 0 else None for partition, one in found.items()}

    # Records

    async def poll(self, timeout_ms: int = 0, max_records: int | None = None) -> list[Record]:
        """What has been fetched; waits up to `timeout_ms` when that is nothing."""
        fetcher = self._running()
        records_max = self._options.max_poll_records if max_records is None else max_records
        clock = self._environment.clock
        deadline_ms = clock.monotonic_ms() + timeout_ms
        records = fetcher.take(records_max)
        if not records and timeout_ms <= 0:
            # Let what has arrived be read: a caller that only ever polls with 0 must still get ahead.
            await asyncio.sleep(0)
            return fetcher.take(records_max)
        while not records and (left_ms := deadline_ms - clock.monotonic_ms()) > 0:
            await fetcher.arrival(left_ms)
            records = self._running().take(records_max)
        return records

    async def __aiter__(self) -> AsyncIterator[Record]:
        while True:
            for record in await self.poll(ITERATION_WAIT_MS):
                yield record

    # Inside

    def _running(self) -> Fetcher:
        if self._closed:
            raise ClientClosed("this consumer is closed: make a new one")
        if self._fetcher is None:
            raise ClientClosed("this consumer is not started: use `async with`, or await start()")
        return self._fetcher

    def _chosen(self, partitions: Iterable[TopicPartition]) -> list[Assigned]:
        assigned = self._running().assigned
        wanted = list(partitions) or list(assigned)
        for one in wanted:
            if one not in assigned:
                raise ValueError(f"{TopicPartition(*one)} is not assigned to this consumer: assign it first")
        return [assigned[one] for one in wanted]

    def _seek_by_look_up(self, partitions: Iterable[TopicPartition], time_ms: int) -> None:
        for one in self._chosen(partitions):
            one.seek_by_look_up(time_ms)
        self._running().wake()

    async def _look_up(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp]:
        self._running()
        return await list_offsets(self._cluster, times, self._timeout_ms)
