"""The controller logs partitions without a leader, once per change."""

from __future__ import annotations

from uuid import uuid4

from tidelog.metadata.elections.leaderless import Leaderless, LeaderlessLog, LeaderlessNotice, leaderless
from tidelog.metadata.image.image import BrokerImage, Image, PartitionImage, TopicImage
from tidelog.metadata.image.sharded_map import ShardedMap
from tidelog.metadata.records import Cause, Endpoint, Tail
from tidelog.types import NodeId, TopicPartition

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
EMPTY = Tail(ONE, -1, -1, Cause.NEW_DIRECTORY)


def partition(
    index: int, leader: NodeId | None, *in_sync: NodeId, doubts: tuple[Tail, ...] = ()
) -> PartitionImage:
    return PartitionImage(index, (ONE, TWO, THREE), leader, 0, in_sync, 0, 0, doubts)


def image(live: tuple[NodeId, ...], **topics: tuple[PartitionImage, ...]) -> Image:
    endpoint = Endpoint("PLAINTEXT", "127.0.0.1", 9092)
    return Image(
        brokers={node: BrokerImage(node, 0, (endpoint,), None, False) for node in live},
        topics=ShardedMap([(name, TopicImage(name, uuid4(), parts, 0)) for name, parts in topics.items()]),
    )


def told(
    waits: LeaderlessLog, now: Image, *names: str, elected: tuple[TopicPartition, ...] = ()
) -> list[str]:
    return [news.text for news in waits.checked(now, names or None, elected)]


def test_a_partition_waits_for_brokers_or_for_an_operator_or_is_about_to_have_a_leader() -> None:
    now = image(
        (ONE, TWO),
        a=(
            partition(0, None, THREE),
            partition(1, None, ONE, doubts=(EMPTY,)),
            partition(2, None, TWO),
            partition(3, ONE, ONE),
        ),
    )
    assert list(leaderless(now.topics.values(), (ONE, TWO))) == [
        Leaderless(TopicPartition("a", 0), (THREE,)),
        Leaderless(TopicPartition("a", 1), ()),
    ]


def test_what_is_waited_for_is_told_once_and_when_it_is_over() -> None:
    waits = LeaderlessLog()
    assert told(waits, image((ONE, TWO), a=(partition(0, ONE, ONE),))) == []
    waiting = image((ONE, TWO), a=(partition(0, None, THREE), partition(1, ONE, ONE)))
    assert told(waits, waiting) == ["1 partition has no leader and waits for broker 3: a-0"]
    assert told(waits, waiting) == []
    assert told(waits, waiting, "a") == []
    more = image((ONE, TWO), a=waiting.topics["a"].partitions, b=(partition(0, None, THREE),))
    assert told(waits, more, "b") == ["2 partitions have no leader and wait for broker 3: a-0, b-0"]
    over = image((ONE, TWO, THREE), a=(partition(0, THREE, THREE),), b=(partition(0, THREE, THREE),))
    assert waits.checked(over, None, ()) == [
        LeaderlessNotice(True, "no partition waits for broker 3 any more")
    ]
    assert waits.checked(over, None, ()) == []


def test_an_operator_is_told_which_command_decides() -> None:
    waits = LeaderlessLog()
    parts = tuple(partition(index, None, ONE, doubts=(EMPTY,)) for index in range(7))
    (text,) = told(waits, image((ONE, TWO), a=parts))
    assert text.startswith("7 partitions have no leader") and "a-0, a-1, a-2, a-3, a-4 and 2 more" in text
    assert text.endswith("see `tidelog partitions recover`")
    assert told(waits, image((ONE, TWO)), "a") == ["no partition needs `tidelog partitions recover` any more"]


def test_a_partition_that_gets_a_leader_in_this_very_moment_is_no_news() -> None:
    name = TopicPartition("a", 0)
    waiting = image((ONE, TWO), a=(partition(0, None, THREE),))
    assert told(LeaderlessLog(), waiting, elected=(name,)) == []


def test_a_new_controller_tells_it_again() -> None:
    waits, waiting = LeaderlessLog(), image((ONE,), a=(partition(0, None, TWO, THREE),))
    again = told(waits, waiting)
    waits.forget()
    assert told(waits, waiting) == again == ["1 partition has no leader and waits for broker 2 or 3: a-0"]
