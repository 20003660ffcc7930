from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.client.scripted import Drop
from tests.unit.client.stage import Stage, play
from tidelog import errors
from tidelog._speed.crc32c import crc32c
from tidelog.client.consumer.consumer import Consumer
from tidelog.client.consumer.fetch.assigned_partition import Record
from tidelog.client.errors import ClientClosed, Unreachable
from tidelog.record import BatchBuilder, Codec, EndMarker, Marker, build_marker
from tidelog.schema.serializer import Json, SerializationError
from tidelog.testing import seeds
from tidelog.types import TopicPartition
from tidelog.wire.messages.fetch import EpochEndOffset, FetchRequest, FetchTopic
from tidelog.wire.messages.metadata import MetadataRequest

ORDERS = TopicPartition("orders", 0)
FETCH = FetchRequest.API_KEY


def consumer_on(stage: Stage, **options: Any) -> Consumer:
    return Consumer(
        **{
            "bootstrap_servers": "broker1:9092",
            "auto_offset_reset": "earliest",
            "environment": stage.environment,
            **options,
        }
    )


def batch(*values: bytes, codec: Codec = Codec.NONE) -> bytes:
    builder = BatchBuilder()
    for value in values:
        builder.add(b"k", value, 1_000, [("h", b"1")])
    return builder.build(codec=codec)


def fill(stage: Stage, *values: bytes, partition: TopicPartition = ORDERS, per_batch: int = 3) -> None:
    for at in range(0, len(values), per_batch):
        stage.world.logs[partition].write(batch(*values[at : at + per_batch]))
    stage.world.wake()


async def drain(consumer: Consumer, count: int, timeout_ms: int = 60_000) -> list[Record]:
    found: list[Record] = []
    while len(found) < count:
        records = await consumer.poll(timeout_ms)
        assert records, f"only {len(found)} of {count} came"
        found += records
    return found


def test_records_come_in_order_with_everything_that_was_sent() -> None:
    async def scenario(stage: Stage) -> None:
        stage.broker()
        stage.world.create("orders")
        fill(stage, *[b"%d" % at for at in range(10)])
        async with consumer_on(stage) as consumer:
            consumer.assign([ORDERS])
            found = await drain(consumer, 10)
            assert [one.offset for one in found] == list(range(10))
            assert found[4] == Record("orders", 0, 4, 1_000, "create", b"k", b"4", (("h", b"1"),))
            assert await consumer.position(ORDERS) == 10
            assert await consumer.poll(100) == []

    play(scenario)


@pytest.mark.parametrize("codec", list(Codec))
def test_compressed_batches_are_read(codec: Codec) -> None:
    async def scenario(stage: Stage) -> None:
        stage.broker()
        stage.world.create("orders")
        stage.world.logs[ORDERS].write(batch(b"a" * 100, b"b" * 100, codec=codec))
        async with consumer_on(stage) as consumer:
            consumer.assign([ORDERS])
            assert [one.value for one in await drain(consumer, 2)] == [b"a" * 100, b"b" * 100]

    play(scenario)


def test_poll_returns_at_most_what_is_asked_for_and_loses_nothing() -> None:
    async def scenario(stage: Stage) -> None:
        stage.broker()
        stage.world.create("orders", partitions=3)
        for part in range(3):
            fill(stage, *[b"%d" % at for at in range(10)], partition=TopicPartition("orders", part))
        async with consumer_on(stage, max_poll_records=4) as consumer:
            consumer.assign([TopicPartition("orders", part) for part in range(3)])
            found: list[Record] = []
            while len(found) < 30:
                records = await consumer.poll(1000)
                assert len(records) <= 4
                found += records
                found += await consumer.poll(1000, max_records=1)
            for part in range(3):
                assert [one.offset for one in found if one.partition == part] == list(range(10))

    play(scenario)


