"""Ranges of offsets, read by whoever knows beforehand what there is."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.conformance.topics import create_topic
from tidelog import Admin, Producer, TopicPartition, errors
from tidelog.client.cluster.addresses import parse_addresses
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.options import ConnectionOptions
from tidelog.client.consumer.range_reader import RangeReader
from tidelog.client.environment import Environment
from tidelog.record.columns import RecordColumns

Topic = Callable[..., str]


@asynccontextmanager
async def opened_cluster(bootstrap: str) -> AsyncIterator[Cluster]:
    cluster = Cluster(parse_addresses(bootstrap), ConnectionOptions(), Environment.system())
    await cluster.open()
    try:
        yield cluster
    finally:
        await cluster.close()


def run(bootstrap: str, work: Callable[[Cluster], Coroutine[Any, Any, Any]]) -> Any:
    async def inside() -> Any:
        async with opened_cluster(bootstrap) as cluster:
            return await work(cluster)

    return asyncio.run(inside())


async def read(
    cluster: Cluster, topic: str, start: int, end: int, topic_id: uuid.UUID | None = None, **options: Any
) -> list[bytes]:
    given = {"read_committed": True, "fetch_bytes": 1000, "timeout_ms": 5_000, **options}
    reader, values = RangeReader(cluster, **given), []
    async for piece in reader.pieces(TopicPartition(topic, 0), start, end, topic_id):
        columns = RecordColumns()
        columns.add(topic, 0, piece.data, piece.start, piece.aborted)
        batch = columns.record_batch()
        offsets = batch.column("offset").to_pylist()
        values += [
            one
            for offset, one in zip(offsets, batch.column("value").to_pylist(), strict=True)
            if offset < end
        ]
    return values


def fill(bootstrap: str, topic: str, count: int) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number)
            if number % 7 == 0:
                producer.flush()


def test_exactly_the_range_is_read_in_many_pieces(bootstrap: str, topic: Topic) -> None:
    orders = topic()
    fill(bootstrap, orders, 200)
    for start, end in ((0, 200), (13, 14), (3, 150), (200, 200)):
        found = run(bootstrap, lambda cluster, s=start, e=end: read(cluster, orders, s, e, fetch_bytes=100))
        assert found == [b"%d" % one for one in range(start, end)]


def test_aborted_records_are_not_for_readers_of_committed_ones(bootstrap: str, topic: Topic) -> None:
    orders = topic()
    with Producer(bootstrap_servers=bootstrap, transactional_id=f"{orders}-t") as producer:
        for number in range(4):
            producer.begin_transaction()
            producer.send(orders, b"%d" % number)
            producer.flush()
            producer.commit_transaction() if number % 2 else producer.abort_transaction()
    assert run(bootstrap, lambda cluster: read(cluster, orders, 0, 8)) == [b"1", b"3"]
    loose = run(bootstrap, lambda cluster: read(cluster, orders, 0, 8, read_committed=False))
    assert loose == [b"0", b"1", b"2", b"3"]


def test_what_is_not_in_the_log_is_told(bootstrap: str, topic: Topic) -> None:
    orders = topic()
    fill(bootstrap, orders, 20)
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_records({TopicPartition(orders, 0): 10})
    with pytest.raises(errors.OffsetOutOfRange):
        run(bootstrap, lambda cluster: read(cluster, orders, 5, 15))
    with pytest.raises(errors.OffsetOutOfRange, match="it ends at 20"):
        run(bootstrap, lambda cluster: read(cluster, orders, 15, 30, timeout_ms=500))
    with pytest.raises(errors.UnknownTopicOrPartition):
        run(bootstrap, lambda cluster: read(cluster, orders + "-not", 0, 1))


async def test_a_topic_made_anew_is_known_by_its_id(bootstrap: str, topic: Topic) -> None:
    orders = topic()
    fill(bootstrap, orders, 5)

    async with opened_cluster(bootstrap) as cluster:
        old = (await cluster.topic(orders, 5_000)).id
        assert len(await read(cluster, orders, 0, 5, old)) == 5

        def anew() -> uuid.UUID:
            with Admin(bootstrap_servers=bootstrap) as admin:
                admin.delete_topics([orders])
                create_topic(bootstrap, orders, 1, None)
                fill(bootstrap, orders, 3)
                return admin.describe_topics([orders])[orders].id

        new = await asyncio.to_thread(anew)
        # What the cluster knows is old here: it must look again before it says that the topic is another one.
        assert await read(cluster, orders, 0, 3, new) == [b"0", b"1", b"2"]
        with pytest.raises(errors.UnknownTopicOrPartition, match="created again"):
            await read(cluster, orders, 0, 3, old)
