"""The client that the command line is built on, against a real broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.conformance.conftest import ON_KAFKA, BrokerFactory
from tests.conformance.process import BrokerProcess
from tidelog import errors
from tidelog.aio import (
    Admin,
    ConfigResource,
    ConfigSource,
    Consumer,
    NewTopic,
    Producer,
    Record,
    ReplicaLog,
    TopicPartition,
)


async def read(bootstrap: str, topic: str, count: int, partitions: int = 1) -> list[Record]:
    found: list[Record] = []
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, index) for index in range(partitions)])
        while len(found) < count:
            found += await consumer.poll(1_000)
        found += await consumer.poll(50)
    return found


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_a_record_comes_back_as_it_was_sent(
    bootstrap: str, topic: Callable[..., str], codec: str
) -> None:
    fresh = topic(config={"retention.ms": "-1"})  # one record is old
    headers = [("a", b"1"), ("a", None), ("ä", b"\xff")]
    async with Producer(bootstrap_servers=bootstrap, compression_type=codec) as producer:
        sent = [
            await producer.send(fresh, b"v" * 1000, b"k", headers, timestamp=1_750_000_000_000),
            await producer.send(fresh, None, None),
            await producer.send(fresh, b"", b""),
        ]
        assert [(await one).offset for one in sent] == [0, 1, 2]
    first, second, third = await read(bootstrap, fresh, 3)
    assert first == Record(fresh, 0, 0, 1_750_000_000_000, "create", b"k", b"v" * 1000, tuple(headers))
    assert (second.key, second.value, second.headers) == (None, None, ())
    assert (third.key, third.value) == (b"", b"")


async def test_the_broker_sets_the_time_where_the_topic_says_so(
    bootstrap: str, topic: Callable[..., str]
) -> None:
    fresh = topic(config={"message.timestamp.type": "LogAppendTime"})
    async with Producer(bootstrap_servers=bootstrap) as producer:
        where = await (await producer.send(fresh, b"v", timestamp=1_000))
    (one,) = await read(bootstrap, fresh, 1)
    assert one.timestamp_type == "append" and one.timestamp == where.timestamp > 1_700_000_000_000


async def test_offsets_are_found_by_time(bootstrap: str, topic: Callable[..., str]) -> None:
    fresh = topic(config={"retention.ms": "-1"})  # the records are old
    where = TopicPartition(fresh, 0)
    base = 1_750_000_000_000
    async with Producer(bootstrap_servers=bootstrap) as producer:
        for at in range(10):
            await (await producer.send(fresh, b"%d" % at, timestamp=base + at * 1_000))
    async with Consumer(bootstrap_servers=bootstrap) as consumer:
        assert await consumer.beginning_offsets([where]) == {where: 0}
        assert await consumer.end_offsets([where]) == {where: 10}
        found = (await consumer.offsets_for_times({where: base + 3_500}))[where]
        assert found is not None and (found.offset, found.timestamp) == (4, base + 4_000)
        assert await consumer.offsets_for_times({where: base + 60_000}) == {where: None}
        consumer.assign([where])
        consumer.seek_to_time(base + 7_000)
        assert await consumer.position(where) == 7
        assert [one.value for one in await consumer.poll(5_000)] == [b"7", b"8", b"9"]
        consumer.seek_to_time(base + 60_000)
        assert await consumer.position(where) == 10
    async with Admin(bootstrap_servers=bootstrap) as admin:
        assert (await admin.list_offsets({where: "max_timestamp"}))[where].offset == 9


async def test_a_reader_below_the_start_of_the_log_goes_on_at_the_start(
    bootstrap: str, topic: Callable[..., str]
) -> None:
    fresh = topic()
    where = TopicPartition(fresh, 0)
    async with Producer(bootstrap_servers=bootstrap, batch_size=0) as producer:
        for at in range(10):
            await producer.send(fresh, b"%d" % at)
    async with Admin(bootstrap_servers=bootstrap) as admin:
        assert await admin.delete_records({where: 6}) == {where: 6}
        with pytest.raises(errors.OffsetOutOfRange):
            await admin.delete_records({where: 99})
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([where])
        consumer.seek(where, 2)
        assert (await consumer.poll(10_000))[0].offset == 6
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="none") as strict:
        strict.assign([where])
        strict.seek(where, 2)
        with pytest.raises(errors.OffsetOutOfRange, match=f"offset 2 of {fresh}-0"):
            await strict.poll(10_000)


async def test_what_is_acknowledged_survives_a_killed_broker_once_and_in_order(
    own_broker: BrokerFactory,
) -> None:
    broker = own_broker()
    async with Admin(bootstrap_servers=broker.bootstrap) as admin:
        await admin.create_topics([NewTopic("orders", partitions=2)])
    sent = []
    async with Producer(bootstrap_servers=broker.bootstrap, batch_size=200) as producer:
        for at in range(2_000):
            sent.append(await producer.send("orders", b"%d" % at, partition=at % 2))
            if at in (500, 1_200):
                await asyncio.sleep(0)
                await asyncio.to_thread(restart, broker)
        where = await asyncio.gather(*sent)
    found = await read(broker.bootstrap, "orders", 2_000, partitions=2)
    for part in range(2):
        values = [one.value for one in found if one.partition == part]
        assert values == [b"%d" % at for at in range(2_000) if at % 2 == part]
        offsets = [one.offset for one in where if one.partition == part]
        assert offsets == list(range(1_000))


def restart(broker: BrokerProcess) -> None:
    broker.kill()
    broker.start()


@pytest.mark.parametrize("before", [1, 2])
async def test_a_topic_made_anew_is_written_and_read_by_clients_that_knew_the_old_one(
    bootstrap: str, name: Callable[[], str], before: int
) -> None:
    """Also when the position in the old one is an offset that the new one has."""
    fresh = name()
    where = TopicPartition(fresh, 0)
    async with (
        Admin(bootstrap_servers=bootstrap) as admin,
        Producer(bootstrap_servers=bootstrap) as producer,
        Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer,
    ):
        await admin.create_topics([NewTopic(fresh, 1)])
        for _ in range(before):
            await (await producer.send(fresh, b"old"))
        consumer.assign([where])
        seen = 0
        while seen < before:
            seen += len(await consumer.poll(10_000))
        await admin.delete_topics([fresh])
        await admin.create_topics([NewTopic(fresh, 1)])
        assert (await (await producer.send(fresh, b"new"))).offset == 0
        while not (records := await consumer.poll(10_000)):
            pass
        assert [one.value for one in records] == [b"new"]


async def test_the_admin_client_tells_of_the_cluster_and_its_disks(
    broker: BrokerProcess, topic: Callable[..., str]
) -> None:
    fresh = topic(partitions=2)
    async with Producer(bootstrap_servers=broker.bootstrap) as producer:
        await producer.send(fresh, b"x" * 1_000, partition=1)
    async with Admin(bootstrap_servers=broker.bootstrap) as admin:
        cluster = await admin.describe_cluster()
        assert cluster.id and cluster.controller in cluster.nodes
        assert [(one.host, one.port) for one in cluster.nodes.values()] == [(broker.host, broker.port)]
        (folders,) = (await admin.describe_log_dirs(topics=[fresh])).values()
        sizes = {where: size for folder in folders for where, size in folder.partitions.items()}
        assert sizes[TopicPartition(fresh, 0)] == 0 and sizes[TopicPartition(fresh, 1)] > 1_000
        assert all(folder.problem is None and folder.total_bytes > 0 for folder in folders)
        states = await admin.describe_partitions([fresh])
        state = states[TopicPartition(fresh, 1)]
        assert list(states) == [TopicPartition(fresh, 0), TopicPartition(fresh, 1)]
        assert state.leader == cluster.controller and state.in_sync == state.replicas
        assert state.doubts == state.awaited == ()


@pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka tells sizes only")
async def test_a_broker_tells_how_far_its_logs_reach(
    broker: BrokerProcess, topic: Callable[..., str]
) -> None:
    fresh = topic(partitions=2)
    async with Producer(bootstrap_servers=broker.bootstrap) as producer:
        await (await producer.send(fresh, b"x", partition=1))
    async with Admin(bootstrap_servers=broker.bootstrap) as admin:
        state = (await admin.describe_partitions([fresh]))[TopicPartition(fresh, 1)]
        logs = await admin.describe_replica_logs(
            state.leader, [TopicPartition(fresh, 0), TopicPartition(fresh, 1)]
        )
        assert logs[TopicPartition(fresh, 0)] == ReplicaLog(0, 0, 0, ((state.leader_epoch, 0),))
        assert logs[TopicPartition(fresh, 1)] == ReplicaLog(1, 1, 0, ((state.leader_epoch, 0),))


async def test_settings_are_changed_one_by_one(bootstrap: str, topic: Callable[..., str]) -> None:
    resource = ConfigResource("topic", topic())
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.alter_configs({resource: {"retention.ms": "1000", "segment.bytes": "2000000"}})
        await admin.alter_configs({resource: {"retention.ms": None}})
        await admin.alter_configs({resource: {"retention.ms": "7"}}, validate_only=True)
        found = {one.name: one for one in (await admin.describe_configs([resource]))[resource]}
        assert found["retention.ms"].source == ConfigSource.DEFAULT
        assert found["segment.bytes"].value == "2000000"
        with pytest.raises(ExceptionGroup) as several:
            await admin.create_topics([NewTopic(resource.name), NewTopic("not a name")])
        kinds = {type(one) for one in several.value.exceptions}
        assert kinds == {errors.TopicAlreadyExists, errors.InvalidTopicException}