def test_a_poll_without_time_gets_ahead_all_the_same() -> None:
    async def scenario(stage: Stage) -> None:
        stage.broker()
        stage.world.create("orders")
        fill(stage, b"a")
        async with consumer_on(stage) as consumer:
            consumer.assign([ORDERS])
            for _ in range(1_000):
                records = await consumer.poll()
                if records:
                    break
                await asyncio.sleep(0.001)
            assert [one.value for one in records] == [b"a"]

    play(scenario)


def test_a_waiting_poll_wakes_up_when_a_record_is_written() -> None:
    async def scenario(stage: Stage) -> None:
        stage.broker()
        stage.world.create("orders")
        async with consumer_on(stage, fetch_max_wait_ms=10_000) as consumer:
            consumer.assign([ORDERS])
            polling = asyncio.ensure_future(consumer.poll(60_000))
            await asyncio.sleep(3)
            start = stage.clock.monotonic_ms()
            fill(stage, b"new")
            assert [one.value for one in await polling] == [b"new"]
            assert stage.clock.monotonic_ms() - start < 20

    play(scenario)


def test_iteration_goes_on_and_on() -> None:
    async def scenario(stage: Stage) -> None:
        stage.broker()
        stage.world.create("orders")
        fill(stage, *[b"%d" % at for at in range(7)])
        async with consumer_on(stage) as consumer:
            consumer.assign([ORDERS])
            found = []
            async for record in consumer:
                found.append(record.offset)
                if record.offset == 6:
                    break
            assert found == list(range(7))

    play(scenario)


def test_control_batches_and_compacted_records_are_passed_over() -> None:
    async def scenario(stage: Stage) -> None:
        stage.broker()
        stage.world.create("orders")
        log = stage.world.logs[ORDERS]
        log.write(batch(b"a", b"b"))
        log.producers[9] = (0, [])
        log.write(build_marker(EndMarker(Marker.COMMIT, 1), producer_id=9, producer_epoch=0, timestamp=1))
        log.write(batch(b"c"), gap=10)
        log.write(build_marker(EndMarker(Marker.ABORT, 1), producer_id=9, producer_epoch=0, timestamp=1))
        async with consumer_on(stage) as consumer:
            consumer.assign([ORDERS])
            found = await drain(consumer, 3)
            assert [(one.offset, one.value) for one in found] == [(0, b"a"), (1, b"b"), (13, b"c")]
            await consumer.poll(50)
            assert await consumer.position(ORDERS) == 15, "past the marker at the end"

    play(scenario)


def test_a_batch_whose_last_records_were_compacted_away_is_passed_whole() -> None:
    async def scenario(stage: Stage) -> None:
        stage.broker()
        stage.world.create("orders")
        data = bytearray(batch(b"a", b"b"))
        data[23:27] = (4).to_bytes(4, "big")  # it once had five records
        data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
        stage.world.logs[ORDERS].write(bytes(data))
        async with consumer_on(stage) as consumer:
            consumer.assign([ORDERS])
            await drain(consumer, 2)
            await consumer.poll(50)
            assert await consumer.position(ORDERS) == 5

    play(scenario)


def test_seeking_starts_in_the_middle_of_a_batch_and_forgets_what_was_fetched() -> None:
    async def scenario(stage: Stage) -> None:
        stage.broker()
        stage.world.create("orders")
        fill(stage, *[b"%d" % at for at in range(20)], per_batch=10)
        async with consumer_on(stage) as consumer:
            consumer.assign([ORDERS])
            await consumer.poll(1000, max_records=1)
            consumer.seek(ORDERS, 14)
            assert [one.offset for one in await consumer.poll(1000)] == [14, 15, 16, 17, 18, 19]
            consumer.seek_to_beginning(ORDERS)
            assert (await consumer.poll(1000))[0].offset == 0
            consumer.seek_to_end()
            assert await consumer.position(ORDERS) == 20
            fill(stage, b"new")
            assert [one.offset for one in await consumer.poll(1000)] == [20]

    play(scenario)


