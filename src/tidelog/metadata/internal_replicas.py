"""Internal topics that were created while few brokers ran: how they get the rest of their replicas.  Pure.

An internal topic is created at first use, with as many replicas as there are machines then.  The active controller calls
this module when brokers join, so that group offsets and transactions do not stay on one machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tidelog.config import BrokerConfig
from tidelog.errors import TidelogError
from tidelog.metadata.elections.elections import NextState
from tidelog.metadata.image.image import BrokerImage, Image, PartitionImage
from tidelog.metadata.reassignments import begin
from tidelog.metadata.records import Replicas
from tidelog.metadata.topics.placement import replicas_max
from tidelog.types import NodeId


def replication_factors(config: BrokerConfig) -> dict[str, int]:
    """Of the internal topics, by name."""
    return {
        "__consumer_offsets": config.offsets_topic_replication_factor,
        "__transaction_state": config.transaction_state_log_replication_factor,
        "__share_group_state": config.share_coordinator_state_topic_replication_factor,
        "__delayed_records": config.share_coordinator_state_topic_replication_factor,
        "_schemas": config.transaction_state_log_replication_factor,
        config.tidelog_audit_topic: config.tidelog_audit_topic_replication_factor,
    }


def widened(image: Image, factors: Mapping[str, int]) -> Iterator[NextState]:
    """The next states of partitions of internal topics that can get more replicas now: their leaders run, none of their
    replicas is in doubt or being moved, and there are machines without a replica."""
    live = image.live_brokers
    machines = replicas_max(live)
    for name, factor in factors.items():
        topic = image.topics.get(name)
        if topic is None:
            continue
        count = min(factor, machines)
        load = Counter(node for partition in topic.partitions for node in partition.replicas)
        leads = Counter(partition.replicas[0] for partition in topic.partitions)
        for partition in topic.partitions:
            if len(partition.replicas) >= count or not _is_at_rest(partition, image.brokers):
                continue
            replicas = _with_more(partition.replicas, count, live, image.brokers, load)
            first = min(replicas, key=lambda node: (leads[node], node != partition.replicas[0]))
            leads[partition.replicas[0]] -= 1
            leads[first] += 1
            target = (first, *(node for node in replicas if node != first))
            try:
                record = begin(partition, target, image.brokers, same_number=False)
            except TidelogError:
                continue  # two of its replicas are on one machine: an operator placed them
            if record is not None:
                yield NextState(topic.id, partition.index, record, partition.revision)


def _is_at_rest(partition: PartitionImage, registered: Mapping[NodeId, BrokerImage]) -> bool:
    moving = partition.adding or partition.removing
    running = partition.leader is not None and all(node in registered for node in partition.replicas)
    return running and not moving and not partition.doubts


def _with_more(
    replicas: Replicas,
    count: int,
    live: Sequence[BrokerImage],
    registered: Mapping[NodeId, BrokerImage],
    load: Counter[NodeId],
) -> Replicas:
    """With brokers on other machines, in other racks if possible, that have few replicas of the topic."""
    chosen = [registered[node] for node in replicas]
    while len(chosen) < count:
        taken = {broker.place for broker in chosen}
        racks = {broker.rack for broker in chosen}
        free = [broker for broker in live if broker.place not in taken]
        if not free:
            break
        best = min(
            free,
            key=lambda broker: (
                broker.rack is not None and broker.rack in racks,
                load[broker.node_id],
                broker.node_id,
            ),
        )
        chosen.append(best)
        load[best.node_id] += 1
    return tuple(broker.node_id for broker in chosen)
