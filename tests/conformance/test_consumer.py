"""Tidelog's own consumer, with and without a group."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest

from tests.conformance.consuming import drain, fill, indexes, until
from tidelog import errors
from tidelog.aio import CommitFailed, Consumer, OffsetAndMetadata, RebalanceListener, Record, TopicPartition

CLASSIC = {"group_protocol": "classic"}
COORDINATED = {"group_protocol": "consumer"}
PROTOCOLS = pytest.mark.parametrize("protocol", [CLASSIC, COORDINATED], ids=["classic", "consumer"])
WAYS = {
    **{
        one: {"partition_assignment_strategy": one}
        for one in ("range", "roundrobin", "sticky", "cooperative-sticky")
    },
    **{
        f"by coordinator, {one}": {**COORDINATED, "group_remote_assignor": one}
        for one in ("uniform", "range")
    },
}


def group(bootstrap: str, topic: str, **options: Any) -> Consumer:
    return Consumer(
        topic,
        **{
            "bootstrap_servers": bootstrap,
            "group_id": f"of-{topic}",
            "auto_offset_reset": "earliest",
            "heartbeat_interval_ms": 100,
            "session_timeout_ms": 10_000,
            **options,
        },
    )


async def test_without_a_group_it_reads_all_partitions(bootstrap: str, topic: Callable[..., str]) -> None:
    name = topic(partitions=3)
    sent = fill(bootstrap, name, partitions=3)
    async with Consumer(name, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        assert sorted(one.value for one in await drain(consumer, 30)) == sorted(sent)
        assert indexes(consumer) == [0, 1, 2]
        with pytest.raises(ValueError, match="give it a group_id"):
            await consumer.commit()


async def test_a_topic_that_is_created_later_is_found(
    bootstrap: str, topic: Callable[..., str], name: Any
) -> None:
    from tests.conformance.topics import create_topic

    later = name()
    async with Consumer(later, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        assert await consumer.poll(100) == []
        await asyncio.to_thread(create_topic, bootstrap, later)
        await asyncio.to_thread(fill, bootstrap, later)
        await drain(consumer, 10)


@pytest.mark.parametrize("way", WAYS)
async def test_members_share_the_partitions_as_they_come_and_go(
    way: str, bootstrap: str, topic: Callable[..., str]
) -> None:
    name = topic(partitions=6)
    sent = fill(bootstrap, name, partitions=6)
    found: list[Record] = []
    async with group(bootstrap, name, **WAYS[way]) as first:
        await until(lambda: len(found) == 60, first, found=found)
        async with group(bootstrap, name, **WAYS[way]) as second:
            await until(lambda: len(indexes(first)) == len(indexes(second)) == 3, first, second, found=found)
            assert sorted(indexes(first) + indexes(second)) == list(range(6))
            sent += await asyncio.to_thread(fill, bootstrap, name, partitions=6, start=10)
            await until(lambda: len(found) >= 120, first, second, found=found)
        await until(lambda: len(indexes(first)) == 6, first, found=found)
        sent += await asyncio.to_thread(fill, bootstrap, name, partitions=6, start=20)
        await until(lambda: len(found) >= 180, first, found=found)
    assert sorted(one.value for one in found) == sorted(sent)


@PROTOCOLS
async def test_a_member_begins_where_the_group_has_committed(
    protocol: Any, bootstrap: str, topic: Callable[..., str]
) -> None:
    name = topic()
    zero = TopicPartition(name, 0)
    fill(bootstrap, name)
    async with group(bootstrap, name, **protocol, enable_auto_commit=False) as consumer:
        assert await consumer.committed(zero) == {zero: None}
        await drain(consumer, 10)
        await consumer.commit({zero: 4})
        assert await consumer.committed(zero) == {zero: OffsetAndMetadata(4)}
    async with group(bootstrap, name, **protocol, enable_auto_commit=False) as consumer:
        assert [one.offset for one in await drain(consumer, 6)] == list(range(4, 10))
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        consumer.commit_async({zero: OffsetAndMetadata(7, "note")}, lambda *said: done.set_result(said))
        assert await done == ({zero: OffsetAndMetadata(7, "note")}, None)
        committed = (await consumer.committed())[zero]
        assert committed is not None and (committed.offset, committed.metadata) == (7, "note")
        await consumer.commit()
    async with group(bootstrap, name, **protocol) as consumer:
        found: list[Record] = []
        await until(lambda: bool(indexes(consumer)), consumer, found=found)
        assert await consumer.position(zero) == 10 and found == []


@PROTOCOLS
async def test_closing_commits_what_was_handed_out_and_an_exception_does_not(
    protocol: Any, bootstrap: str, topic: Callable[..., str]
) -> None:
    name = topic()
    zero = TopicPartition(name, 0)
    fill(bootstrap, name)
    with pytest.raises(ZeroDivisionError):
        async with group(bootstrap, name, **protocol) as consumer:
            async for record in consumer:
                if record.offset == 3:
                    raise ZeroDivisionError
    async with group(bootstrap, name, **protocol) as consumer:
        assert (await consumer.poll(5_000, max_records=2))[0].offset == 3
        with pytest.raises(RuntimeError):
            async for record in consumer:
                assert record.offset == 5
                raise RuntimeError
    async with group(bootstrap, name, **protocol) as consumer:
        async for record in consumer:
            if record.offset == 7:
                break
        await consumer.commit()
        assert (await consumer.committed(zero))[zero] == OffsetAndMetadata(8, "", 0)
        assert [one.offset for one in await consumer.poll()] == [8, 9]
    async with group(bootstrap, name, **protocol) as consumer:
        found: list[Record] = []
        await until(lambda: bool(indexes(consumer)), consumer, found=found)
        assert await consumer.position(zero) == 10 and found == []


async def test_offsets_are_committed_by_themselves_while_it_runs(
    bootstrap: str, topic: Callable[..., str]
) -> None:
    name = topic()
    zero = TopicPartition(name, 0)
    fill(bootstrap, name)
    async with group(bootstrap, name, auto_commit_interval_ms=20) as consumer:
        count = 0
        async for record in consumer:
            count += 1
            if count < 5:
                continue
            known = (await consumer.committed(zero))[zero]
            if known is not None and known.offset >= 1:
                assert known.offset <= record.offset
                break
            await asyncio.sleep(0.02)


@PROTOCOLS
async def test_a_slow_iteration_takes_part_in_rebalances_between_two_records(
    protocol: Any, bootstrap: str, topic: Callable[..., str]
) -> None:
    name = topic(partitions=2)
    fill(bootstrap, name, partitions=2, each=500)
    seen: list[Record] = []

    async def read(consumer: Consumer, until_all: asyncio.Event) -> None:
        async for record in consumer:
            seen.append(record)
            await asyncio.sleep(0.002)
            if len({(one.partition, one.offset) for one in seen}) == 1_000:
                until_all.set()

    all_seen = asyncio.Event()
    async with group(bootstrap, name, **protocol) as first, group(bootstrap, name, **protocol) as second:
        reading = [asyncio.ensure_future(read(one, all_seen)) for one in (first, second)]
        await all_seen.wait()
        for one in reading:
            one.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
    # Only what was in hand when a partition moved may come twice: with commits at every revocation, nothing.
    assert len(seen) == 1_000


class Diary(RebalanceListener):
    def __init__(self) -> None:
        self.entries: list[tuple[str, list[int]]] = []

    def on_partitions_assigned(self, partitions: Any) -> None:
        self.entries.append(("assigned", [one.partition for one in partitions]))

    async def on_partitions_revoked(self, partitions: Any) -> None:
        await asyncio.sleep(0)
        self.entries.append(("revoked", [one.partition for one in partitions]))

    def on_partitions_lost(self, partitions: Any) -> None:
        self.entries.append(("lost", [one.partition for one in partitions]))


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("range", [("assigned", [0, 1]), ("revoked", [0, 1]), ("assigned", [0])]),
        ("cooperative-sticky", [("assigned", [0, 1]), ("revoked", [1])]),
    ],
)
async def test_listeners_hear_what_comes_and_goes(
    strategy: str, expected: list[Any], bootstrap: str, topic: Callable[..., str]
) -> None:
    name = topic(partitions=2)
    diary = Diary()
    options = {"partition_assignment_strategy": strategy, "group_instance_id": "a"}
    async with group(bootstrap, name, **options) as first:
        first.subscribe([name], listener=diary)
        await until(lambda: len(indexes(first)) == 2, first)
        async with group(bootstrap, name, **{**options, "group_instance_id": "b"}) as second:
            await until(lambda: len(indexes(second)) == 1, first, second)
            assert diary.entries == expected
        await first.unsubscribe()
        assert diary.entries[-1][0] == "revoked" and first.assignment() == set()


@PROTOCOLS
async def test_a_pattern_finds_topics_old_and_new(
    protocol: Any, bootstrap: str, name: Callable[[], str]
) -> None:
    from tests.conformance.topics import create_topic

    prefix = name()
    await asyncio.to_thread(create_topic, bootstrap, f"{prefix}-a")
    await asyncio.to_thread(create_topic, bootstrap, f"x{prefix}-b")
    async with Consumer(
        bootstrap_servers=bootstrap,
        group_id=prefix,
        heartbeat_interval_ms=100,
        session_timeout_ms=10_000,
        metadata_max_age_ms=200,
        **protocol,
    ) as consumer:
        consumer.subscribe(pattern=f"{prefix}-.*")
        await until(lambda: {one.topic for one in consumer.assignment()} == {f"{prefix}-a"}, consumer)
        await asyncio.to_thread(create_topic, bootstrap, f"{prefix}-c")
        await until(lambda: len(consumer.assignment()) == 2, consumer)


async def test_new_partitions_of_a_topic_are_read(bootstrap: str, topic: Callable[..., str]) -> None:
    from tidelog.aio import Admin

    name = topic()
    async with group(bootstrap, name, metadata_max_age_ms=200) as consumer:
        await until(lambda: indexes(consumer) == [0], consumer)
        async with Admin(bootstrap_servers=bootstrap) as admin:
            await admin.create_partitions({name: 3})
        await until(lambda: indexes(consumer) == [0, 1, 2], consumer)


@PROTOCOLS
async def test_a_static_member_that_returns_keeps_its_partitions(
    protocol: Any, bootstrap: str, topic: Callable[..., str]
) -> None:
    name = topic(partitions=4)
    async with group(bootstrap, name, **protocol, group_instance_id="one") as first:
        async with group(bootstrap, name, **protocol, group_instance_id="two") as second:
            await until(lambda: len(indexes(first)) == len(indexes(second)) == 2, first, second)
            had, generation = indexes(second), first.group_metadata().generation_id
        async with group(bootstrap, name, **protocol, group_instance_id="two") as back:
            await until(lambda: bool(indexes(back)), first, back)
            assert indexes(back) == had
            assert first.group_metadata().generation_id == generation


@PROTOCOLS
async def test_a_member_that_does_not_poll_loses_its_partitions_and_returns(
    protocol: Any, bootstrap: str, topic: Callable[..., str]
) -> None:
    name = topic()
    zero = TopicPartition(name, 0)
    fill(bootstrap, name)
    diary = Diary()
    async with group(
        bootstrap, name, **protocol, max_poll_interval_ms=300, enable_auto_commit=False
    ) as first:
        first.subscribe([name], listener=diary)
        assert len(await drain(first, 10)) == 10
        async with group(bootstrap, name, **protocol, enable_auto_commit=False) as second:
            await until(lambda: indexes(second) == [0], second)
            with pytest.raises(CommitFailed, match="not in the group any more"):
                await first.commit({zero: 10})
            assert (await second.committed(zero))[zero] is None
        await until(lambda: len(diary.entries) == 3, first)
        assert diary.entries == [("assigned", [0]), ("lost", [0]), ("assigned", [0])]


async def test_heartbeats_go_on_while_records_are_processed(
    bootstrap: str, topic: Callable[..., str]
) -> None:
    name = topic()
    fill(bootstrap, name)
    async with group(bootstrap, name, session_timeout_ms=400) as consumer:
        await drain(consumer, 10)
        generation = consumer.group_metadata().generation_id
        await asyncio.sleep(1)  # longer than the session: the point of this test
        await consumer.commit()
        assert consumer.group_metadata().generation_id == generation


@pytest.mark.parametrize("reset", ["earliest", "latest", "none"])
async def test_a_group_without_offsets_begins_where_it_is_told(
    reset: str, bootstrap: str, topic: Callable[..., str]
) -> None:
    name = topic()
    zero = TopicPartition(name, 0)
    fill(bootstrap, name)
    async with group(bootstrap, name, auto_offset_reset=reset) as consumer:
        if reset == "none":
            with pytest.raises(errors.OffsetOutOfRange, match="no committed offset: seek"):
                await until(lambda: False, consumer)
            consumer.seek(zero, 9)
            assert [one.offset for one in await drain(consumer, 1)] == [9]
        else:
            found: list[Record] = []
            await until(lambda: bool(indexes(consumer)), consumer, found=found)
            assert await consumer.position(zero) - len(found) == {"earliest": 0, "latest": 10}[reset]


async def test_a_reset_to_a_time(bootstrap: str, topic: Callable[..., str]) -> None:
    from tests.conformance.clients import Message, confluent_produce

    name = topic(config={"retention.ms": "-1"})  # they are from 1970
    confluent_produce(bootstrap, name, [Message(b"%d" % at, timestamp=1_000_000 + at) for at in range(10)])
    async with group(bootstrap, name, auto_offset_reset=1_000_006) as consumer:
        assert [one.offset for one in await drain(consumer, 4)] == [6, 7, 8, 9]


async def test_partitions_assigned_by_hand_commit_to_the_group(
    bootstrap: str, topic: Callable[..., str]
) -> None:
    name = topic()
    zero = TopicPartition(name, 0)
    fill(bootstrap, name)
    options: dict[str, Any] = {"bootstrap_servers": bootstrap, "group_id": f"hand-{name}"}
    async with Consumer(**options, auto_offset_reset="earliest") as consumer:
        consumer.assign([zero])
        await drain(consumer, 10)
        with pytest.raises(ValueError, match="assigned by hand"):
            consumer.subscribe([name])
    async with Consumer(**options) as consumer:
        consumer.assign([zero])
        assert await consumer.position(zero) == 10


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
async def test_a_group_may_mix_clients(strategy: str, bootstrap: str, topic: Callable[..., str]) -> None:
    name = topic(partitions=4)
    sent = fill(bootstrap, name, partitions=4)
    other = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"of-{name}",
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": strategy,
            "heartbeat.interval.ms": 100,
            "enable.auto.commit": False,
        }
    )
    other.subscribe([name])
    theirs: list[bytes] = []
    ended = False

    def read() -> None:
        while not ended:
            for message in other.consume(100, 0.05):
                theirs.append(message.value())
                other.commit(message, asynchronous=False)

    reading = asyncio.ensure_future(asyncio.to_thread(read))
    ours: list[Record] = []
    async with group(bootstrap, name, partition_assignment_strategy=strategy) as consumer:
        await until(lambda: len(indexes(consumer)) == 2, consumer, found=ours)
        await until(lambda: len({one.value for one in ours} | set(theirs)) == 40, consumer, found=ours)
        sent += await asyncio.to_thread(fill, bootstrap, name, partitions=4, start=10)
        await until(lambda: len({one.value for one in ours} | set(theirs)) == 80, consumer, found=ours)
        assert len([one for one in ours if one.offset >= 10]) == 20
        ended = True
        await reading
        await asyncio.to_thread(other.close)
        await until(lambda: len(indexes(consumer)) == 4, consumer, found=ours)
    assert {one.value for one in ours} | set(theirs) == set(sent)


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
async def test_records_of_transactions(isolation: str, bootstrap: str, topic: Callable[..., str]) -> None:
    name = topic()
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(20)
    for number in range(6):
        producer.begin_transaction()
        producer.produce(name, b"%d" % number, partition=0)
        producer.flush(20)
        if number % 2:
            producer.abort_transaction(20)
        else:
            producer.commit_transaction(20)
    producer.begin_transaction()
    producer.produce(name, b"open", partition=0)
    producer.flush(20)
    committed = isolation == "read_committed"
    async with Consumer(
        name, bootstrap_servers=bootstrap, auto_offset_reset="earliest", isolation_level=isolation
    ) as consumer:
        found = await drain(consumer, 3 if committed else 7)
        everything = [b"0", b"1", b"2", b"3", b"4", b"5", b"open"]
        assert [one.value for one in found] == ([b"0", b"2", b"4"] if committed else everything)
        assert await consumer.poll(300) == []
        zero = TopicPartition(name, 0)
        assert await consumer.position(zero) == (12 if committed else 13)
        assert await consumer.end_offsets([zero]) == {zero: 12 if committed else 13}
        await asyncio.to_thread(producer.commit_transaction, 20)
        if committed:
            assert [one.value for one in await drain(consumer, 1)] == [b"open"]


async def test_the_latency_of_a_rebalance_is_counted_from_the_join(own_broker: Callable[..., Any]) -> None:
    """The coordinator waits for more members before it answers the join of the first."""
    from tests.conformance.topics import create_topic

    broker = own_broker({"group.initial.rebalance.delay.ms": "1000"})
    create_topic(broker.bootstrap, "orders")
    fill(broker.bootstrap, "orders")
    async with group(broker.bootstrap, "orders", **CLASSIC) as consumer:
        await drain(consumer, 10)
        assert consumer.metrics().rebalance_latency_avg_ms >= 900
