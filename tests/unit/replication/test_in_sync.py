from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any, cast
from uuid import UUID

import pytest

from tidelog import errors, testing
from tidelog.metadata.changes import Update
from tidelog.metadata.image import BrokerImage, Image, PartitionImage, TopicImage
from tidelog.metadata.in_sync_changes import InSyncChange
from tidelog.metadata.records import Endpoint, Tail
from tidelog.replication.in_sync import InSync
from tidelog.types import NodeId, TopicPartition

pytestmark = pytest.mark.simulated

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
NAME = TopicPartition("a", 0)


def image(leader_epoch: int, doubts: tuple[Tail, ...]) -> Image:
    replicas = (ONE, TWO, THREE)
    partition = PartitionImage(0, replicas, ONE, leader_epoch, replicas, leader_epoch, 7, doubts)
    brokers = {
        node: BrokerImage(node, 1, (Endpoint("PLAINTEXT", "host", 1),), None, False) for node in replicas
    }
    return Image(brokers=brokers, topics={"a": TopicImage("a", UUID(int=1), (partition,), 7)})


class NoPartitions:
    def __init__(self) -> None:
        self.held: dict[TopicPartition, Any] = {}


class AwayAtFirst:
    """The store does not answer the first request."""

    def __init__(self) -> None:
        self.image = Image()
        self.asked: list[InSyncChange] = []

    async def change_in_sync(self, changes: Sequence[InSyncChange]) -> None:
        self.asked += changes
        if len(self.asked) == 1:
            raise errors.RequestTimedOut("the store is away")
        self.image = image(2, ())

    def becomes(self, in_sync: InSync, leader_epoch: int) -> None:
        before, self.image = self.image, image(leader_epoch, (Tail(TWO, 0, 10),))
        in_sync.learned(Update(before, self.image, ("a",), (), False, False, ()))


async def test_a_change_that_was_not_answered_does_not_stand_in_the_way_of_the_next_epochs(
    random: Random,
) -> None:
    metadata = AwayAtFirst()
    in_sync = InSync(
        ONE,
        cast(Any, NoPartitions()),
        metadata,
        testing.VirtualClock(),
        lag_ms_max=lambda: 3_000,
        in_sync_min=lambda topic: 2,
    )
    metadata.becomes(in_sync, 0)
    await asyncio.sleep(0.1)
    metadata.becomes(in_sync, 2)  # another broker led meanwhile
    await asyncio.sleep(5)
    assert [change.leader_epoch for change in metadata.asked] == [0, 2]
