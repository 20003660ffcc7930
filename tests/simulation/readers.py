"""Simulated consumers: one that follows a partition while things happen, one that reads all of it afterwards."""

from __future__ import annotations

import asyncio
from random import Random

from tests.simulation.history import Found, PartitionHistory
from tests.simulation.world import Meeting
from tidelog import errors
from tidelog.net.requester import Requester
from tidelog.record.reader import read_batches
from tidelog.types import TopicPartition
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST, EARLIEST = -1, -2
LAST_VERSION_WITH_NAMES = 12
BYTES_MAX = 1 << 20


class Unreadable(AssertionError):
    """A broker could not give what it has, or had when it was read before."""


async def follow(world: Meeting, random: Random, history: PartitionHistory) -> None:
    """Reads on from somewhere until cancelled, and notes what it was shown."""
    offset = random.randint(0, history.committed)
    while True:
        requester: Requester | None = None
        try:
            requester = await world.connect("reader")
            while requester.broken is None:
                losses = history.power_losses
                answer = await fetch(requester, history.name, offset, random)
                if answer.error_code == errors.OffsetOutOfRange.code:
                    if offset >= history.deleted and not (history.may_have_lost or history.was_cut):
                        raise Unreadable(f"{history.name}: no offset {offset}, up to which was read")
                    offset = history.deleted
                if answer.error_code != errors.NONE:
                    await asyncio.sleep(0.3)
                    if answer.error_code == errors.NotLeaderOrFollower.code:
                        break
                    continue
                history.end_was_told(answer.high_watermark, losses)
                records, offset = records_of(answer, offset)
                for got, value in records:
                    history.was_shown(got, value, losses)
                await asyncio.sleep(random.random() * 0.3)
        except Unreadable:
            # A broker sends files as they are: until it has found what rotted, clients see that the checksum is wrong.
            if not history.may_rot:
                raise
            await asyncio.sleep(0.3)
        except (OSError, errors.TidelogError):
            await asyncio.sleep(random.uniform(0.01, 0.3))
        finally:
            if requester is not None:
                requester.close()


async def read_all(world: Meeting, random: Random, name: TopicPartition, holes: bool = False) -> Found:
    """Every record, by a broker that is up and whose disk works.  `holes`: offsets at the end may be empty."""
    requester = await world.connect("checker")
    try:
        start = await list_offset(requester, name, EARLIEST)
        end = await list_offset(requester, name, LATEST)
        records: list[tuple[int, bytes]] = []
        offset, stopped = start, None
        while offset < end:
            answer = await fetch(requester, name, offset, random)
            if answer.error_code != errors.NONE:
                raise Unreadable(f"{name} at {offset}: {errors.by_code(answer.error_code).__name__}")
            got, on = records_of(answer, offset)
            if on == offset:
                stopped = offset if stopped is None else stopped
                on += 1
            elif stopped is not None:
                raise Unreadable(f"{name}: nothing came from {stopped} on, but something from {offset} on")
            records += got
            offset = on
        if stopped is not None and not holes:
            raise Unreadable(f"{name} ends at {end}, but nothing came from {stopped} on")
        return Found(start, end, records)
    except (OSError, errors.TidelogError) as problem:
        raise Unreadable(f"{name}: the broker gave up on its reader: {problem}") from problem
    finally:
        requester.close()


def records_of(answer: PartitionData, offset: int) -> tuple[list[tuple[int, bytes]], int]:
    """The records from `offset` on, and where to go on."""
    found: list[tuple[int, bytes]] = []
    on = offset
    try:
        for batch in read_batches(answer.records or b""):
            found += [(record.offset, record.value or b"") for record in batch.records()]
            on = batch.header.last_offset + 1
    except errors.CorruptMessage as problem:
        raise Unreadable(f"corrupt bytes were served: {problem}") from None
    return [(at, value) for at, value in found if at >= offset], max(offset, on)


async def list_offset(requester: Requester, name: TopicPartition, when: int) -> int:
    part = ListOffsetsPartition(partition_index=name.partition, timestamp=when)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name.topic, partitions=[part])])
    answer = (await requester.ask(request, ListOffsetsResponse)).topics[0].partitions[0]
    if answer.error_code != errors.NONE:
        raise Unreadable(f"offsets of {name}: {errors.by_code(answer.error_code).__name__}")
    return answer.offset


async def fetch(requester: Requester, name: TopicPartition, offset: int, random: Random) -> PartitionData:
    part = FetchPartition(
        partition=name.partition,
        fetch_offset=offset,
        partition_max_bytes=random.choice((1, 500, 5_000, BYTES_MAX)),
    )
    request = FetchRequest(
        max_wait_ms=random.choice((0, 50, 500)),
        min_bytes=random.choice((1, 1, 1000)),
        max_bytes=BYTES_MAX,
        topics=[FetchTopic(topic=name.topic, partitions=[part])],
    )
    version = random.randint(4, LAST_VERSION_WITH_NAMES)
    answer = await requester.ask(request, FetchResponse, version=version)
    return answer.responses[0].partitions[0]
