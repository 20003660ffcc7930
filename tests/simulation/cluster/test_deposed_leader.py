"""A leader that others have replaced, that does not know it, and that clients still reach."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random

import pytest

from tests.simulation.cluster.world import Cluster, host
from tests.simulation.test_found import NAME, batch, produce
from tidelog import errors
from tidelog.app.lifecycle import Broker
from tidelog.broker.services import Services
from tidelog.net.requester import Requester
from tidelog.testing import run
from tidelog.types import NodeId

SETTINGS = {"replica.lag.time.max.ms": "3000"}


def alone(cluster: Cluster, node: int) -> None:
    """Clients reach it; other brokers and the store do not."""
    for other in cluster.machines:
        if other != node:
            cluster.network.cut(host(node), host(other))
    cluster.metadata.cut_off(host(node))


async def next_leader(cluster: Cluster, deposed: int) -> Requester:
    while True:
        await asyncio.sleep(0.1)
        stored = cluster.stored(NAME)
        if stored is not None and stored.leader not in (None, deposed):
            assert stored.leader is not None
            return await cluster.connect(stored.leader, "producer")


@pytest.fixture
def proven(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The brokers whose clocks prove their leases."""
    nodes: set[int] = set()
    build = Broker._services

    def services(broker: Broker, node: NodeId) -> Services:
        return replace(build(broker, node), lease_proven=lambda: node in nodes)

    monkeypatch.setattr(Broker, "_services", services)
    return nodes


def test_a_producer_is_not_told_of_a_gap_by_a_broker_that_may_have_been_replaced(proven: set[int]) -> None:
    async def scenario(random: Random) -> None:
        cluster = Cluster(random, 3, SETTINGS)
        proven.update(cluster.machines)
        await cluster.start_all()
        await cluster.create_topic(NAME.topic, 1, {})
        stored = cluster.stored(NAME)
        assert stored is not None and stored.leader is not None
        deposed = stored.leader
        old = await cluster.connect(deposed, "producer")
        assert (await produce(old, batch(0))).error_code == errors.NONE
        alone(cluster, deposed)
        proven.discard(deposed)
        new = await next_leader(cluster, deposed)
        while (await produce(new, batch(1))).error_code != errors.NONE:
            await asyncio.sleep(0.1)
        # The producer was sent back: a broker with old metadata told it who leads.
        assert (await produce(old, batch(2))).error_code == errors.NotLeaderOrFollower.code
        assert (await produce(new, batch(3))).error_code == errors.OutOfOrderSequenceNumber.code
        assert (await produce(new, batch(2))).error_code == errors.NONE

    run(scenario)
