from __future__ import annotations

from uuid import UUID

from tidelog.metadata.image.image import BrokerImage, Image, PartitionImage, TopicImage
from tidelog.metadata.image.sharded_map import ShardedMap
from tidelog.metadata.in_sync_changes import InSyncChange, Joining, next_in_sync, out_of_date
from tidelog.metadata.records import PartitionRecord, Replicas, Tail
from tidelog.types import NodeId, TopicPartition

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
ALL = (ONE, TWO, THREE)
NAME, TOPIC_ID = TopicPartition("orders", 0), UUID(int=7)


def led_by_one(in_sync: Replicas = ALL, **more: object) -> PartitionImage:
    return PartitionImage(0, ALL, ONE, 5, in_sync, 9, 77, **more)  # type: ignore[arg-type]


def image(partition: PartitionImage, live: Replicas = ALL, leaving: Replicas = ()) -> Image:
    topic = TopicImage("orders", TOPIC_ID, (partition,), 3)
    brokers = {
        node: BrokerImage(node, 40 + node, (), None, False, node in leaving) for node in (*live, *leaving)
    }
    return Image(brokers=brokers, topics=ShardedMap[str, TopicImage]().changed({"orders": topic}))


def change(in_sync_min: int = 2, **more: object) -> InSyncChange:
    return InSyncChange(NAME, TOPIC_ID, 5, in_sync_min, **more)  # type: ignore[arg-type]


def test_members_that_lag_do_not_run_or_are_in_doubt_leave_together() -> None:
    now = image(led_by_one(), live=(ONE, TWO))
    assert next_in_sync(now, ONE, change(1, lagging=frozenset({TWO}))) == PartitionRecord(ONE, 5, (ONE,), 10)
    doubted = image(led_by_one(doubts=(Tail(TWO, 5, 10),)))
    assert next_in_sync(doubted, ONE, change()) == PartitionRecord(ONE, 5, (ONE, THREE), 10)
    assert next_in_sync(image(led_by_one(), (ONE, THREE), (TWO,)), ONE, change()) == PartitionRecord(
        ONE, 5, (ONE, THREE), 10
    )


def test_members_that_leave_too_small_a_set_stay_eligible_unless_they_are_in_doubt() -> None:
    assert next_in_sync(image(led_by_one((ONE, TWO)), (ONE,)), ONE, change()) == PartitionRecord(
        ONE, 5, (ONE,), 10, eligible=(TWO,)
    )
    doubted = led_by_one((ONE, TWO), doubts=(Tail(TWO, 5, 10),), eligible=(THREE,))
    assert next_in_sync(image(doubted), ONE, change()) == PartitionRecord(
        ONE, 5, (ONE,), 10, eligible=(THREE,)
    )


def test_nobody_outside_of_a_large_enough_set_is_eligible() -> None:
    alone = led_by_one((ONE,), eligible=(TWO, THREE))
    joining = change(joining=Joining(THREE, 43))
    assert next_in_sync(image(alone), ONE, joining) == PartitionRecord(ONE, 5, (ONE, THREE), 10)
    assert not out_of_date(alone, ONE, ALL, 2)
    assert out_of_date(alone, ONE, ALL, 1), "min.insync.replicas was lowered"
    assert next_in_sync(image(alone), ONE, change(1)) == PartitionRecord(ONE, 5, (ONE,), 10)


def test_only_the_process_that_caught_up_joins() -> None:
    alone = led_by_one((ONE,))
    assert next_in_sync(image(alone), ONE, change(1, joining=Joining(TWO, 41))) is None
    assert next_in_sync(image(alone, (ONE,)), ONE, change(1, joining=Joining(TWO, 42))) is None
    assert next_in_sync(image(alone, (ONE,), (TWO,)), ONE, change(1, joining=Joining(TWO, 42))) is None


def test_only_the_leader_of_the_epoch_changes_the_set() -> None:
    lagging = change(lagging=frozenset({THREE}))
    assert next_in_sync(image(led_by_one()), TWO, lagging) is None
    assert next_in_sync(image(led_by_one()._replace(leader_epoch=6)), ONE, lagging) is None
    assert next_in_sync(Image(), ONE, lagging) is None


def test_a_set_that_is_right_stays() -> None:
    assert next_in_sync(image(led_by_one()), ONE, change()) is None
    assert not out_of_date(led_by_one(), ONE, ALL, 2)