def test_a_seek_while_a_fetch_is_under_way_wins() -> None:
    async def scenario(stage: Stage) -> None:
        broker = stage.broker()
        stage.world.create("orders")
        fill(stage, *[b"%d" % at for at in range(20)])

        async def slow(_: Any) -> None:
            await asyncio.sleep(0.5)

        broker.scripts[FETCH] = slow
        async with consumer_on(stage) as consumer:
            consumer.assign([ORDERS])
            consumer.seek(ORDERS, 15)
            assert await consumer.poll(100) == []
            consumer.seek(ORDERS, 10)
            assert (await consumer.poll(5_000))[0].offset == 10

    play(scenario)


def test_a_paused_partition_is_silent_until_resumed() -> None:
    async def scenario(stage: Stage) -> None:
        stage.broker()
        stage.world.create("orders", partitions=2)
        other = TopicPartition("orders", 1)
        fill(stage, b"a")
        fill(stage, b"b", partition=other)
        async with consumer_on(stage) as consumer:
            consumer.assign([ORDERS, other])
            consumer.pause(ORDERS)
            assert [one.value for one in await drain(consumer, 1)] == [b"b"]
            assert await consumer.poll(2_000) == []
            consumer.resume(ORDERS)
            assert [one.value for one in await drain(consumer, 1)] == [b"a"]

    play(scenario)


def test_assigning_anew_keeps_positions_of_what_stays() -> None:
    async def scenario(stage: Stage) -> None:
        stage.broker()
        stage.world.create("orders", partitions=2)
        other = TopicPartition("orders", 1)
        fill(stage, b"a", b"b")
        async with consumer_on(stage) as consumer:
            consumer.assign([ORDERS])
            await drain(consumer, 2)
            consumer.assign([ORDERS, other])
            assert consumer.assignment() == {ORDERS, other}
            fill(stage, b"c", partition=other)
            assert [one.value for one in await drain(consumer, 1)] == [b"c"]
            consumer.assign([other])
            with pytest.raises(ValueError, match="orders-0 is not assigned"):
                consumer.seek(ORDERS, 0)

    play(scenario)


# Offsets that are not there


@pytest.mark.parametrize(("reset", "first"), [("earliest", b"5"), ("latest", b"new")])
def test_an_offset_below_the_log_goes_where_the_reset_says(reset: str, first: bytes) -> None:
    async def scenario(stage: Stage) -> None:
        stage.broker()
        stage.world.create("orders")
        fill(stage, *[b"%d" % at for at in range(10)], per_batch=1)
        stage.world.logs[ORDERS].start = 5
        async with consumer_on(stage, auto_offset_reset=reset) as consumer:
            consumer.assign([ORDERS])
            consumer.seek(ORDERS, 2)
            polling = asyncio.ensure_future(consumer.poll(10_000))
            await asyncio.sleep(1)
            fill(stage, b"new")
            assert (await polling)[0].value == first

    play(scenario)


def test_without_a_reset_an_offset_out_of_range_is_an_error_once_per_poll() -> None:
    async def scenario(stage: Stage) -> None:
        stage.broker()
        stage.world.create("orders")
        fill(stage, b"a")
        async with consumer_on(stage, auto_offset_reset="none") as consumer:
            consumer.assign([ORDERS])
            with pytest.raises(errors.OffsetOutOfRange, match="orders-0 has no position"):
                await consumer.poll(1000)
            consumer.seek(ORDERS, 77)
            for _ in range(2):
                with pytest.raises(errors.OffsetOutOfRange, match="offset 77 of orders-0"):
                    await consumer.poll(1000)
            consumer.seek(ORDERS, 0)
            assert [one.value for one in await consumer.poll(1000)] == [b"a"]

    play(scenario)


