"""Elections and ISR changes, each counted by one broker of the cluster."""

from __future__ import annotations

from uuid import UUID

from tidelog.metadata.image.changes import Update
from tidelog.metadata.image.image import Image, PartitionImage, TopicImage
from tidelog.metadata.image.sharded_map import ShardedMap
from tidelog.metadata.isr_and_election_counts import IsrAndElectionCounts
from tidelog.types import NodeId

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def image(leader: NodeId | None, in_sync: tuple[NodeId, ...], controller: NodeId = THREE) -> Image:
    partition = PartitionImage(0, (ONE, TWO, THREE), leader, 0, in_sync, 0, 1)
    topic = TopicImage("orders", UUID(int=1), (partition,), 1)
    return Image(controller=controller, topics=ShardedMap([("orders", topic)]))


def counted(node: NodeId, before: Image, after: Image) -> tuple[int, int, int, int]:
    shifts = IsrAndElectionCounts(node)
    shifts.applied(Update(before, after, ("orders",), (), False, False))
    return shifts.shrinks, shifts.expands, shifts.elections, shifts.unclean_elections


def test_the_leader_tells_who_left_and_who_joined() -> None:
    all_three, two = image(ONE, (ONE, TWO, THREE)), image(ONE, (ONE, TWO))
    assert counted(ONE, all_three, two) == (1, 0, 0, 0)
    assert counted(ONE, two, all_three) == (0, 1, 0, 0)
    assert counted(TWO, all_three, two) == (0, 0, 0, 0)


def test_the_controller_tells_of_elections() -> None:
    before, after = image(ONE, (ONE, TWO)), image(TWO, (TWO,))
    assert counted(THREE, before, after) == (0, 0, 1, 0)
    assert counted(TWO, before, after) == (1, 0, 0, 0)


def test_a_leader_that_was_not_in_sync_is_unclean() -> None:
    assert counted(THREE, image(None, (ONE,)), image(TWO, (TWO,))) == (0, 0, 1, 1)


def test_no_leader_is_no_election() -> None:
    assert counted(THREE, image(ONE, (ONE,)), image(None, (ONE,))) == (0, 0, 0, 0)
