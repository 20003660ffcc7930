"""Requests with very many elements: others have their turn while they are answered."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tests.property.broker.inside import broker_inside
from tidelog.broker.router import LONG_BYTES
from tidelog.broker.services import PARTITIONS_A_TURN
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

pytestmark = pytest.mark.simulated

COUNT = 10_000


class Ticker:
    """How often the loop went round."""

    def __init__(self) -> None:
        self.ticks = 0
        self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.ticks += 1

    def stop(self) -> int:
        self._task.cancel()
        return self.ticks


@pytest.mark.simulated(seed=1)
async def test_others_have_their_turn_while_the_offsets_of_many_partitions_are_listed(random: Random) -> None:
    async with broker_inside(random) as inside:
        partitions = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(COUNT)]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic("orders", partitions)])
        assert len(request.encode(5)) > LONG_BYTES
        ticker = Ticker()
        answer, _ = ListOffsetsResponse.decode_prefix(await inside.call(2, 5, request), 5, 0)
        assert ticker.stop() >= COUNT // PARTITIONS_A_TURN
        codes = [partition.error_code for partition in answer.topics[0].partitions]
        assert codes == [0, 0] + [3] * (COUNT - 2)


@pytest.mark.simulated(seed=1)
async def test_others_have_their_turn_while_the_records_of_many_partitions_are_deleted(
    random: Random,
) -> None:
    async with broker_inside(random) as inside:
        partitions = [DeleteRecordsPartition(index, -1) for index in range(COUNT)]
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic("orders", partitions)], timeout_ms=1_000)
        ticker = Ticker()
        answer, _ = DeleteRecordsResponse.decode_prefix(await inside.call(21, 2, request), 2, 0)
        assert ticker.stop() >= COUNT // PARTITIONS_A_TURN
        assert len(answer.topics[0].partitions) == COUNT