def test_an_unknown_topic_or_partition_is_an_error_at_once() -> None:
    async def scenario(stage: Stage) -> None:
        stage.broker()
        stage.world.create("orders")
        async with consumer_on(stage) as consumer:
            start = stage.clock.monotonic_ms()
            with pytest.raises(errors.UnknownTopicOrPartition, match="no topic 'nope'"):
                await consumer.partitions_for("nope")
            consumer.assign([TopicPartition("orders", 3)])
            with pytest.raises(errors.UnknownTopicOrPartition, match="has no partition 3: it has 0 to 0"):
                await consumer.poll(10_000)
            assert stage.clock.monotonic_ms() - start < 1_000

    play(scenario)


# Failures


@pytest.mark.parametrize("seed", seeds(15))
def test_everything_is_read_once_through_broken_connections_and_new_leaders(seed: int) -> None:
    async def scenario(stage: Stage) -> None:
        brokers = [stage.broker(1), stage.broker(2)]
        stage.world.create("orders", partitions=3)
        random = stage.random

        async def trouble(_: Any) -> int | None:
            kind = random.random()
            if kind < 0.15:
                raise Drop
            if kind < 0.25:
                return random.choice(
                    [
                        errors.NotLeaderOrFollower.code,
                        errors.KafkaStorageError.code,
                        errors.UnknownTopicId.code,
                    ]
                )
            if kind < 0.4:
                stage.world.lead(TopicPartition("orders", random.randrange(3)), random.choice([1, 2]))
            return None

        for broker in brokers:
            broker.scripts[FETCH] = trouble
        async with consumer_on(stage, max_partition_fetch_bytes=400, retry_backoff_ms=5) as consumer:
            consumer.assign([TopicPartition("orders", part) for part in range(3)])
            found: list[Record] = []
            for at in range(40):
                where = TopicPartition("orders", at % 3)
                fill(stage, b"%d" % at, b"%d+" % at, partition=where)
                if random.random() < 0.3:
                    found += await consumer.poll(random.randrange(50))
            while len(found) < 80:
                records = await consumer.poll(60_000)
                assert records
                found += records
        for part in range(3):
            offsets = [one.offset for one in found if one.partition == part]
            assert offsets == list(range(stage.world.logs[TopicPartition("orders", part)].end))

    play(scenario, seed)


def test_a_bad_batch_is_an_error_that_names_the_place_and_can_be_passed() -> None:
    async def scenario(stage: Stage) -> None:
        stage.broker()
        stage.world.create("orders")
        fill(stage, b"a", b"b", b"c", b"d", b"e", b"f")
        log = stage.world.logs[ORDERS]
        bad = bytearray(log.batches[1].data)
        bad[-1] ^= 1
        log.batches[1] = log.batches[1]._replace(data=bytes(bad))
        fill(stage, b"g")
        async with consumer_on(stage) as consumer:
            consumer.assign([ORDERS])
            assert [one.value for one in await consumer.poll(1000)] == [b"a", b"b", b"c"]
            for _ in range(2):
                with pytest.raises(errors.CorruptMessage, match=r"orders-0 at offset 3: .*; seek past it"):
                    await consumer.poll(1000)
            consumer.seek(ORDERS, 6)
            assert [one.value for one in await consumer.poll(1000)] == [b"g"]

    play(scenario)


def test_checksums_are_not_looked_at_when_nobody_wants_that() -> None:
    async def scenario(stage: Stage) -> None:
        stage.broker()
        stage.world.create("orders")
        fill(stage, b"a")
        log = stage.world.logs[ORDERS]
        bad = bytearray(log.batches[0].data)
        bad[17] ^= 1  # of the checksum itself: the rest can be read
        log.batches[0] = log.batches[0]._replace(data=bytes(bad))
        for check in (True, False):
            async with consumer_on(stage, check_crcs=check) as consumer:
                consumer.assign([ORDERS])
                if check:
                    with pytest.raises(errors.CorruptMessage):
                        await consumer.poll(1000)
                else:
                    assert [one.value for one in await consumer.poll(1000)] == [b"a"]

    play(scenario)


