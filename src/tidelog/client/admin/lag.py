"""Consumer lag, counted in records that a reader can still get.  `Admin` is the face of this.

The rule.  A partition's lag is the number of records from the committed offset to the end of the log that a reader
may still get.  Transaction markers, records of aborted transactions and offsets that compaction has emptied do not
count: the distance between two offsets would count them all, and a reader that has read everything would seem to be
behind for ever.  Records of unfinished transactions count: they may yet be committed.  A gap of up to
`COUNTED_OFFSETS_MAX` is counted by reading it; a wider one, or one that does not fit into `COUNTED_BYTES_MAX`, is
given as the distance, which is at least the lag, and marked as not exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tidelog import errors
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.list_offsets import EARLIEST, LATEST, list_offsets
from tidelog.client.cluster.response_errors import problem_of
from tidelog.client.cluster.topology import NO_ID
from tidelog.client.consumer.fetch.completed_fetch import AbortedTransactions
from tidelog.record import Batch, read_batches
from tidelog.types import TopicPartition
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData

COUNTED_OFFSETS_MAX = 20_000
COUNTED_BYTES_MAX = 4 << 20
NAMES_VERSION_MAX = 12
READ_COMMITTED = 1


class Lag(NamedTuple):
    """`end` is the end of the log; `lag` at most so many records, exactly so many if `exact`."""

    start: int
    end: int
    lag: int
    exact: bool


async def lags(
    cluster: Cluster, committed: Mapping[TopicPartition, int], *, timeout_ms: int
) -> dict[TopicPartition, Lag]:
    """Partitions that are gone are left out."""
    wanted = await _existing(cluster, committed)
    starts = await list_offsets(cluster, dict.fromkeys(wanted, EARLIEST), timeout_ms)
    ends = await list_offsets(cluster, dict.fromkeys(wanted, LATEST), timeout_ms)
    lags_by_partition = {}
    for partition in wanted:
        start, end = starts[partition].offset, ends[partition].offset
        # What retention has taken can never be read.
        position = max(committed[partition], start)
        counted: int | None = 0
        if position < end:
            counted = None
            if end - position <= COUNTED_OFFSETS_MAX:
                counted = await _count(cluster, partition, position, end, timeout_ms)
        lag = max(0, end - position) if counted is None else counted
        lags_by_partition[partition] = Lag(start, end, lag, counted is not None)
    return lags_by_partition


async def _existing(cluster: Cluster, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    wanted = list(partitions)
    topology = await cluster.refresh({partition.topic for partition in wanted})
    return [partition for partition in wanted if topology.partition(partition) is not None]


async def _count(
    cluster: Cluster, partition: TopicPartition, position: int, end: int, timeout_ms: int
) -> int | None:
    """None when counting would read more than `COUNTED_BYTES_MAX`."""
    count, left = 0, COUNTED_BYTES_MAX
    stable = True  # up to the last stable offset
    while position < end:
        if left <= 0:
            return None

        async def ask(position: int = position, left: int = left, stable: bool = stable) -> PartitionData:
            return await _fetch(cluster, partition, position, left, stable)

        answer = await cluster.retrying("Fetch", ask, timeout_ms)
        data = answer.records or b""
        batches = list(read_batches(data))
        left -= len(data)
        if not batches:
            if not stable:
                return count if not data else None
            stable = False
            continue
        aborts = AbortedTransactions(
            (transaction.producer_id, transaction.first_offset)
            for transaction in answer.aborted_transactions or ()
        )
        for batch in batches:
            hidden = aborts.hide(batch) if stable else batch.header.control
            if not hidden and not batch.header.control and batch.header.last_offset >= position:
                count += _records(batch, position, end)
        position = batches[-1].header.last_offset + 1
    return count


def _records(batch: Batch, position: int, end: int) -> int:
    header = batch.header
    if header.base_offset >= position and header.last_offset < end:
        return header.count
    return sum(position <= record.offset < end for record in batch.records())


async def _fetch(
    cluster: Cluster, partition: TopicPartition, position: int, bytes_max: int, stable: bool
) -> PartitionData:
    ((node, _),) = (await cluster.leaders([partition])).items()
    connection = await cluster.node(node)
    topic = cluster.topology.topics[partition.topic]
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=bytes_max,
        isolation_level=READ_COMMITTED if stable else 0,
        topics=[
            FetchTopic(
                partition.topic,
                topic.id,
                [
                    FetchPartition(
                        partition=partition.partition, fetch_offset=position, partition_max_bytes=bytes_max
                    )
                ],
            )
        ],
    )
    version = connection.version_of(FetchRequest, NAMES_VERSION_MAX if topic.id == NO_ID else None)
    answer = await connection.ask(request, FetchResponse, version=version)
    if answer.error_code != errors.NONE:
        raise problem_of(answer.error_code, f"the fetch of {partition}")
    data = answer.responses[0].partitions[0]
    if data.error_code != errors.NONE:
        await cluster.refresh([partition.topic])
        raise problem_of(data.error_code, str(partition))
    return data
