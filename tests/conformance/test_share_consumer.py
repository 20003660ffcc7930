"""Tidelog's share consumer: queues on topics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.consuming import fill
from tidelog import Admin as BlockingAdmin
from tidelog import ShareConsumer as BlockingShareConsumer
from tidelog import errors
from tidelog.aio import Admin, ConfigResource, Record, ShareConsumer
from tidelog.schema import RegistryError, SerializationError


def prepare(bootstrap: str, topic: str, **settings: str) -> None:
    values = {"share.auto.offset.reset": "earliest", **{k.replace("_", "."): v for k, v in settings.items()}}
    with BlockingAdmin(bootstrap_servers=bootstrap) as admin:
        admin.alter_configs({ConfigResource("group", topic): values})


def member(bootstrap: str, topic: str, **options: Any) -> ShareConsumer:
    return ShareConsumer(topic, group_id=topic, bootstrap_servers=bootstrap, **options)


async def some(consumer: ShareConsumer, count: int) -> list[Record]:
    found: list[Record] = []
    while len(found) < count:
        found += await consumer.poll(1_000)
    return found


async def test_members_of_a_group_share_the_records_of_one_partition(
    bootstrap: str, topic: Callable[..., str]
) -> None:
    name = topic()
    prepare(bootstrap, name)
    sent = fill(bootstrap, name, each=200)
    seen: list[Record] = []

    async def work(consumer: ShareConsumer) -> None:
        async for record in consumer:
            seen.append(record)
            if record.offset % 20 == 0:
                await asyncio.sleep(0.01)

    async with (
        member(bootstrap, name, max_poll_records=10) as first,
        member(bootstrap, name, max_poll_records=10) as second,
    ):
        working = [asyncio.ensure_future(work(one)) for one in (first, second)]
        while len(seen) < 200:
            await asyncio.sleep(0.02)
        for one in working:
            one.cancel()
        await asyncio.gather(*working, return_exceptions=True)
    assert sorted(one.value for one in seen) == sorted(sent)
    assert {one.delivery_count for one in seen} == {1}


async def test_what_is_released_comes_again_what_is_rejected_or_accepted_does_not(
    bootstrap: str, topic: Callable[..., str]
) -> None:
    name = topic()
    prepare(bootstrap, name)
    fill(bootstrap, name, each=4)
    async with member(bootstrap, name, acknowledgement_mode="explicit") as consumer:
        first = await some(consumer, 4)
        for record, how in zip(first, ("accept", "release", "reject", "release"), strict=True):
            consumer.acknowledge(record, how)  # type: ignore[arg-type]
        await consumer.commit()
        again = await some(consumer, 2)
        assert [(one.offset, one.delivery_count) for one in again] == [(1, 2), (3, 2)]
        with pytest.raises(errors.InvalidRecordState, match="2 records of the last poll"):
            await consumer.poll()
        for record in again:
            consumer.acknowledge(record)
        with pytest.raises(ValueError, match="not in hand"):
            consumer.acknowledge(again[0])
        assert await consumer.poll(300) == []
    async with Admin(bootstrap_servers=bootstrap) as admin:
        (offset,) = (await admin.list_share_group_offsets(name)).values()
        many = await admin.list_share_groups_offsets([name, "nobody"])
        assert (list(many[name].values()), many["nobody"]) == ([offset], {})
        assert offset.lag in (0, None)


async def test_an_exception_gives_back_what_was_in_hand(bootstrap: str, topic: Callable[..., str]) -> None:
    name = topic()
    prepare(bootstrap, name)
    fill(bootstrap, name, each=6)
    with pytest.raises(ZeroDivisionError):
        async with member(bootstrap, name) as consumer:
            async for record in consumer:
                if record.offset == 2:
                    raise ZeroDivisionError
    async with member(bootstrap, name) as consumer:
        again = await some(consumer, 4)
        assert [one.offset for one in again] == [2, 3, 4, 5]
        assert again[0].delivery_count == 2
    async with member(bootstrap, name) as consumer:
        assert await consumer.poll(1_500) == []


async def test_a_lock_that_is_renewed_does_not_expire(bootstrap: str, topic: Callable[..., str]) -> None:
    name = topic()
    prepare(bootstrap, name, share_record_lock_duration_ms="1000")
    fill(bootstrap, name, each=2)
    async with member(bootstrap, name, acknowledgement_mode="explicit") as consumer:
        kept, lost = await some(consumer, 2)
        assert consumer.lock_timeout_ms == 1_000
        for _ in range(3):
            consumer.acknowledge(kept, "renew")
            await asyncio.sleep(0.5)
        consumer.acknowledge(kept)
        await consumer.commit()
        consumer.acknowledge(lost)
        with pytest.raises(errors.InvalidRecordState):
            await consumer.commit()
        (again,) = await some(consumer, 1)
        assert (again.offset, again.delivery_count) == (lost.offset, 2)
        consumer.acknowledge(again)


def test_the_blocking_face(bootstrap: str, topic: Callable[..., str]) -> None:
    name = topic()
    prepare(bootstrap, name)
    sent = fill(bootstrap, name)
    with BlockingShareConsumer(name, group_id=name, bootstrap_servers=bootstrap) as consumer:
        found = []
        for record in consumer:
            found.append(record.value)
            if len(found) == 4:
                consumer.acknowledge(record, "release")
                break
        consumer.commit()
        while len(found) < 11:
            found += [one.value for one in consumer.poll(1_000)]
        assert sorted(found) == sorted([*sent, sent[3]])
        assert len(consumer.assignment()) == 1 and consumer.subscription() == {name}


async def test_a_name_that_is_a_consumer_group_is_refused(bootstrap: str, topic: Callable[..., str]) -> None:
    from tidelog.aio import Consumer, TopicPartition

    name = topic()
    async with Consumer(bootstrap_servers=bootstrap, group_id=name) as consumer:
        await consumer.commit({TopicPartition(name, 0): 0})
        consumer.subscribe(name)
        while not consumer.assignment():
            await consumer.poll(50)
        async with member(bootstrap, name) as shared:
            with pytest.raises(errors.TidelogError):
                await some(shared, 1)


async def test_a_registry_that_is_down_rejects_nothing(bootstrap: str, topic: Callable[..., str]) -> None:
    name, down = topic(), True
    prepare(bootstrap, name)
    fill(bootstrap, name, each=3)

    def of_bytes(data: bytes | None) -> str:
        if down:
            raise RegistryError("cannot ask the schema registry")
        assert data is not None
        return data.decode()

    async with member(bootstrap, name, value_deserializer=of_bytes) as consumer:
        with pytest.raises(SerializationError, match="poll again later") as caught:
            await some(consumer, 3)
        assert caught.value.retriable
        down = False
        assert [one.value for one in await some(consumer, 3)] == ["0:0", "0:1", "0:2"]
