"""Settings changed over the protocol take effect in a running broker."""

from __future__ import annotations

from random import Random

import pytest

from tests.simulation.world import World
from tidelog.errors import NONE
from tidelog.net.requester import Unreachable
from tidelog.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

pytestmark = pytest.mark.simulated

BROKER = 4


async def change(world: World, **settings: str) -> None:
    requester = await world.connect("admin")
    configs = [AlterableConfig(name=name.replace("_", "."), value=value) for name, value in settings.items()]
    resource = AlterConfigsResource(resource_type=BROKER, resource_name="1", configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource])
    (answer,) = (await requester.ask(request, IncrementalAlterConfigsResponse)).responses
    assert answer.error_code == NONE, answer.error_message
    requester.close()


async def test_the_bound_on_connections_can_change(random: Random) -> None:
    world = World(random)
    await world.start()
    first = await world.connect("first")
    await change(world, max_connections="1")
    with pytest.raises(Unreachable, match="closed the connection"):
        await world.connect("second")
    assert (await first.ask(DescribeClusterRequest(), DescribeClusterResponse)).brokers


async def test_compaction_and_producers_follow_the_settings(random: Random) -> None:
    world = World(random)
    await world.start()
    await change(
        world,
        log_cleaner_backoff_ms="77",
        log_cleaner_dedupe_buffer_size="2000000",
        producer_id_expiration_ms="88",
    )
    broker = world.broker
    assert broker is not None and broker._background is not None
    assert {(cleaner.backoff_ms, cleaner.memory_bytes) for cleaner in broker._cleaners} == {(77, 2_000_000)}
    assert broker._background._intervals.producer_expiration_ms == 88


async def test_a_default_of_topics_reaches_logs_that_are_open(random: Random) -> None:
    world = World(random)
    await world.start()
    await world.create_topic("a", 1, {})
    broker = world.broker
    assert broker is not None
    partition = broker._partitions.led_here("a", 0)
    await change(world, message_max_bytes="1234", log_retention_ms="99")
    assert partition.log.config.max_message_bytes == 1234
    assert partition.log.config.retention_ms == 99
