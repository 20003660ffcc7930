"""A leader's change of the ISR when the store's answers are lost, or when the follower has restarted meanwhile."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tests.unit.metadata.cluster import NODE, Node
from tidelog.metadata.doubts import ReplicaCondition
from tidelog.metadata.in_sync_changes import InSyncChange, Joining
from tidelog.metadata.records import Cause, PartitionRecord, put_partition
from tidelog.metadata.store import Compare, Operation, Unanswered
from tidelog.metadata.topics.plans import TopicSpec
from tidelog.metadata.unclean_restart import report
from tidelog.types import NodeId, TopicPartition

pytestmark = pytest.mark.simulated

NAME, TWO = TopicPartition("a", 0), NodeId(2)


async def led_alone(random: Random) -> tuple[Node, InSyncChange]:
    """Broker 1 leads a partition alone, and wants broker 2 to join."""
    node = await Node.start(random)
    follower = await node.join(TWO)
    await node.controller.create_topics([TopicSpec("a", -1, -1, {0: [1, 2]})])
    topic = node.controller.image.topics["a"]
    alone = put_partition(topic.id, 0, PartitionRecord(NODE, 0, (NODE,), 1))
    revision = await node.store.txn((), [alone])
    assert revision is not None
    await node.controller.reached(revision)
    return node, InSyncChange(NAME, topic.id, 0, 1, joining=Joining(TWO, follower.epoch))


def in_sync(node: Node) -> tuple[NodeId, ...]:
    partition = node.controller.image.partition(*NAME)
    assert partition is not None
    return partition.in_sync


async def test_a_retry_returns_only_when_what_was_stored_without_an_answer_is_applied(random: Random) -> None:
    node, change = await led_alone(random)
    txn, applied = node.store.txn, asyncio.Event()

    async def unanswered(compare: list[Compare], then: list[Operation]) -> int | None:
        await txn(compare, then)
        raise Unanswered("no answer")

    node._following.cancel()
    node.store.txn = unanswered  # type: ignore[assignment, method-assign]

    async def slowly() -> None:
        async for _ in node.controller.follow():
            await applied.wait()

    following = asyncio.ensure_future(slowly())
    with pytest.raises(Unanswered):
        await node.controller.change_in_sync([change])
    node.store.txn = txn  # type: ignore[method-assign]
    again = asyncio.ensure_future(node.controller.change_in_sync([change]))
    await asyncio.sleep(5)
    assert not again.done() and in_sync(node) == (NODE,)
    applied.set()
    await again
    assert in_sync(node) == (NODE, TWO)
    following.cancel()


async def test_a_broker_that_restarted_in_doubt_does_not_slip_in_with_a_change_under_way(
    random: Random,
) -> None:
    node, change = await led_alone(random)
    in_doubt = ReplicaCondition(Cause.DISK, lambda: (0, 0))
    await report(node.store, TWO, lambda topic, partition: in_doubt, unclean=True, at_risk=True)
    await node.controller.change_in_sync([change])
    assert in_sync(node) == (NODE,)
