"""Settings of the cluster's brokers do what they say."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tests.simulation.cluster.world import Cluster
from tidelog.errors import NONE
from tidelog.record import BatchBuilder
from tidelog.types import TopicPartition
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

pytestmark = pytest.mark.simulated

NAME = TopicPartition("orders", 0)
WAIT_MS = 400


async def started(random: Random, settings: dict[str, str]) -> Cluster:
    cluster = Cluster(random, 3, settings)
    await cluster.start_all()
    await cluster.create_topic(NAME.topic, 1, {"min.insync.replicas": "2"}, watched=False)
    while (stored := cluster.stored(NAME)) is None or len(stored.in_sync) < 3:
        await asyncio.sleep(0.05)
    return cluster


@pytest.mark.parametrize("enabled", [True, False])
async def test_a_stop_hands_leadership_over_if_controlled_shutdown_is_enabled(
    random: Random, enabled: bool
) -> None:
    cluster = await started(random, {"controlled.shutdown.enable": str(enabled).lower()})
    leader = await cluster.find_leader(NAME, "looking")
    await cluster.stop(leader)
    stored = cluster.stored(NAME)
    assert stored is not None
    assert (stored.leader != leader) == enabled


@pytest.mark.parametrize("bytes_min", [1, 1 << 20])
async def test_followers_fetches_wait_for_as_many_bytes_as_the_setting_says(
    random: Random, bytes_min: int
) -> None:
    settings = {"replica.fetch.min.bytes": str(bytes_min), "replica.fetch.wait.max.ms": str(WAIT_MS)}
    cluster = await started(random, settings)
    requester = await cluster.connect_leader(NAME, "producer")
    took_ms = []
    for _ in range(5):
        builder = BatchBuilder()
        builder.add(b"key", b"value", 1)
        data = PartitionProduceData(index=0, records=builder.build())
        request = ProduceRequest(
            acks=-1,
            timeout_ms=30_000,
            topic_data=[TopicProduceData(name=NAME.topic, partition_data=[data])],
        )
        began_ms = cluster.clock.monotonic_ms()
        answer = await requester.ask(request, ProduceResponse, version=11)
        assert answer.responses[0].partition_responses[0].error_code == NONE
        took_ms.append(cluster.clock.monotonic_ms() - began_ms)
    assert (sum(took_ms) / 5 > WAIT_MS / 4) == (bytes_min > 1), took_ms


async def test_requests_to_other_brokers_take_as_long_as_the_setting_says(random: Random) -> None:
    cluster = await started(random, {"request.timeout.ms": "1234"})
    requester = await cluster.brokers[1]._replicating.peers.connect(2)  # type: ignore[arg-type]
    assert requester._timeout_ms == 1234
    requester.close()


async def test_checkpoints_are_written_as_often_as_the_settings_say(random: Random) -> None:
    settings = {
        "log.initial.task.delay.ms": "11",
        "log.flush.offset.checkpoint.interval.ms": "12",
        "log.flush.start.offset.checkpoint.interval.ms": "13",
        "replica.high.watermark.checkpoint.interval.ms": "14",
    }
    cluster = await started(random, settings)
    background = cluster.brokers[1]._background
    assert background is not None
    intervals = background._intervals
    assert (intervals.first_ms, intervals.recovery_points_ms) == (11, 12)
    assert (intervals.log_starts_ms, intervals.committed_ms) == (13, 14)
