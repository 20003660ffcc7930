"""The health of a cluster, from its metadata."""

from __future__ import annotations

from uuid import uuid4

from tidelog.client.admin.replica_states import CAUSES
from tidelog.gateways.console.cluster.health import cluster_health, why_leaderless
from tidelog.metadata.image.image import BrokerImage, Configs, Image, PartitionImage, TopicImage
from tidelog.metadata.image.sharded_map import ShardedMap
from tidelog.metadata.records import Cause, Endpoint, Tail
from tidelog.types import NodeId

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def partition(index: int, leader: NodeId | None, in_sync: tuple[NodeId, ...]) -> PartitionImage:
    return PartitionImage(index, (ONE, TWO, THREE), leader, 0, in_sync, 0, 0)


def image(
    *partitions: PartitionImage, brokers: tuple[NodeId, ...] = (ONE, TWO, THREE), least: str = "2"
) -> Image:
    endpoint = Endpoint("PLAINTEXT", "127.0.0.1", 9092)
    return Image(
        brokers={node: BrokerImage(node, 0, (endpoint,), None, False) for node in brokers},
        topics=ShardedMap([("t", TopicImage("t", uuid4(), partitions, 0))]),
        topic_configs=ShardedMap([("t", Configs({"min.insync.replicas": least}, 0))]),
    )


def test_the_summary_is_the_worst_problem() -> None:
    well = cluster_health(image(partition(0, ONE, (ONE, TWO, THREE))), 1)
    assert well.summary == ("good", "Healthy") and (well.topics, well.partitions, well.brokers) == (1, 1, 3)
    late = cluster_health(image(partition(0, ONE, (ONE, TWO))), 1)
    assert late.summary == ("warn", "1 partition under-replicated")
    moving = partition(0, ONE, (ONE, TWO))._replace(adding=(THREE,))
    assert cluster_health(image(moving), 1).summary == ("good", "Healthy")
    gone = cluster_health(image(partition(0, ONE, (ONE, TWO)), brokers=(ONE, TWO)), 1)
    assert gone.summary == ("warn", "1 broker missing") and gone.missing == {THREE}
    refused = cluster_health(image(partition(0, ONE, (ONE,)), partition(1, ONE, (ONE,))), 1)
    assert refused.summary == ("bad", "2 partitions below min.insync.replicas")
    offline = cluster_health(
        image(partition(0, None, (THREE,)), partition(1, THREE, (THREE,)), brokers=(ONE, TWO)), 1
    )
    assert offline.summary == ("bad", "2 partitions without a leader: waiting for broker 3")
    assert offline.awaiting == {THREE: 1}


def test_a_partition_without_a_leader_says_what_it_waits_for() -> None:
    assert why_leaderless(partition(0, ONE, (ONE,)), (ONE,)) == []
    assert why_leaderless(partition(0, None, (TWO, THREE)), (ONE,)) == ["Waiting for broker 2 or 3."]
    assert why_leaderless(partition(0, None, (ONE,)), (ONE,)) == []
    empty = partition(0, None, (ONE,))._replace(doubts=(Tail(ONE, -1, -1, Cause.NEW_DIRECTORY),))
    assert why_leaderless(empty, (ONE, TWO)) == [
        "An operator has to choose a leader: see `tidelog partitions recover`.",
        "Broker 1: it came back with a new, empty directory.",
    ]
    level, summary = cluster_health(image(empty), 1).summary
    assert level == "bad" and summary.endswith("without a leader: 1 need an operator")


def test_every_cause_of_doubt_has_words() -> None:
    assert set(CAUSES) == set(Cause)


def test_a_topic_without_a_setting_follows_the_brokers() -> None:
    found = image(partition(0, ONE, (ONE, TWO)), least="")
    assert cluster_health(found, 2).below_min == [] and len(cluster_health(found, 3).below_min) == 1