@pytest.mark.parametrize("bad_first", [True, False])
def test_good_records_of_one_partition_are_not_lost_to_a_bad_batch_of_another(bad_first: bool) -> None:
    async def scenario(stage: Stage) -> None:
        stage.broker()
        stage.world.create("orders", partitions=2)
        other = TopicPartition("orders", 1)
        fill(stage, b"a", b"b")
        fill(stage, b"c", partition=other)
        log = stage.world.logs[ORDERS]
        log.batches[0] = log.batches[0]._replace(data=log.batches[0].data[:-1] + b"\xff")
        async with consumer_on(stage) as consumer:
            consumer.assign([ORDERS, other] if bad_first else [other, ORDERS])
            await asyncio.sleep(1)
            found, problems = [], []
            for _ in range(4):
                try:
                    found += [one.value for one in await consumer.poll(100)]
                except errors.CorruptMessage as problem:
                    problems.append(problem)
            assert found == [b"c"] and problems

    play(scenario)


def test_a_broker_that_stays_away_is_an_error_after_the_request_timeout() -> None:
    async def scenario(stage: Stage) -> None:
        broker = stage.broker()
        stage.world.create("orders")
        fill(stage, b"a")
        async with consumer_on(stage, request_timeout_ms=5_000) as consumer:
            consumer.assign([ORDERS])
            await drain(consumer, 1)
            broker.stop()
            start = stage.clock.monotonic_ms()
            with pytest.raises(Unreachable, match="connection refused"):
                await consumer.poll(600_000)
            assert 5_000 <= stage.clock.monotonic_ms() - start < 8_000
            polling = asyncio.ensure_future(consumer.poll(60_000))
            await asyncio.sleep(2)
            broker.start()
            fill(stage, b"b")
            assert [one.value for one in await polling] == [b"b"]

    play(scenario)


def test_a_broker_frozen_in_the_middle_of_a_fetch_is_left_after_the_timeout() -> None:
    async def scenario(stage: Stage) -> None:
        broker = stage.broker(1)
        stage.broker(2)
        stage.world.create("orders")
        fill(stage, b"a")
        async with consumer_on(
            stage, request_timeout_ms=2_000, bootstrap_servers="broker1:9092,broker2:9092"
        ) as consumer:
            consumer.assign([ORDERS])
            await drain(consumer, 1)
            stage.network.cut("client", "broker1")
            stage.world.lead(ORDERS, 2)
            fill(stage, b"b")
            polling = asyncio.ensure_future(consumer.poll(60_000))
            assert [one.value for one in await polling] == [b"b"]
            stage.network.heal()
            assert broker.node == 1

    play(scenario)


def test_who_is_told_of_another_leader_goes_there_at_once() -> None:
    async def scenario(stage: Stage) -> None:
        stage.world.tells = True
        first = stage.broker(1)
        stage.world.create("orders")
        fill(stage, b"a")
        async with consumer_on(stage, retry_backoff_ms=5_000) as consumer:
            consumer.assign([ORDERS])
            await drain(consumer, 1)
            stage.broker(2)  # not in any answer to Metadata so far
            stage.world.lead(ORDERS, 2)
            start, asked = stage.clock.monotonic_ms(), first.asked.count("Metadata")
            fill(stage, b"b")
            assert [one.value for one in await consumer.poll(60_000)] == [b"b"]
            assert stage.clock.monotonic_ms() - start < 1_000
            assert first.asked.count("Metadata") == asked

    play(scenario)


def test_an_older_broker_without_topic_ids_gets_names() -> None:
    async def scenario(stage: Stage) -> None:
        broker = stage.broker()
        broker.served[MetadataRequest] = (0, 9)
        stage.world.create("orders")
        fill(stage, b"a")
        async with consumer_on(stage) as consumer:
            consumer.assign([ORDERS])
            await drain(consumer, 1)
        assert ("Fetch", 12) in broker.versions

    play(scenario)


