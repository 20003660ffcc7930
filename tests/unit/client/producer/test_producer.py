from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from tests.unit.client.scripted import Drop, ScriptedBroker
from tests.unit.client.stage import Stage, play
from tidelog import errors
from tidelog.client.errors import BufferExhausted, ClientClosed, DeliveryTimedOut, Unreachable
from tidelog.client.producer.batch import RecordMetadata
from tidelog.client.producer.partitioner import murmur2
from tidelog.client.producer.producer import Producer
from tidelog.record import read_batches, read_records
from tidelog.testing import seeds
from tidelog.types import TopicPartition
from tidelog.wire.messages.metadata import MetadataRequest
from tidelog.wire.messages.produce import ProduceRequest

ORDERS = TopicPartition("orders", 0)
PRODUCE = ProduceRequest.API_KEY


def producer_on(stage: Stage, *brokers: ScriptedBroker, **options: Any) -> Producer:
    addresses = [one.address for one in brokers] or ["broker1:9092"]
    return Producer(bootstrap_servers=addresses, environment=stage.environment, **options)


def values(stage: Stage, partition: TopicPartition = ORDERS) -> list[bytes]:
    log = stage.world.logs[partition]
    return [one.value or b"" for batch in log.batches for one in read_records(batch.data)]


def batches(stage: Stage, partition: TopicPartition = ORDERS) -> int:
    return len(stage.world.logs[partition].batches)


def test_a_record_is_acknowledged_with_its_place() -> None:
    async def scenario(stage: Stage) -> None:
        stage.broker()
        stage.world.create("orders")
        async with producer_on(stage) as producer:
            first = await producer.send("orders", b"one", key=b"k", headers=[("h", b"1")], timestamp=42)
            second = await producer.send("orders", None)
            assert await first == RecordMetadata("orders", 0, 0, 42)
            assert (await second).offset == 1
        (one, two) = [
            record for batch in stage.world.logs[ORDERS].batches for record in read_records(batch.data)
        ]
        assert (one.key, one.value, one.timestamp, one.headers) == (b"k", b"one", 42, (("h", b"1"),))
        assert two.value is None and two.timestamp >= stage.clock.now_ms() - 10_000

    play(scenario)


def test_records_sent_together_share_a_batch_and_full_batches_do_not_wait() -> None:
    async def scenario(stage: Stage) -> None:
        stage.broker()
        stage.world.create("orders")
        async with producer_on(stage, linger_ms=1_000, batch_size=1_000) as producer:
            start = stage.clock.monotonic_ms()
            few = [await producer.send("orders", b"x") for _ in range(10)]
            await few[-1]
            assert 1_000 <= stage.clock.monotonic_ms() - start < 1_100
            assert batches(stage) == 1
            start = stage.clock.monotonic_ms()
            many = [await producer.send("orders", b"x" * 90) for _ in range(10)]
            await many[0]
            assert stage.clock.monotonic_ms() - start < 100

    play(scenario)


def test_flush_does_not_wait_for_linger() -> None:
    async def scenario(stage: Stage) -> None:
        stage.broker()
        stage.world.create("orders")
        async with producer_on(stage, linger_ms=60_000) as producer:
            sent = await producer.send("orders", b"x")
            start = stage.clock.monotonic_ms()
            await producer.flush()
            assert sent.done() and stage.clock.monotonic_ms() - start < 100

    play(scenario)


def test_keys_go_where_murmur2_says_and_partitions_can_be_named() -> None:
    async def scenario(stage: Stage) -> None:
        stage.broker()
        stage.world.create("orders", partitions=5)
        async with producer_on(stage) as producer:
            for key in (b"a", b"b", b"c", b"d"):
                sent = await producer.send("orders", b"v", key=key)
                assert (await sent).partition == (murmur2(key) & 0x7FFFFFFF) % 5
            assert (await (await producer.send("orders", b"v", key=b"a", partition=3))).partition == 3
            with pytest.raises(errors.UnknownTopicOrPartition, match="has no partition 5: it has 0 to 4"):
                await producer.send("orders", b"v", partition=5)

    play(scenario)


def test_records_without_a_key_stick_for_a_batch_spread_over_time_and_avoid_what_has_no_leader() -> None:
    async def scenario(stage: Stage) -> None:
        stage.broker()
        stage.world.create("orders", partitions=4)
        stage.world.leaders[TopicPartition("orders", 2)] = (-1, 0)
        async with producer_on(stage, batch_size=1_000) as producer:
            sent = [await producer.send("orders", b"x" * 100) for _ in range(400)]
            where = [(await one).partition for one in sent]
        assert set(where) == {0, 1, 3}
        moves = sum(before != after for before, after in pairwise(where))
        assert 40 <= moves <= 60, "about one for every 1,000 bytes"

    play(scenario)


