"""Produce requests through the native shortcut and without it: the same answers, the same bytes, the same state."""

from __future__ import annotations

import asyncio
import errno
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from tests.property.broker.inside import TOPICS, Inside, broker_inside
from tests.property.broker.requests import bent
from tidelog.broker.routes import PRODUCE
from tidelog.errors import TidelogError
from tidelog.record import BatchBuilder
from tidelog.record.codecs import Codec
from tidelog.testing import run, seeds
from tidelog.types import Epoch, NodeId, Offset
from tidelog.wire.frame import RequestHeader, encode_request
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

REQUESTS = 400
NOW_MS = 1_700_000_000_000
SEQUENCE_MAX = (1 << 31) - 1
OTHER = NodeId(2)


@dataclass
class Client:
    """Sends what real producers send, and now and then something else."""

    random: Random
    inside: Inside
    sent: int = 0  # a producer that lost a batch is stuck: others take its place
    next_sequence: dict[tuple[int, str, int], int] = field(default_factory=dict)

    def request(self) -> bytes:
        random = self.random
        self.sent += 1
        version = random.choice([3, 7, 8, 9, 12, 13, 13])
        topics = [self.topic(version) for _ in range(random.choice([1] * 30 + [0, 2]))]
        acks = random.choice([-1] * 12 + [1, 1, 1, 0, 0, 2])
        transaction = random.choice([None] * 50 + ["payments"])
        request = ProduceRequest(transaction, acks, random.choice([1000, 1000, 0, 1, 3]), topics)
        header = RequestHeader(
            PRODUCE, version, random.randrange(1 << 31), random.choice([None, "", "c", "ü"])
        )
        frame = encode_request(header, request.encode(version))[4:]
        return frame if random.random() < 0.95 else frame[:8] + bent(random, frame[8:])

    def topic(self, version: int) -> TopicProduceData:
        random = self.random
        name = random.choice(["orders"] * 8 + ["synced"] * 5 + list(TOPICS))
        parts = []
        for _ in range(random.choice([1] * 30 + [0, 2])):
            index = random.choice([0] * 8 + [1] * 6 + [7])
            parts.append(PartitionProduceData(index, self.batch(name, index)))
        if version < 13:
            return TopicProduceData(name, partition_data=parts)
        return TopicProduceData(
            topic_id=self.inside.known.ids[list(TOPICS).index(name)], partition_data=parts
        )

    def batch(self, topic: str, index: int) -> bytes:
        random = self.random
        builder = BatchBuilder()
        count = random.choice([1, 1, 1, 2, 5])
        for _ in range(count):
            builder.add(
                b"key", b"v" * random.choice([0] * 5 + [100] * 9 + [900, 5000]), NOW_MS + random.randrange(99)
            )
        codec = random.choice([Codec.NONE] * 4 + [Codec.GZIP, Codec.ZSTD])
        producer = random.choice([-1, -1, *range(self.sent // 50, self.sent // 50 + 2)])
        if producer < 0:
            return builder.build(codec=codec)
        key = producer, topic, index
        sequence = self.next_sequence.get(key, random.choice([0, SEQUENCE_MAX - 2]))
        trouble = random.random()
        if trouble < 0.04:
            sequence = max(0, sequence - random.randrange(3))
        elif trouble < 0.06:
            sequence += 1
        else:
            self.next_sequence[key] = (sequence + count) & SEQUENCE_MAX
        epoch = 0 if trouble < 0.99 else 1
        return builder.build(
            codec=codec,
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=sequence & SEQUENCE_MAX,
            transactional=random.random() < 0.02,
        )


async def played(whole: Random, seed: int, shortcut: bool, trouble: bool) -> tuple[list[Any], int]:
    """All that there is to be seen of a broker, and how often the shortcut answered."""
    seen: list[Any] = []
    taken = 0

    async def exchange(inside: Inside, frame: bytes) -> bytes | str | None:
        nonlocal taken
        answer = await inside.ask_shortcut(frame) if shortcut else None
        if answer is None:
            try:
                return await inside.ask(frame)
            except TidelogError as refused:  # the connection is closed
                return refused.name
        taken += 1
        return answer or None

    async with broker_inside(whole) as inside:
        random = Random(seed)
        inside.disk.run_delay_s_max = 0.002
        others = asyncio.create_task(replicate(Random(seed), inside))
        client = Client(random, inside)
        while client.sent < REQUESTS:
            if trouble and random.random() < 0.04:
                strike(random, inside)
            burst = [client.request() for _ in range(random.choice([1, 1, 2, 7]))]
            seen.append(await asyncio.gather(*(exchange(inside, frame) for frame in burst)))
            seen.extend(state_of(inside))
        others.cancel()
        files = inside.disk.files()
        seen.append({path: files[path] for path in sorted(files) if path.endswith(".log")})
    return seen, taken


def play(seed: int, shortcut: bool, trouble: bool) -> tuple[list[Any], int]:
    return run(lambda whole: played(whole, seed, shortcut, trouble), seed)


async def replicate(random: Random, inside: Inside) -> None:
    """Some partitions have a follower now, which comes and goes; the leader does, too."""
    ends: dict[str, int] = {}
    while True:
        await asyncio.sleep(random.random() / 500)
        name = random.choice(["orders", "synced"])
        partition = next(each for each in inside.held() if each.name == (name, 1))
        what, node, epoch = random.randrange(100), inside.node, partition.state.epoch
        if what < 70:
            if partition.leader == node and OTHER in partition.state.in_sync:
                end = random.choice([partition.log.end, partition.log.end, partition.state.committed])
                ends[name] = max(end, ends.get(name, 0))
                partition.follower_fetched(OTHER, Offset(min(ends[name], partition.log.end)), 0)
        elif what < 80:
            in_sync = frozenset(random.choice([(node,), (node, OTHER), (node, OTHER)]))
            partition.led(node, epoch, in_sync, 2)
        elif what < 85:
            partition.led(OTHER, Epoch(epoch + 1), frozenset((node, OTHER)), 2)
        elif what < 90:
            partition.led(node, Epoch(epoch + 1), frozenset((node, OTHER)), 2)
        elif what < 95:
            if partition.state.need(random.choice([1, 1, 2])):
                partition.commit_waits.committed(partition.state.committed)
        else:
            inside.prove_lease(random.random() < 0.7)


def strike(random: Random, inside: Inside) -> None:
    kind = random.randrange(10)
    if kind < 4:
        inside.disk.limit_free(random.randrange(900))
    elif kind < 8:
        inside.disk.limit_free(None)
    else:
        topic = random.choice(["orders", "synced"])
        inside.disk.fail(random.choice(["write", "sync"]), f"*/{topic}-1/*", errno.EIO)


def state_of(inside: Inside) -> list[Any]:
    facts: list[Any] = []
    for partition in inside.held():
        log, segment = partition.log, partition.log.segments.last
        facts.append((partition.name, log.start, log.end, log.next, partition.state.end))
        facts.append((partition.state.committed, log.producers.snapshot(log.end)))
        facts.append((segment.size, segment.end, segment.max_timestamp, segment.max_timestamp_offset))
        facts.append((dict(segment._recent), segment.interval.since))
    return facts


@pytest.mark.parametrize("seed", seeds(10))
@pytest.mark.parametrize("trouble", [False, True])
def test_the_shortcut_does_what_the_handler_does(seed: int, trouble: bool) -> None:
    plain, _ = play(seed, shortcut=False, trouble=trouble)
    short, taken = play(seed, shortcut=True, trouble=trouble)
    for number, (one, other) in enumerate(zip(plain, short, strict=True)):
        assert one == other, f"difference at {number}"
    assert trouble or taken > REQUESTS // 20, "the common case is common"