def test_a_closed_consumer_says_so() -> None:
    async def scenario(stage: Stage) -> None:
        stage.broker()
        consumer = consumer_on(stage)
        with pytest.raises(ClientClosed, match="not started"):
            await consumer.poll()
        await consumer.start()
        await consumer.close()
        with pytest.raises(ClientClosed, match="make a new one"):
            await consumer.poll()

    play(scenario)


def test_closing_ends_a_poll_that_waits() -> None:
    async def scenario(stage: Stage) -> None:
        stage.broker()
        stage.world.create("orders")
        consumer = consumer_on(stage)
        await consumer.start()
        consumer.assign([ORDERS])
        polling = asyncio.ensure_future(consumer.poll(3_600_000))
        await asyncio.sleep(1)
        start = stage.clock.monotonic_ms()
        await consumer.close()
        with pytest.raises(ClientClosed):
            await polling
        assert stage.clock.monotonic_ms() - start < 1_000

    play(scenario)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"auto_offset_reset": "first"}, "auto_offset_reset cannot be 'first'"),
        ({"auto_offset_reset": -5}, "auto_offset_reset cannot be -5"),
        ({"max_poll_records": 0}, "max_poll_records cannot be 0"),
        ({"fetch_max_wait_ms": -1}, "fetch_max_wait_ms cannot be -1"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Consumer(**options)


def test_values_are_deserialized_and_null_stays_null() -> None:
    async def scenario(stage: Stage) -> None:
        stage.broker()
        stage.world.create("orders")
        builder = BatchBuilder()
        builder.add(b"k", b'{"a": 1}', 1_000)
        builder.add(b"k", None, 1_000)
        stage.world.logs[ORDERS].write(builder.build())
        async with consumer_on(
            stage, key_deserializer=lambda data: data.decode(), value_deserializer=Json()
        ) as consumer:
            consumer.assign([ORDERS])
            assert [(one.key, one.value) for one in await drain(consumer, 2)] == [
                ("k", {"a": 1}),
                ("k", None),
            ]

    play(scenario)


def test_a_record_that_cannot_be_deserialized_is_met_again_until_it_is_passed() -> None:
    async def scenario(stage: Stage) -> None:
        stage.broker()
        stage.world.create("orders")
        fill(stage, b"1", b"2", b"x", b"4")
        async with consumer_on(stage, value_deserializer=int) as consumer:
            consumer.assign([ORDERS])
            assert [one.value for one in await consumer.poll(1_000)] == [1, 2]
            for _ in range(2):
                with pytest.raises(SerializationError, match=r"orders-0 at offset 2: .*seek past it"):
                    await consumer.poll(1_000)
            consumer.seek(ORDERS, 3)
            assert [one.value for one in await consumer.poll(1_000)] == [4]

    play(scenario)


def test_a_log_that_was_cut_below_the_position_is_read_on_where_it_parts() -> None:
    async def scenario(stage: Stage) -> None:
        broker = stage.broker()
        stage.world.create("orders")
        fill(stage, b"a", b"b", b"c", b"d")
        cut = False

        async def diverge(answer: Any) -> None:
            nonlocal cut
            if not cut and asked[-1].topics and asked[-1].topics[0].partitions[0].last_fetched_epoch == 0:
                cut = True
                part = answer.responses[0].partitions[0]
                part.diverging_epoch, part.records = EpochEndOffset(0, 2), b""

        asked: list[Any] = []

        async def note(request: Any) -> int | None:
            asked.append(request)
            return None

        broker.scripts[FETCH], broker.after[FETCH] = note, diverge
        async with consumer_on(stage) as consumer:
            consumer.assign([ORDERS])
            assert [one.offset for one in await drain(consumer, 4)] == [0, 1, 2, 3]
            fill(stage, b"e")
            assert [one.offset for one in await drain(consumer, 3)] == [2, 3, 4]
        cut = False
        async with consumer_on(stage, auto_offset_reset="none") as consumer:
            consumer.assign([ORDERS])
            consumer.seek(ORDERS, 0)
            await drain(consumer, 5)
            fill(stage, b"f")
            with pytest.raises(errors.OffsetOutOfRange, match="was cut at 2, below the position 5"):
                await consumer.poll(5_000)

    play(scenario)


def test_a_replica_nearby_is_read_when_the_leader_names_it() -> None:
    async def scenario(stage: Stage) -> None:
        leader, near = stage.broker(1), stage.broker(2)
        stage.world.create("orders")
        fill(stage, b"a")
        racks: list[str] = []

        async def name_it(answer: Any) -> None:
            for topic in answer.responses:
                for part in topic.partitions:
                    part.preferred_read_replica, part.records = 2, b""

        async def note(request: Any) -> int | None:
            racks.append(request.rack_id)
            return None

        leader.scripts[FETCH], leader.after[FETCH] = note, name_it
        near._led = lambda where: 0  # type: ignore[method-assign]
        async with consumer_on(stage, client_rack="east") as consumer:
            consumer.assign([ORDERS])
            assert [one.value for one in await drain(consumer, 1)] == [b"a"]
            assert racks == ["east"] and "Fetch" in near.asked

    play(scenario)


def test_fetch_sessions_name_only_what_changed() -> None:
    async def scenario(stage: Stage) -> None:
        broker = stage.broker()
        stage.world.create("orders", partitions=3)
        sessions: list[tuple[int, int, int]] = []
        remembered: dict[Any, Any] = {}

        async def session(request: Any) -> int | None:
            sessions.append(
                (request.session_id, request.session_epoch, sum(len(t.partitions) for t in request.topics))
            )
            if request.session_epoch == 0:
                remembered.clear()
            for topic in request.topics:
                for part in topic.partitions:
                    remembered[topic.topic_id, part.partition] = part
            request.topics = [FetchTopic("", topic_id, [part]) for (topic_id, _), part in remembered.items()]
            return None

        async def begin(answer: Any) -> None:
            answer.session_id = 7

        broker.scripts[FETCH], broker.after[FETCH] = session, begin
        async with consumer_on(stage, fetch_max_wait_ms=10) as consumer:
            consumer.assign([TopicPartition("orders", part) for part in range(3)])
            assert await consumer.poll(200) == []
            fill(stage, b"a", partition=TopicPartition("orders", 1))
            assert [one.value for one in await drain(consumer, 1)] == [b"a"]
            assert await consumer.poll(200) == []
        assert sessions[0] == (0, 0, 3)
        assert [one[1] for one in sessions] == list(range(len(sessions)))
        assert [one[2] for one in sessions[1:]].count(1) == 1 and max(one[2] for one in sessions[1:]) == 1

    play(scenario)


@pytest.mark.parametrize(
    ("partitions", "told", "asked"),
    [(1, None, 4 << 20), (10, None, (32 << 20) // 10), (100, None, 1 << 20), (1, 1 << 20, 1 << 20)],
)
def test_few_partitions_bring_more_at_a_time_unless_told_otherwise(
    partitions: int, told: int | None, asked: int
) -> None:
    async def scenario(stage: Stage) -> None:
        broker, sizes = stage.broker(), []
        stage.world.create("orders", partitions)

        async def look(request: FetchRequest) -> None:
            sizes.extend(part.partition_max_bytes for topic in request.topics for part in topic.partitions)

        broker.scripts[FETCH] = look
        fill(stage, b"x")
        async with consumer_on(stage, max_partition_fetch_bytes=told) as consumer:
            consumer.assign([TopicPartition("orders", at) for at in range(partitions)])
            await consumer.poll(60_000)
        assert set(sizes) == {asked}

    play(scenario)