def test_a_partitioner_of_ones_own_decides() -> None:
    async def scenario(stage: Stage) -> None:
        stage.broker()
        stage.world.create("orders", partitions=3)
        last = producer_on(stage, partitioner=lambda topic, key, count: count - 1)
        async with last as producer:
            assert (await (await producer.send("orders", b"v"))).partition == 2

    play(scenario)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_batches_are_compressed_as_asked(codec: str) -> None:
    async def scenario(stage: Stage) -> None:
        stage.broker()
        stage.world.create("orders")
        async with producer_on(stage, compression_type=codec) as producer:
            for at in range(100):
                await producer.send("orders", b"value %d" % at)
        assert values(stage) == [b"value %d" % at for at in range(100)]
        names = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
        found = [
            one.header.compression
            for batch in stage.world.logs[ORDERS].batches
            for one in read_batches(batch.data)
        ]
        assert {names[one] for one in found} == {codec}

    play(scenario)


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_all_kinds_of_acknowledgement_deliver(acks: int | str) -> None:
    async def scenario(stage: Stage) -> None:
        stage.broker()
        stage.world.create("orders")
        async with producer_on(stage, acks=acks, batch_size=100) as producer:
            sent = [await producer.send("orders", b"%d" % at) for at in range(50)]
            where = [await one for one in sent]
        assert [one.offset for one in where] == ([-1] * 50 if acks == 0 else list(range(50)))
        await stage.clock.advance_ms(100)
        assert values(stage) == [b"%d" % at for at in range(50)]

    play(scenario)


@pytest.mark.parametrize("most", [1, 2, 5])
def test_so_many_requests_are_in_flight_and_no_more(most: int) -> None:
    async def scenario(stage: Stage) -> None:
        broker = stage.broker()
        stage.world.create("orders", partitions=4)
        arrived = 0

        async def count(_: Any) -> None:
            nonlocal arrived
            arrived += 1

        async with producer_on(stage, batch_size=0, max_in_flight_requests=most) as producer:
            for part in range(4):
                await (await producer.send("orders", b"first", partition=part))
            # The broker answers in order, one by one: what it has not read yet is in flight all the same.
            broker.scripts[PRODUCE] = count
            for at in range(8):
                await producer.send("orders", b"x", partition=at % 4)
                await asyncio.sleep(0)
            assert sum(producer._sender._in_flight.values()) == most  # type: ignore[union-attr]
            await producer.flush()
            assert most <= arrived <= 8

    play(scenario)


# Failures


@pytest.mark.parametrize("seed", seeds(12))
@pytest.mark.parametrize("idempotent", [True, False])
def test_order_holds_and_nothing_is_lost_through_broken_connections_and_refusals(
    seed: int, idempotent: bool
) -> None:
    async def scenario(stage: Stage) -> None:
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
            offsets = [one.offset for one in where if one.partition == part]
            assert [written[offset] for offset in offsets] == expected

    play(scenario, seed)


def test_a_broker_that_restarts_is_found_again() -> None:
    async def scenario(stage: Stage) -> None:
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

    play(scenario)


def test_a_batch_the_broker_finds_too_large_is_sent_in_halves() -> None:
    async def scenario(stage: Stage) -> None:
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
            assert all(one.done() for one in sent), "a flush waits for the halves, too"
            results = await asyncio.gather(*sent, return_exceptions=True)
        assert isinstance(results[40], errors.MessageTooLarge), "alone it is too large: halves do not help"
        assert [one[:3] for one in values(stage)] == [*[b"%03d" % at for at in range(40)], b"las"]

    play(scenario)


def test_a_record_larger_than_a_request_is_refused_at_once() -> None:
    async def scenario(stage: Stage) -> None:
        stage.broker()
        stage.world.create("orders")
        async with producer_on(stage, max_request_size=1000) as producer:
            with pytest.raises(errors.MessageTooLarge, match=r"larger than max_request_size .1000."):
                await producer.send("orders", b"x" * 1000)

    play(scenario)


def test_a_record_is_given_up_after_the_delivery_timeout_with_the_reason() -> None:
    async def scenario(stage: Stage) -> None:
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

    play(scenario)


