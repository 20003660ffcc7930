"""A fetch whose records are elsewhere waits for them as for new ones, and may be answered from memory."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from tests.property.broker.inside import Inside, broker_inside
from tidelog.broker.routes import FETCH, PRODUCE
from tidelog.record import BatchBuilder
from tidelog.storage.log import Log
from tidelog.storage.reading import NotHereYet, RecordBytes
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

pytestmark = pytest.mark.simulated

VERSION = 12
PRODUCE_VERSION = 9


async def fetched(inside: Inside, isolation_level: int, wait_ms: int = 1_000) -> bytes:
    topic = FetchTopic(topic="orders", partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 20)])
    request = FetchRequest(max_wait_ms=wait_ms, min_bytes=1, isolation_level=isolation_level, topics=[topic])
    answer = FetchResponse.decode(await inside.call(FETCH, VERSION, request), VERSION)
    return bytes(answer.responses[0].partitions[0].records or b"")


async def produced(inside: Inside) -> None:
    builder = BatchBuilder()
    builder.add(b"key", b"value", 1_700_000_000_000)
    topic = TopicProduceData("orders", partition_data=[PartitionProduceData(0, builder.build())])
    await inside.call(PRODUCE, PRODUCE_VERSION, ProduceRequest(None, -1, 1_000, [topic]))


@pytest.mark.parametrize("isolation_level", [0, 1])
@pytest.mark.simulated(seed=1)
async def test_a_fetch_waits_for_records_that_are_not_here_yet(
    random: Random, monkeypatch: pytest.MonkeyPatch, isolation_level: int
) -> None:
    async with broker_inside(random) as inside:
        await produced(inside)
        here = await fetched(inside, isolation_level)
        assert here
        loop = asyncio.get_running_loop()
        ready = loop.create_future()

        def fetch(self: Log, offset: int, *bounds: Any) -> object:
            return RecordBytes(here, self.end) if ready.done() else NotHereYet(ready)

        monkeypatch.setattr(Log, "fetch", fetch)
        began = loop.time()
        loop.call_later(0.3, ready.set_result, None)
        assert await fetched(inside, isolation_level) == here
        assert 0.29 < loop.time() - began < 0.4


@pytest.mark.simulated(seed=1)
async def test_it_waits_no_longer_than_its_client(random: Random, monkeypatch: pytest.MonkeyPatch) -> None:
    async with broker_inside(random) as inside:
        await produced(inside)
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        monkeypatch.setattr(Log, "fetch", lambda *_: NotHereYet(ready))
        began = loop.time()
        assert await fetched(inside, 0, wait_ms=200) == b""
        assert 0.19 < loop.time() - began < 0.25
        ready.set_result(None)
