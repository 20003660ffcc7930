"""Which partitions a fetch names, from which broker, and how much it may bring."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.client.consumer.consumers import FETCH, ORDERS, consumer_on, drain, fill
from tests.unit.client.stage import Stage, staged
from tidelog.types import TopicPartition
from tidelog.wire.messages.fetch import FetchRequest, FetchTopic
from tidelog.wire.messages.metadata import MetadataRequest


@staged
async def test_an_older_broker_without_topic_ids_gets_names(stage: Stage) -> None:
    broker = stage.broker()
    broker.served[MetadataRequest] = (0, 9)
    stage.world.create("orders")
    fill(stage, b"a")
    async with consumer_on(stage) as consumer:
        consumer.assign([ORDERS])
        await drain(consumer, 1)
    assert ("Fetch", 12) in broker.versions


@staged
async def test_a_replica_nearby_is_read_when_the_leader_names_it(stage: Stage) -> None:
    leader, near = stage.broker(1), stage.broker(2)
    stage.world.create("orders")
    fill(stage, b"a")
    racks: list[str] = []

    async def name_it(answer: Any) -> None:
        for topic in answer.responses:
            for part in topic.partitions:
                part.preferred_read_replica, part.records = 2, b""

    async def note(request: Any) -> int | None:
        racks.append(request.rack_id)
        return None

    leader.scripts[FETCH], leader.after[FETCH] = note, name_it
    near._led = lambda where: 0  # type: ignore[method-assign]
    async with consumer_on(stage, client_rack="east") as consumer:
        consumer.assign([ORDERS])
        assert [record.value for record in await drain(consumer, 1)] == [b"a"]
        assert racks == ["east"] and "Fetch" in near.asked


@staged
async def test_fetch_sessions_name_only_what_changed(stage: Stage) -> None:
    broker = stage.broker()
    stage.world.create("orders", partitions=3)
    sessions: list[tuple[int, int, int]] = []
    remembered: dict[Any, Any] = {}

    async def session(request: Any) -> int | None:
        sessions.append(
            (request.session_id, request.session_epoch, sum(len(t.partitions) for t in request.topics))
        )
        if request.session_epoch == 0:
            remembered.clear()
        for topic in request.topics:
            for part in topic.partitions:
                remembered[topic.topic_id, part.partition] = part
        request.topics = [FetchTopic("", topic_id, [part]) for (topic_id, _), part in remembered.items()]
        return None

    async def begin(answer: Any) -> None:
        answer.session_id = 7

    broker.scripts[FETCH], broker.after[FETCH] = session, begin
    async with consumer_on(stage, fetch_max_wait_ms=10) as consumer:
        consumer.assign([TopicPartition("orders", part) for part in range(3)])
        assert await consumer.poll(200) == []
        fill(stage, b"a", partition=TopicPartition("orders", 1))
        assert [record.value for record in await drain(consumer, 1)] == [b"a"]
        assert await consumer.poll(200) == []
    assert sessions[0] == (0, 0, 3)
    assert [request[1] for request in sessions] == list(range(len(sessions)))
    assert [request[2] for request in sessions[1:]].count(1) == 1 and max(
        request[2] for request in sessions[1:]
    ) == 1


@pytest.mark.parametrize(
    ("partitions", "told", "asked"),
    [(1, None, 4 << 20), (10, None, (32 << 20) // 10), (100, None, 1 << 20), (1, 1 << 20, 1 << 20)],
)
@staged
async def test_few_partitions_bring_more_at_a_time_unless_told_otherwise(
    stage: Stage, partitions: int, told: int | None, asked: int
) -> None:
    broker, sizes = stage.broker(), []
    stage.world.create("orders", partitions)

    async def look(request: FetchRequest) -> None:
        sizes.extend(part.partition_max_bytes for topic in request.topics for part in topic.partitions)

    broker.scripts[FETCH] = look
    fill(stage, b"x")
    async with consumer_on(stage, max_partition_fetch_bytes=told) as consumer:
        consumer.assign([TopicPartition("orders", at) for at in range(partitions)])
        await consumer.poll(60_000)
    assert set(sizes) == {asked}
