"""A producer through broken connections, refusals, silent brokers and new leaders."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from tests.unit.client.producer.producers import ORDERS, PRODUCE, producer_on, values
from tests.unit.client.scripted import Drop
from tests.unit.client.stage import Stage, staged
from tidelog import errors
from tidelog.client.errors import DeliveryTimedOut
from tidelog.testing import seeds
from tidelog.types import TopicPartition
from tidelog.wire.messages.produce import ProduceRequest


@pytest.mark.parametrize("seed", seeds(12))
@pytest.mark.parametrize("idempotent", [True, False])
@staged
async def test_order_holds_and_nothing_is_lost_through_broken_connections_and_refusals(
    stage: Stage, seed: int, idempotent: bool
) -> None:
    brokers = [stage.broker(1), stage.broker(2)]
    stage.world.create("orders", partitions=2)
    random = stage.random

    async def before(_: Any) -> int | None:
        kind = random.random()
        if kind < 0.1:
            raise Drop
        if kind < 0.2:
            return errors.NotEnoughReplicas.code
        if kind < 0.25:
            part = TopicPartition("orders", random.randrange(2))
            stage.world.lead(part, random.choice([1, 2]))
        return None

    async def after(_: Any) -> None:
        if random.random() < 0.1:
            raise Drop

    for broker in brokers:
        broker.scripts[PRODUCE], broker.after[PRODUCE] = before, after
    options = {"acks": "all", "enable_idempotence": idempotent, "batch_size": 60, "retry_backoff_ms": 5}
    async with producer_on(stage, *brokers, **options) as producer:
        sent = []
        for at in range(200):
            sent.append(await producer.send("orders", b"%d" % at, partition=at % 2))
            if random.random() < 0.1:
                await asyncio.sleep(random.random() / 50)
        where = await asyncio.gather(*sent)
    for part in range(2):
        expected = [b"%d" % at for at in range(200) if at % 2 == part]
        written = values(stage, TopicPartition("orders", part))
        if idempotent:
            assert written == expected
        assert list(dict.fromkeys(written)) == expected
        offsets = [metadata.offset for metadata in where if metadata.partition == part]
        assert [written[offset] for offset in offsets] == expected


@staged
async def test_a_broker_that_restarts_is_found_again(stage: Stage) -> None:
    broker = stage.broker()
    stage.world.create("orders")
    async with producer_on(stage) as producer:
        await (await producer.send("orders", b"before"))
        broker.stop()
        sent = await producer.send("orders", b"after")
        await asyncio.sleep(5)
        assert not sent.done()
        broker.start()
        assert (await sent).offset == 1


@staged
async def test_a_batch_the_broker_finds_too_large_is_sent_in_halves(stage: Stage) -> None:
    broker = stage.broker()
    stage.world.create("orders")

    async def at_most_200(request: Any) -> int | None:
        size = len(request.topic_data[0].partition_data[0].records)
        return errors.MessageTooLarge.code if size > 200 else None

    broker.scripts[PRODUCE] = at_most_200
    async with producer_on(stage, linger_ms=10, batch_size=600) as producer:
        sent = [await producer.send("orders", b"%03d" % at + b"x" * 40) for at in range(40)]
        sent.append(await producer.send("orders", b"y" * 300))
        sent.append(await producer.send("orders", b"last"))
        await producer.flush()
        assert all(delivery.done() for delivery in sent), "a flush waits for the halves, too"
        results = await asyncio.gather(*sent, return_exceptions=True)
    assert isinstance(results[40], errors.MessageTooLarge), "alone it is too large: halves do not help"
    assert [one[:3] for one in values(stage)] == [*[b"%03d" % at for at in range(40)], b"las"]


@staged
async def test_a_record_larger_than_a_request_is_refused_at_once(stage: Stage) -> None:
    stage.broker()
    stage.world.create("orders")
    async with producer_on(stage, max_request_size=1000) as producer:
        with pytest.raises(errors.MessageTooLarge, match=r"larger than max_request_size .1000."):
            await producer.send("orders", b"x" * 1000)


@staged
async def test_a_record_is_given_up_after_the_delivery_timeout_with_the_reason(stage: Stage) -> None:
    broker = stage.broker()
    stage.world.create("orders")

    async def refuse(_: Any) -> int:
        return errors.NotEnoughReplicas.code

    broker.scripts[PRODUCE] = refuse
    async with producer_on(stage, delivery_timeout_ms=3_000) as producer:
        start = stage.clock.monotonic_ms()
        sent = await producer.send("orders", b"x")
        with pytest.raises(DeliveryTimedOut, match=r"orders-0 within 3000 ms: orders-0: .*replicas"):
            await sent
        assert 3_000 <= stage.clock.monotonic_ms() - start < 3_100
        broker.scripts.clear()
        assert (await (await producer.send("orders", b"y"))).offset == 0


@staged
async def test_a_silent_broker_does_not_hold_a_record_past_the_delivery_timeout(stage: Stage) -> None:
    broker = stage.broker()
    stage.world.create("orders")

    async def silent(_: Any) -> None:
        await asyncio.sleep(3600)

    async with producer_on(stage, delivery_timeout_ms=3_000) as producer:
        await (await producer.send("orders", b"x"))
        broker.scripts[PRODUCE] = silent
        start = stage.clock.monotonic_ms()
        sent = await producer.send("orders", b"x")
        with pytest.raises(DeliveryTimedOut):
            await sent
        assert 3_000 <= stage.clock.monotonic_ms() - start < 3_100


@staged
async def test_retries_end_when_their_number_is_used_up(stage: Stage) -> None:
    broker = stage.broker()
    stage.world.create("orders")
    attempts = 0

    async def refuse(_: Any) -> int:
        nonlocal attempts
        attempts += 1
        return errors.NotEnoughReplicas.code

    broker.scripts[PRODUCE] = refuse
    async with producer_on(stage, retries=2, acks=1) as producer:
        with pytest.raises(errors.NotEnoughReplicas):
            await (await producer.send("orders", b"x"))
    assert attempts == 3


@staged
async def test_waits_between_retries_grow_to_their_most_and_no_further(stage: Stage) -> None:
    broker = stage.broker()
    stage.world.create("orders")
    times: list[float] = []

    async def refuse(_: Any) -> int:
        times.append(stage.clock.monotonic_ms())
        return errors.NotEnoughReplicas.code

    broker.scripts[PRODUCE] = refuse
    waits = {"retry_backoff_ms": 100, "retry_backoff_max_ms": 400}
    async with producer_on(stage, retries=8, acks=1, **waits) as producer:
        with pytest.raises(errors.NotEnoughReplicas):
            await (await producer.send("orders", b"x"))
    waited = [after - before for before, after in pairwise(times)]
    assert 80 <= waited[0] < 130 and 160 <= waited[1] < 250
    assert all(320 <= one < 490 for one in waited[2:]) and len(waited) == 8


@staged
async def test_an_error_for_good_fails_the_record_and_not_the_next_ones(stage: Stage) -> None:
    broker = stage.broker()
    stage.world.create("orders")
    answers = iter([None, errors.InvalidRecord.code])

    async def refuse_second(_: Any) -> int | None:
        return next(answers, None)

    broker.scripts[PRODUCE] = refuse_second
    async with producer_on(stage, batch_size=0) as producer:
        await (await producer.send("orders", b"a"))
        sent = [await producer.send("orders", value) for value in (b"b", b"c", b"d")]
        results = await asyncio.gather(*sent, return_exceptions=True)
    assert isinstance(results[0], errors.InvalidRecord)
    assert values(stage) == [b"a", b"c", b"d"]


@pytest.mark.parametrize("tells", [True, False])
@staged
async def test_who_is_told_of_another_leader_goes_there_at_once(stage: Stage, tells: bool) -> None:
    stage.world.tells = tells
    first = stage.broker(1)
    stage.world.create("orders")
    async with producer_on(stage, first, retry_backoff_ms=5_000, linger_ms=0) as producer:
        await (await producer.send("orders", b"a"))
        second = stage.broker(2)  # not in any answer to Metadata so far
        stage.world.lead(ORDERS, 2)
        start, asked = stage.clock.monotonic_ms(), first.asked.count("Metadata")
        sent = [await producer.send("orders", b"%d" % number) for number in range(5)]
        assert [(await delivery).offset for delivery in sent] == [1, 2, 3, 4, 5]
        if tells:
            assert stage.clock.monotonic_ms() - start < 100
            assert first.asked.count("Metadata") + second.asked.count("Metadata") == asked
        else:
            assert first.asked.count("Metadata") + second.asked.count("Metadata") > asked


@staged
async def test_brokers_that_send_one_to_each_other_are_not_asked_all_the_time(stage: Stage) -> None:
    """Neither of the two leads, and each one thinks that the other one does."""
    stage.world.tells = True
    brokers = [stage.broker(1), stage.broker(2)]
    stage.world.create("orders")
    async with producer_on(stage, *brokers, retry_backoff_ms=100, linger_ms=0) as producer:
        await (await producer.send("orders", b"a"))

        async def neither(_: Any) -> int:
            return errors.NotLeaderOrFollower.code

        for broker in brokers:
            broker.scripts[ProduceRequest.API_KEY] = neither
        before = sum(broker.asked.count("Produce") for broker in brokers)
        sent = await producer.send("orders", b"b")
        await asyncio.sleep(5)
        assert sum(broker.asked.count("Produce") for broker in brokers) - before < 60
        for broker in brokers:
            broker.scripts.clear()
        assert (await sent).offset == 1