def test_a_silent_broker_does_not_hold_a_record_past_the_delivery_timeout() -> None:
    async def scenario(stage: Stage) -> None:
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

    play(scenario)


def test_retries_end_when_their_number_is_used_up() -> None:
    async def scenario(stage: Stage) -> None:
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

    play(scenario)


def test_waits_between_retries_grow_to_their_most_and_no_further() -> None:
    async def scenario(stage: Stage) -> None:
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

    play(scenario)


def test_an_error_for_good_fails_the_record_and_not_the_next_ones() -> None:
    async def scenario(stage: Stage) -> None:
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

    play(scenario)


# Bounds and ends


def test_a_full_buffer_blocks_then_says_so() -> None:
    async def scenario(stage: Stage) -> None:
        broker = stage.broker()
        stage.world.create("orders")
        async with producer_on(stage, buffer_memory=2_000, max_block_ms=1_000) as producer:
            await (await producer.send("orders", b"x"))
            broker.stop()
            for _ in range(3):
                await producer.send("orders", b"x" * 500)
            start = stage.clock.monotonic_ms()
            with pytest.raises(BufferExhausted):
                await producer.send("orders", b"x" * 500)
            assert stage.clock.monotonic_ms() - start == 1_000
            blocked = asyncio.ensure_future(producer.send("orders", b"x" * 500))
            await stage.loop.settle()
            assert not blocked.done()
            broker.start()
            await (await blocked)
            assert producer._memory.used == 0

    play(scenario)


def test_a_lingering_batch_leaves_early_when_room_is_needed() -> None:
    async def scenario(stage: Stage) -> None:
        stage.broker()
        stage.world.create("orders")
        async with producer_on(stage, buffer_memory=2_000, linger_ms=60_000) as producer:
            start = stage.clock.monotonic_ms()
            for _ in range(20):
                await producer.send("orders", b"x" * 500)
            assert stage.clock.monotonic_ms() - start < 1_000

    play(scenario)


def test_a_value_of_the_wrong_type_takes_no_memory() -> None:
    async def scenario(stage: Stage) -> None:
        stage.broker()
        stage.world.create("orders")
        async with producer_on(stage) as producer:
            with pytest.raises(TypeError):
                await producer.send("orders", "text")  # type: ignore[arg-type]
            assert producer._memory.used == 0

    play(scenario)


def test_a_topic_nobody_creates_is_an_error_after_max_block() -> None:
    async def scenario(stage: Stage) -> None:
        stage.broker()
        async with producer_on(stage, max_block_ms=2_000) as producer:
            start = stage.clock.monotonic_ms()
            with pytest.raises(errors.UnknownTopicOrPartition, match="no topic 'nope' on broker1:9092"):
                await producer.send("nope", b"x")
            assert stage.clock.monotonic_ms() - start == 2_000

    play(scenario)


def test_a_topic_that_appears_while_we_wait_is_used() -> None:
    async def scenario(stage: Stage) -> None:
        stage.broker()
        async with producer_on(stage) as producer:
            sending = asyncio.ensure_future(producer.send("orders", b"x"))
            await asyncio.sleep(3)
            stage.world.create("orders")
            assert (await (await sending)).offset == 0

    play(scenario)


def test_close_delivers_and_closed_producers_say_so() -> None:
    async def scenario(stage: Stage) -> None:
        stage.broker()
        stage.world.create("orders")
        producer = producer_on(stage, linger_ms=60_000)
        with pytest.raises(ClientClosed, match="not started"):
            await producer.send("orders", b"x")
        await producer.start()
        sent = await producer.send("orders", b"x")
        await producer.close()
        await producer.close()
        assert sent.result().offset == 0
        with pytest.raises(ClientClosed, match="closed: make a new one"):
            await producer.send("orders", b"x")

    play(scenario)


def test_close_gives_up_after_its_timeout_and_says_what_is_left() -> None:
    async def scenario(stage: Stage) -> None:
        broker = stage.broker()
        stage.world.create("orders")
        producer = producer_on(stage)
        await producer.start()
        await (await producer.send("orders", b"x"))
        broker.stop()
        sent = [await producer.send("orders", b"x") for _ in range(3)]
        start = stage.clock.monotonic_ms()
        with pytest.raises(DeliveryTimedOut, match="3 records were not delivered within 2 s"):
            await producer.close(timeout=2)
        assert stage.clock.monotonic_ms() - start == 2_000
        for one in sent:
            with pytest.raises(ClientClosed):
                one.result()
        broker.start()

    play(scenario)


