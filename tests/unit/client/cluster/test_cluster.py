from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from tests.unit.client.stage import Stage, staged
from tidelog import errors
from tidelog.client.cluster.addresses import parse_addresses
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.options import ConnectionOptions
from tidelog.net.requester import Unreachable
from tidelog.types import TopicPartition
from tidelog.wire.messages.metadata import MetadataRequest

METADATA = MetadataRequest.API_KEY


def cluster_on(stage: Stage, bootstrap: str = "broker1:9092", **options: Any) -> Cluster:
    return Cluster(parse_addresses(bootstrap), ConnectionOptions(**options), stage.environment)


@staged
async def test_attempts_go_on_with_growing_waits_until_one_succeeds(stage: Stage) -> None:
    cluster = cluster_on(stage)
    times: list[int] = []

    async def third_time() -> str:
        times.append(stage.clock.monotonic_ms())
        if len(times) < 4:
            raise errors.LeaderNotAvailable
        return "done"

    assert await cluster.retrying("it", third_time, 60_000) == "done"
    waits = [after - before for before, after in pairwise(times)]
    assert 80 <= waits[0] <= 120 and 160 <= waits[1] <= 240 and 320 <= waits[2] <= 480


@staged
async def test_when_the_time_is_up_the_last_error_is_told(stage: Stage) -> None:
    cluster = cluster_on(stage)

    async def never() -> None:
        raise errors.LeaderNotAvailable("no leader today")

    async def stuck() -> None:
        await asyncio.sleep(3600)

    start = stage.clock.monotonic_ms()
    with pytest.raises(errors.LeaderNotAvailable, match="no leader today"):
        await cluster.retrying("it", never, 2_000)
    assert stage.clock.monotonic_ms() - start == 2_000
    with pytest.raises(errors.RequestTimedOut, match="it took longer than 1000 ms"):
        await cluster.retrying("it", stuck, 1_000)


@staged
async def test_an_error_for_good_is_not_tried_again(stage: Stage) -> None:
    cluster = cluster_on(stage)
    attempts = 0

    async def refused() -> None:
        nonlocal attempts
        attempts += 1
        raise errors.InvalidTopicException("no")

    with pytest.raises(errors.InvalidTopicException):
        await cluster.retrying("it", refused, 60_000)
    assert attempts == 1


@staged
async def test_many_who_find_the_metadata_stale_ask_once_and_not_too_often(stage: Stage) -> None:
    broker = stage.broker()
    stage.world.create("orders")
    cluster = cluster_on(stage, retry_backoff_ms=500)
    await cluster.open()
    cluster.track("orders")
    broker.asked.clear()
    for _ in range(10):
        cluster.refresh_soon()
        cluster.refresh_soon()
        await asyncio.sleep(0.1)
    assert 2 <= broker.asked.count("Metadata") <= 3
    await cluster.close()


@staged
async def test_what_is_tracked_stays_fresh_without_being_asked_for(stage: Stage) -> None:
    stage.broker(1)
    stage.broker(2)
    stage.world.create("orders")
    cluster = cluster_on(stage, metadata_max_age_ms=5_000)
    await cluster.open()
    await cluster.topic("orders", 1_000)
    cluster.track("orders")
    where = TopicPartition("orders", 0)
    stage.world.lead(where, 2)
    await asyncio.sleep(4)
    assert cluster.topology.leader(where) == 1
    await asyncio.sleep(2)
    assert cluster.topology.leader(where) == 2
    await cluster.close()


@staged
async def test_a_slow_address_does_not_hold_up_the_next(stage: Stage) -> None:
    stage.broker(1)
    stage.broker(2)
    stage.network.cut("client", "broker1")
    cluster = cluster_on(stage, "broker1:9092,broker2:9092")
    start = stage.clock.monotonic_ms()
    await cluster.open()
    assert stage.clock.monotonic_ms() - start < 1_000
    await cluster.close()
    stage.network.heal()


@staged
async def test_a_controller_that_cannot_be_reached_is_looked_for_anew(stage: Stage) -> None:
    gone = stage.broker(1)
    stage.broker(2)
    cluster = cluster_on(stage, "broker2:9092", connect_timeout_ms=1_000)
    await cluster.open()
    assert cluster.topology.controller == 1
    stage.network.cut("client", "broker1")
    del stage.world.brokers[1]  # the others notice it sooner than the client does
    found = await cluster.retrying("asking the controller", cluster.controller, 5_000)
    assert found.peer == "broker2:9092"
    await cluster.close()
    stage.network.heal()
    gone.stop()


@staged
async def test_an_address_that_failed_is_tried_again_after_a_wait_that_grows(stage: Stage) -> None:
    broker = stage.broker()
    cluster = cluster_on(stage)
    await cluster.open()
    broker.stop()
    await asyncio.sleep(1)
    times = []
    for _ in range(6):
        start = stage.clock.monotonic_ms()
        with pytest.raises(Unreachable):
            await cluster.node(1)
        times.append(stage.clock.monotonic_ms() - start)
    assert times[0] < 10 < 35 < times[1] and times[5] > 600
    broker.start()
    await cluster.node(1)
    await cluster.close()


@staged
async def test_those_who_wait_for_one_connection_share_the_attempt(stage: Stage) -> None:
    broker = stage.broker()
    cluster = cluster_on(stage)
    await cluster.open()
    broker.asked.clear()
    broker.stop()
    await asyncio.sleep(1)
    broker.start()
    waiting = [asyncio.ensure_future(cluster.node(1)) for _ in range(5)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    connections = await asyncio.gather(*waiting[1:])
    assert len({id(connection) for connection in connections}) == 1
    assert broker.asked == ["ApiVersions"]
    await cluster.close()


@staged
async def test_a_cluster_closed_while_it_dials_leaves_nothing(stage: Stage) -> None:
    stage.broker()
    stage.network.cut("client", "broker1")
    cluster = cluster_on(stage)
    opening = asyncio.ensure_future(cluster.open())
    await asyncio.sleep(1)
    await cluster.close()
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)
    stage.network.heal()


@staged
async def test_a_topic_problem_that_is_not_its_absence_is_told_as_it_is(stage: Stage) -> None:
    broker = stage.broker()
    stage.world.create("orders")

    async def forbidden(_: Any) -> int:
        return errors.TopicAuthorizationFailed.code

    cluster = cluster_on(stage)
    await cluster.open()
    broker.scripts[METADATA] = forbidden
    with pytest.raises(errors.TopicAuthorizationFailed, match="topic 'orders': "):
        await cluster.topic("orders", 1_000)
    await cluster.close()
