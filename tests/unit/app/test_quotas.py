"""Quotas of a running broker, on a virtual clock: what clients get, when, and what they are told."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random

import pytest

from tests.simulation.world import World
from tidelog import errors
from tidelog._speed.log.records import Record
from tidelog.errors import NONE
from tidelog.net.requester import Requester, Unreachable, dial
from tidelog.record.builder import build_batch
from tidelog.wire.messages import alter_client_quotas as altered
from tidelog.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from tidelog.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.wire.messages.metadata import MetadataRequest, MetadataResponse
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

pytestmark = pytest.mark.simulated

TOPIC = "orders"
EVERYBODY: dict[str, str | None] = {"client-id": None}
KB = 1000
BURST_S = 10  # of eleven windows, ten are full
FETCH_VERSION, PRODUCE_VERSION = 12, 9


async def quota(world: World, entity: Mapping[str, str | None], **values: float | None) -> None:
    requester = await world.connect("admin")
    parts = [altered.EntityData(kind, name) for kind, name in entity.items()]
    ops = [altered.OpData(key, value or 0.0, value is None) for key, value in values.items()]
    entry = altered.AlterClientQuotasRequestEntryData(parts, ops)
    request = altered.AlterClientQuotasRequest([entry], False)
    (answer,) = (await requester.ask(request, altered.AlterClientQuotasResponse)).entries
    assert answer.error_code == NONE, answer.error_message
    requester.close()


async def produce(requester: Requester, size: int, acks: int = 1) -> int:
    """The throttle time."""
    data = PartitionProduceData(
        index=0, records=build_batch([Record(0, 1_750_000_000_000, None, b"x" * size)])
    )
    request = ProduceRequest(
        acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])]
    )
    answer = await requester.ask(request, ProduceResponse, version=PRODUCE_VERSION)
    assert answer.responses[0].partition_responses[0].error_code == NONE
    return answer.throttle_time_ms


async def fetch(requester: Requester, offset: int, replica: int = -1) -> tuple[int, int]:
    """(throttle time, bytes of records)"""
    part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        replica_id=replica,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[FetchTopic(topic=TOPIC, partitions=[part])],
    )
    answer = await requester.ask(request, FetchResponse, version=FETCH_VERSION)
    parts = [part for topic in answer.responses for part in topic.partitions]
    return answer.throttle_time_ms, sum(len(part.records or b"") for part in parts)


async def test_producers_that_share_a_quota_stay_within_it(random: Random) -> None:
    world = World(random)
    await world.start()
    await world.create_topic(TOPIC, 1, {})
    await quota(world, EVERYBODY, producer_byte_rate=100 * KB)
    loop = asyncio.get_running_loop()
    both = [await world.connect("app"), await world.connect("app")]
    other = await world.connect("other")
    began = loop.time()

    async def flood(requester: Requester, requests: int) -> int:
        return sum([await produce(requester, 10 * KB) > 0 for _ in range(requests)])

    throttled = await asyncio.gather(*[flood(requester, 150) for requester in both])
    took = loop.time() - began
    assert all(throttled)
    # 3 MB at 100 KB/s: a burst of all windows is free.
    assert 3000 / 100 - BURST_S - 1 <= took <= 2 * 3000 / 100
    began = loop.time()
    assert await flood(other, 90) == 0  # another client id has its own
    assert loop.time() - began < 1


async def test_a_quota_that_changes_holds_for_connections_that_are_open_and_one_that_goes_frees_them(
    random: Random,
) -> None:
    world = World(random)
    await world.start()
    await world.create_topic(TOPIC, 1, {})
    requester = await world.connect("app")
    for _ in range(5):
        assert await produce(requester, KB) == 0  # by the shortcut, the remembered way
    await quota(world, {"client-id": "app"}, producer_byte_rate=1 * KB)
    throttles = [await produce(requester, 10 * KB) for _ in range(2)]
    assert throttles[-1] > 0
    await quota(world, {"client-id": "app"}, producer_byte_rate=None)
    assert [await produce(requester, 10 * KB) for _ in range(20)] == [0] * 20
    # Back again: nothing is forgiven, and nothing of the free time counts.
    await quota(world, {"client-id": "app"}, producer_byte_rate=1000 * KB)
    assert await produce(requester, 10 * KB) == 0


async def test_fetches_above_the_quota_are_empty_until_the_time_is_over_and_followers_are_exempt(
    random: Random,
) -> None:
    world = World(random)
    await world.start()
    await world.create_topic(TOPIC, 1, {})
    producer = await world.connect("producer")
    for _ in range(30):
        await produce(producer, 10 * KB)
    await quota(world, {"client-id": "app"}, consumer_byte_rate=10 * KB)
    one, two = await world.connect("app"), await world.connect("app")
    throttle_ms, size = await fetch(one, 0)
    assert throttle_ms == 0 and 0 < size <= 100 * KB  # what all windows hold
    throttle_ms, size = await fetch(one, 0)
    assert throttle_ms > 5_000 and size > 0
    told_ms, size = await fetch(two, 0)
    assert told_ms > 5_000 and size == 0
    follower = await world.connect("app")
    throttle_ms, size = await fetch(follower, 0, replica=2)
    assert throttle_ms == 0
    # The first connection is not read before its time has passed.
    began = asyncio.get_running_loop().time()
    await fetch(one, 0)
    assert asyncio.get_running_loop().time() - began > 5


async def test_defaults_in_the_settings_limit_every_client_id(random: Random) -> None:
    world = World(random, {"quota.producer.default": str(1 * KB), "quota.window.num": "2"})
    await world.start()
    await world.create_topic(TOPIC, 1, {})
    app = await world.connect("app")
    assert (await produce(app, 10 * KB)) > 0
    await quota(world, {"client-id": "app"}, producer_byte_rate=1000 * KB)
    free = await world.connect("app")
    assert [await produce(free, 10 * KB) for _ in range(5)] == [0] * 5


async def test_time_above_the_request_quota_delays_every_kind_of_request(random: Random) -> None:
    world = World(random)
    await world.start()
    await world.create_topic(TOPIC, 1, {})
    # Whatever a machine takes for a request is more than this.
    await quota(world, {"user": "ANONYMOUS"}, request_percentage=0.000001)
    app = await world.connect("app")
    answers = [await app.ask(MetadataRequest(topics=[]), MetadataResponse) for _ in range(3)]
    assert answers[-1].throttle_time_ms == 1000  # one window at most
    again = await world.connect("app")
    assert await produce(again, KB) == 1000
    assert (await fetch(again, 0))[0] == 1000


async def test_newer_admin_clients_are_refused_changes_above_the_quota_and_older_ones_wait(
    random: Random,
) -> None:
    world = World(random)
    await world.start()
    await quota(world, {"user": None}, controller_mutation_rate=1)
    admin = await world.connect("admin")

    async def create(version: int, *names: str) -> tuple[list[int], int]:
        topics = [CreatableTopic(name=name, num_partitions=8, replication_factor=1) for name in names]
        request = CreateTopicsRequest(topics=topics, timeout_ms=1000)
        answer = await admin.ask(request, CreateTopicsResponse, version=version)
        return [topic.error_code for topic in answer.topics], answer.throttle_time_ms

    # Eleven are free, the second topic overdraws by five.
    codes, throttle_ms = await create(7, "a", "b", "c")
    assert codes == [NONE, NONE, errors.ThrottlingQuotaExceeded.code]
    assert throttle_ms == pytest.approx(5000, abs=100)
    # The connection is read again when that time has passed.
    codes, throttle_ms = await create(5, "c")
    assert codes == [NONE] and throttle_ms == pytest.approx(8000, abs=100)
    grown = CreatePartitionsTopic(name="a", count=10)
    request = CreatePartitionsRequest(topics=[grown], timeout_ms=1000)
    other = await world.connect("other")
    answer = await other.ask(request, CreatePartitionsResponse, version=3)
    assert answer.results[0].error_code == errors.ThrottlingQuotaExceeded.code
    assert answer.throttle_time_ms > 0
    deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name="b")], timeout_ms=1000)
    third = await world.connect("third")
    deleted = await third.ask(deletion, DeleteTopicsResponse, version=6)
    assert deleted.responses[0].error_code == errors.ThrottlingQuotaExceeded.code


async def test_an_address_that_connects_too_often_is_closed_after_a_while(random: Random) -> None:
    world = World(random, {"quota.window.num": "2"})
    await world.start()
    await quota(world, {"ip": None}, connection_creation_rate=2)
    loop = asyncio.get_running_loop()
    accepted = [await world.connect("app")]
    began = loop.time()
    with pytest.raises(Unreachable):
        for _ in range(5):
            accepted.append(await world.connect("app"))
    assert loop.time() - began > 0.1  # not at once: it would come again at once
    await asyncio.sleep(3)
    await world.connect("app")


async def test_a_listener_that_is_full_or_too_fast_lets_clients_wait(random: Random) -> None:
    world = World(
        random,
        {
            "listeners": "ONE://broker:9092,TWO://broker:9093",
            "listener.security.protocol.map": "ONE:PLAINTEXT,TWO:PLAINTEXT",
            "inter.broker.listener.name": "ONE",
            "listener.name.two.max.connections": "1",
            "listener.name.one.max.connection.creation.rate": "1",
            "quota.window.num": "2",
        },
    )
    await world.start()

    async def connect(port: int) -> Requester:
        host = world.network.host("client")
        return await dial(
            host, "broker", port, "app", "1", connect_timeout_ms=60_000, request_timeout_ms=60_000
        )

    loop = asyncio.get_running_loop()
    first = await connect(9093)
    second = asyncio.ensure_future(connect(9093))
    await asyncio.sleep(2)
    assert not second.done()
    first.close()
    await second
    began = loop.time()
    for _ in range(10):
        await connect(9092)
    assert 6 <= loop.time() - began <= 30


async def test_an_acl_that_denies_holds_for_what_sessions_remember_as_soon_as_it_is_answered(
    random: Random,
) -> None:
    world = World(random, {"authorizer.class.name": "tidelog", "allow.everyone.if.no.acl.found": "true"})
    await world.start()
    await world.create_topic(TOPIC, 1, {})
    app, admin = await world.connect("app"), await world.connect("admin")
    for _ in range(3):
        await produce(app, KB)
    topic, literal, write, deny = 2, 3, 4, 2
    rule = AclCreation(topic, TOPIC, literal, "User:ANONYMOUS", "*", write, deny)
    answer = await admin.ask(CreateAclsRequest([rule]), CreateAclsResponse)
    assert answer.results[0].error_code == NONE
    data = PartitionProduceData(index=0, records=build_batch([Record(0, 1_750_000_000_000, None, b"x")]))
    request = ProduceRequest(
        acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])]
    )
    refused = await app.ask(request, ProduceResponse, version=PRODUCE_VERSION)
    code = refused.responses[0].partition_responses[0].error_code
    assert code == errors.TopicAuthorizationFailed.code