def test_an_error_in_the_block_closes_without_waiting() -> None:
    async def scenario(stage: Stage) -> None:
        broker = stage.broker()
        stage.world.create("orders")
        start = stage.clock.monotonic_ms()
        with pytest.raises(ZeroDivisionError):
            async with producer_on(stage) as producer:
                await (await producer.send("orders", b"x"))
                broker.stop()
                sent = await producer.send("orders", b"x")
                raise ZeroDivisionError
        assert isinstance(sent.exception(), ClientClosed)
        assert stage.clock.monotonic_ms() - start < 1_000
        broker.start()

    play(scenario)


def test_nobody_there_is_one_error_at_the_start() -> None:
    async def scenario(stage: Stage) -> None:
        producer = Producer(bootstrap_servers="nowhere:1,client:2,client:3", environment=stage.environment)
        with pytest.raises(Unreachable) as caught:
            await producer.start()
        assert str(caught.value) == (
            "cannot reach any broker: nowhere:1 (connection refused), client:2 (connection refused), "
            "client:3 (connection refused); is one of them running?"
        )

    play(scenario)


def test_the_next_bootstrap_address_is_tried() -> None:
    async def scenario(stage: Stage) -> None:
        stage.broker(2)
        stage.world.create("orders", leader=2)
        async with Producer(
            bootstrap_servers=["nowhere:1", "broker2:9092"], environment=stage.environment
        ) as producer:
            assert (await (await producer.send("orders", b"x"))).offset == 0

    play(scenario)


@pytest.mark.parametrize("tells", [True, False])
def test_who_is_told_of_another_leader_goes_there_at_once(tells: bool) -> None:
    async def scenario(stage: Stage) -> None:
        stage.world.tells = tells
        first = stage.broker(1)
        stage.world.create("orders")
        async with producer_on(stage, first, retry_backoff_ms=5_000, linger_ms=0) as producer:
            await (await producer.send("orders", b"a"))
            second = stage.broker(2)  # not in any answer to Metadata so far
            stage.world.lead(ORDERS, 2)
            start, asked = stage.clock.monotonic_ms(), first.asked.count("Metadata")
            sent = [await producer.send("orders", b"%d" % number) for number in range(5)]
            assert [(await one).offset for one in sent] == [1, 2, 3, 4, 5]
            if tells:
                assert stage.clock.monotonic_ms() - start < 100
                assert first.asked.count("Metadata") + second.asked.count("Metadata") == asked
            else:
                assert first.asked.count("Metadata") + second.asked.count("Metadata") > asked

    play(scenario)


def test_brokers_that_send_one_to_each_other_are_not_asked_all_the_time() -> None:
    """Neither of the two leads, and each one thinks that the other one does."""

    async def scenario(stage: Stage) -> None:
        stage.world.tells = True
        brokers = [stage.broker(1), stage.broker(2)]
        stage.world.create("orders")
        async with producer_on(stage, *brokers, retry_backoff_ms=100, linger_ms=0) as producer:
            await (await producer.send("orders", b"a"))

            async def neither(_: Any) -> int:
                return errors.NotLeaderOrFollower.code

            for one in brokers:
                one.scripts[ProduceRequest.API_KEY] = neither
            before = sum(one.asked.count("Produce") for one in brokers)
            sent = await producer.send("orders", b"b")
            await asyncio.sleep(5)
            assert sum(one.asked.count("Produce") for one in brokers) - before < 60
            for one in brokers:
                one.scripts.clear()
            assert (await sent).offset == 1

    play(scenario)


def test_an_older_broker_without_topic_ids_gets_names() -> None:
    async def scenario(stage: Stage) -> None:
        broker = stage.broker()
        broker.served[MetadataRequest] = (0, 9)
        stage.world.create("orders")
        async with producer_on(stage) as producer:
            assert (await (await producer.send("orders", b"x"))).offset == 0
        assert ("Produce", 12) in broker.versions

    play(scenario)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"acks": 2}, "acks cannot be 2"),
        ({"acks": 1, "enable_idempotence": True}, "needs acks='all'"),
        ({"retries": 0, "enable_idempotence": True}, "needs retries"),
        ({"max_in_flight_requests": 6, "enable_idempotence": True}, "up to 5"),
        ({"linger_ms": -1}, "linger_ms cannot be -1"),
        ({"buffer_memory": 0}, "buffer_memory cannot be 0"),
        ({"request_timeout_ms": 0}, "request_timeout_ms cannot be 0: it must be at least 1"),
        ({"bootstrap_servers": "host:port"}, "not a broker address"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Producer(**options)
