"""Produce requests that are held back count as queued bytes for as long as that lasts, and not a moment longer."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tests.property.broker.inside import Inside, broker_inside
from tidelog.broker.routes import PRODUCE
from tidelog.record import BatchBuilder
from tidelog.record.codecs import Codec
from tidelog.wire.frame import RequestHeader, encode_request
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

pytestmark = pytest.mark.simulated

VERSION = 12
LARGE = 300_000


def produce(topic: str, data: bytes, transactional_id: str | None = None) -> bytes:
    topics = [TopicProduceData(topic, partition_data=[PartitionProduceData(0, data)])]
    request = ProduceRequest(transactional_id, -1, 5_000, topics)
    return encode_request(RequestHeader(PRODUCE, VERSION, 1, "c"), request.encode(VERSION))[4:]


async def held_and_let_go(inside: Inside, frames: list[bytes]) -> None:
    assert inside.queued_bytes == 0
    answers = [asyncio.ensure_future(inside.ask(frame)) for frame in frames]
    await asyncio.sleep(0)  # all are routed in this turn
    assert inside.queued_bytes == sum(map(len, frames))
    for answer in await asyncio.gather(*answers):
        assert answer is not None
    assert inside.queued_bytes == 0


async def test_a_request_whose_batches_are_opened_on_a_thread_counts(random: Random) -> None:
    async with broker_inside(random) as inside:
        builder = BatchBuilder()
        builder.add(b"key", random.randbytes(LARGE), 1_700_000_000_000)
        await held_and_let_go(inside, [produce("keyed", builder.build(codec=Codec.GZIP))])


async def test_a_request_whose_transaction_does_not_know_its_partition_yet_counts_and_those_behind_it(
    random: Random,
) -> None:
    async with broker_inside(random, {"log.flush.interval.messages": "1"}) as inside:
        made = await inside.transactional_producer("payments")
        frames = []
        for number in range(3):
            builder = BatchBuilder()
            builder.add(b"key", random.randbytes(LARGE), 1_700_000_000_000)
            data = builder.build(
                producer_id=made.producer_id,
                producer_epoch=made.producer_epoch,
                base_sequence=number,
                transactional=True,
            )
            frames.append(produce("orders", data, "payments"))
        inside.disk.run_delay_s_max = 0.5  # what the coordinator notes takes as long
        await held_and_let_go(inside, frames)
