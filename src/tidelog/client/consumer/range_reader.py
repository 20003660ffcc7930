"""Reads the records between two offsets of a partition, for a caller that knows that they exist.

Unlike a consumer, the reader has no position, fetches nothing past the end, and does not wait at the broker for new
records.  It requests the next answer while the caller handles the last one.  Ranges are independent, so one reader may
serve many of them.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import NamedTuple

from tidelog import errors
from tidelog._speed.log.batch import walk
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.response_errors import check, problem_of
from tidelog.client.cluster.topology import NO_ID
from tidelog.client.consumer.fetch.request import NAMES_VERSION_MAX, read_fetch
from tidelog.record import HEADER_SIZE
from tidelog.types import TopicPartition
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from tidelog.wire.primitives import Records

NO_SESSION, FINAL_EPOCH = 0, -1
# Records that were announced may still be on their way to this replica's readers.
WAIT_MS = 100


class Piece(NamedTuple):
    """Bytes of whole batches from `start` on; `end` is the offset behind the last of them."""

    start: int
    end: int
    data: Records
    aborted: tuple[tuple[int, int], ...]
    """Producer id and first offset of transactions whose records are not for this reader."""


class RangeReader:
    def __init__(self, cluster: Cluster, *, read_committed: bool, fetch_bytes: int, timeout_ms: int) -> None:
        self._cluster = cluster
        self._read_committed = read_committed
        self._fetch_bytes = fetch_bytes
        self._timeout_ms = timeout_ms

    async def pieces(
        self, partition: TopicPartition, start: int, end: int, topic_id: uuid.UUID | None = None
    ) -> AsyncIterator[Piece]:
        """The records of the log from `start` to `end`; the last piece may reach past `end`.  Raises `OffsetOutOfRange`
        when the log does not have this range (any more), and `UnknownTopicOrPartition` when the topic is gone, or has
        another id than `topic_id`."""
        source = partition, topic_id
        coming = self._begin(source, start, end) if start < end else None
        try:
            while coming is not None:
                piece = await coming
                coming = self._begin(source, piece.end, end) if piece.end < end else None
                yield piece
        finally:
            if coming is not None:
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)

    def _begin(
        self, source: tuple[TopicPartition, uuid.UUID | None], start: int, end: int
    ) -> asyncio.Task[Piece]:
        return asyncio.get_running_loop().create_task(self._piece(*source, start, end), name="range")

    async def _piece(
        self, partition: TopicPartition, topic_id: uuid.UUID | None, start: int, end: int
    ) -> Piece:
        async def attempt() -> Piece:
            data = await self._fetch(partition, topic_id, start)
            if data.records:
                return self._read(partition, start, data)
            log_end = data.last_stable_offset if self._read_committed else data.high_watermark
            # Empty, though the records exist: a leader that has just taken over may not know its high watermark yet.
            raise errors.OffsetNotAvailable(
                f"{partition} was to be read up to {end}, but nothing is there from {start} on: it ends at {log_end}"
            )

        purpose = f"{partition} from offset {start} on"
        try:
            return await self._cluster.retrying(
                purpose, attempt, self._timeout_ms, (errors.UnknownTopicOrPartition, errors.CorruptMessage)
            )
        except errors.OffsetNotAvailable as problem:
            raise errors.OffsetOutOfRange(str(problem)) from None

    async def _fetch(
        self, partition: TopicPartition, topic_id: uuid.UUID | None, start: int
    ) -> PartitionData:
        cluster = self._cluster
        if topic_id is not None and self._is_another(partition.topic, topic_id):
            # The metadata here may be old; the caller has seen the new topic.
            await cluster.refresh([partition.topic])
            if self._is_another(partition.topic, topic_id):
                raise errors.UnknownTopicOrPartition(
                    f"topic {partition.topic!r} was deleted and created again: the records to read are gone"
                )
        (node,) = await cluster.leaders([partition])
        connection = await cluster.node(node)
        topic = cluster.topology.topics[partition.topic]
        version = connection.version_of(FetchRequest, NAMES_VERSION_MAX if topic.id == NO_ID else None)
        metadata = topic.partition(partition.partition)
        request_partition = FetchPartition(
            partition=partition.partition,
            current_leader_epoch=metadata.leader_epoch if metadata is not None else -1,
            fetch_offset=start,
            partition_max_bytes=self._fetch_bytes,
        )
        request = FetchRequest(
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=self._fetch_bytes,
            isolation_level=int(self._read_committed),
            session_id=NO_SESSION,
            session_epoch=FINAL_EPOCH,
            topics=[FetchTopic(partition.topic, topic.id, [request_partition])],
        )
        answer = await connection.ask(request, FetchResponse, version=version)
        try:
            return _only(answer, topic.id, partition)
        except (errors.UnknownTopicOrPartition, errors.UnknownTopicId) as problem:
            # A broker that has just started may not know yet; whether the topic is gone is for the metadata to say.
            await cluster.refresh([partition.topic])
            if cluster.topology.leader(partition) is None:
                raise cluster.missing(partition) from None
            raise errors.NotLeaderOrFollower(str(problem)) from None
        except errors.TidelogError as problem:
            if problem.retriable:
                await cluster.refresh([partition.topic])
            raise

    def _is_another(self, name: str, topic_id: uuid.UUID) -> bool:
        topic = self._cluster.topology.topics.get(name)
        return topic is not None and not topic.error and topic.id not in (topic_id, NO_ID)

    def _read(self, partition: TopicPartition, start: int, answer: PartitionData) -> Piece:
        data = answer.records or b""
        headers = walk(data)
        if not headers:
            # Not one whole batch: either the bytes are damaged, or the batch is larger than the fetch.
            if len(data) >= HEADER_SIZE:
                raise errors.CorruptMessage(
                    f"{partition} has no record batch at offset {start}: its bytes are damaged"
                )
            raise errors.RecordListTooLarge(f"a batch of {partition} at offset {start} was cut off")
        aborted: tuple[tuple[int, int], ...] = ()
        if self._read_committed:
            aborted = tuple(
                (transaction.producer_id, transaction.first_offset)
                for transaction in answer.aborted_transactions or ()
            )
        return Piece(start, headers[-1].last_offset + 1, data, aborted)


def _only(answer: FetchResponse, topic_id: uuid.UUID, partition: TopicPartition) -> PartitionData:
    check(answer.error_code, f"the fetch of {partition}")
    for where, data in read_fetch(answer, {topic_id: partition.topic}):
        if where == partition:
            if data.error_code != errors.NONE:
                raise problem_of(data.error_code, str(partition))
            return data
    raise errors.UnknownServerError(f"the answer to a fetch of {partition} is about something else")
