"""What the simulator found, each as the shortest run that shows it."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tests.simulation.readers import read_all
from tests.simulation.world import REQUEST_TIMEOUT_MS, World
from tidelog._speed.log.records import Record
from tidelog.errors import NONE, KafkaStorageError, OutOfOrderSequenceNumber, TidelogError
from tidelog.net.requester import Requester
from tidelog.record.builder import build_batch
from tidelog.types import TopicPartition
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

pytestmark = pytest.mark.simulated

NAME = TopicPartition("topic", 0)
TINY = {"segment.index.bytes": "24", "index.interval.bytes": "0"}  # two batches to a segment


def batch(sequence: int, producer_id: int = 7) -> bytes:
    record = Record(0, 1_750_000_000_000, b"key", b"value-%d" % sequence)
    return build_batch([record], producer_id=producer_id, producer_epoch=0, base_sequence=sequence)


def submit(requester: Requester, data: bytes) -> asyncio.Future[ProduceResponse]:
    part = PartitionProduceData(index=NAME.partition, records=data)
    topic = TopicProduceData(name=NAME.topic, partition_data=[part])
    request = ProduceRequest(acks=-1, timeout_ms=REQUEST_TIMEOUT_MS, topic_data=[topic])
    return requester.submit(request, ProduceResponse, version=9)


async def produce(requester: Requester, data: bytes) -> PartitionProduceResponse:
    return (await submit(requester, data)).responses[0].partition_responses[0]


def code_of(answer: ProduceResponse) -> int:
    return answer.responses[0].partition_responses[0].error_code


async def test_a_kill_between_a_roll_and_the_writes_before_it_leaves_no_hole(random: Random) -> None:
    world = World(random)
    await world.start()
    await world.create_topic(NAME.topic, 1, {**TINY, "flush.messages": "1"})
    requester = await world.connect("producer")
    assert (await produce(requester, batch(0))).error_code == NONE
    world.machine.disk.run_delay_s_max = 60  # the next writes wait in the disk's queue, rolls do not
    waiting = [submit(requester, batch(sequence)) for sequence in range(1, 6)]
    await asyncio.sleep(0.5)
    assert not any(each.done() for each in waiting)
    world.kill()
    world.machine.disk.run_delay_s_max = 0
    world.machine.restart()
    await world.start()
    found = await read_all(world, random, NAME)
    assert (found.start, found.end) == (0, 1)


@pytest.mark.parametrize("seed", range(5))
async def test_what_a_failed_sync_left_behind_is_written_again_after_a_restart(
    random: Random, seed: int
) -> None:
    world = World(random)
    await world.start()
    await world.create_topic(NAME.topic, 1, {"flush.messages": "3"})
    requester = await world.connect("producer")
    for sequence in (0, 1):
        assert (await produce(requester, batch(sequence))).error_code == NONE
    world.machine.disk.fail("sync", "*.log")
    assert (await produce(requester, batch(2))).error_code == KafkaStorageError.code
    world.kill()
    world.machine.restart()
    await world.start()
    requester = await world.connect("producer")
    for sequence in (2, 3):
        answer = await produce(requester, batch(sequence))
        assert (answer.error_code, answer.base_offset) == (NONE, sequence)
    await world.stop()
    world.lose_power()
    world.machine.restart()
    await world.start()
    found = await read_all(world, random, NAME)
    assert [value for _, value in found.records] == [b"value-%d" % number for number in range(4)]


@pytest.mark.parametrize(
    ("settings", "answer"),
    # A batch that was refused before it was appended answers for those behind it; a failed sync leaves a gap.
    [({}, KafkaStorageError), ({"flush.messages": "1"}, OutOfOrderSequenceNumber)],
    ids=["cached", "synced"],
)
async def test_behind_a_first_batch_that_found_no_space_nothing_is_taken_out_of_order(
    random: Random, settings: dict[str, str], answer: type[TidelogError]
) -> None:
    world = World(random)
    await world.start()
    await world.create_topic(NAME.topic, 1, settings)
    requester = await world.connect("producer")
    await produce(requester, batch(0, producer_id=1))
    world.machine.disk.limit_free(0)
    first = submit(requester, batch(0))
    assert code_of(await first) == KafkaStorageError.code
    world.machine.disk.limit_free(None)
    behind = submit(requester, batch(1))
    assert code_of(await behind) == answer.code
    for sequence in (0, 1):
        assert (await produce(requester, batch(sequence))).error_code == NONE
    found = await read_all(world, random, NAME)
    assert [value for _, value in found.records] == [b"value-0", b"value-0", b"value-1"]


@pytest.mark.parametrize("seed", range(10))
async def test_a_topic_made_again_does_not_inherit_the_checkpoints_of_the_deleted_one(
    random: Random, seed: int
) -> None:
    world = World(random)
    await world.start()
    await world.create_topic(NAME.topic, 1, {})
    requester = await world.connect("producer")
    for sequence in range(10):
        assert (await produce(requester, batch(sequence))).error_code == NONE
    await world.stop()
    world.kill()
    world.machine.restart()
    await world.start()
    assert await world.ask_to_delete(NAME.topic) == NONE
    await world.create_topic(NAME.topic, 1, {})
    requester = await world.connect("producer")
    for sequence in range(5):
        assert (await produce(requester, batch(sequence, producer_id=8))).error_code == NONE
    world.lose_power()
    world.machine.restart()
    await world.start()
    found = await read_all(world, random, NAME)
    assert [value for _, value in found.records] == [b"value-%d" % number for number in range(found.end)]


async def test_a_compacted_log_ends_where_the_power_loss_took_something(random: Random) -> None:
    world = World(random)
    await world.start()
    await world.create_topic(NAME.topic, 1, {**TINY, "flush.messages": "1", "cleanup.policy": "compact"})
    requester = await world.connect("producer")
    for sequence in range(4):
        assert (await produce(requester, batch(sequence))).error_code == NONE
    world.lose_power()
    world.machine.restart()
    disk, folder = world.machine.disk, f"/data/{NAME}"
    segments = sorted(name for name in disk.list(folder) if name.endswith(".log"))
    first, second = f"{folder}/{segments[0]}", f"{folder}/{segments[1]}"
    disk.open(first).truncate(disk.size(first) // 2)
    disk.remove(second.replace(".log", ".snapshot"))
    await world.start()
    found = await read_all(world, random, NAME)
    assert [value for _, value in found.records] == [b"value-0"]
    assert found.end == 1


async def test_compaction_does_not_make_a_restarted_broker_forget_the_last_batches_of_a_producer(
    random: Random,
) -> None:
    world = World(random, {"log.cleaner.backoff.ms": "100"})
    await world.start()
    compact = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    await world.create_topic(NAME.topic, 1, {**TINY, **compact})
    requester = await world.connect("producer")
    for sequence in range(7):
        answer = await produce(requester, batch(sequence))
        assert (answer.error_code, answer.base_offset) == (NONE, sequence)
    await asyncio.sleep(5)
    found = await read_all(world, random, NAME)
    assert len(found.records) < 7, "nothing was compacted"
    world.kill()
    world.machine.restart()
    await world.start()
    requester = await world.connect("producer")
    for sequence in (6, 5, 4, 3, 2):
        answer = await produce(requester, batch(sequence))
        assert (answer.error_code, answer.base_offset) == (NONE, sequence)
    assert (await produce(requester, batch(7))).base_offset == 7


async def test_a_clean_stop_keeps_the_high_watermark(random: Random) -> None:
    world = World(random)
    await world.start()
    await world.create_topic(NAME.topic, 1, {})
    assert (await produce(await world.connect("producer"), batch(0))).error_code == NONE
    await world.stop()
    assert world.machine.disk.files()["/data/replication-offset-checkpoint"].endswith(b"\ntopic 0 1\n")
