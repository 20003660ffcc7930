"""The metadata of a cluster that begins with restored records: one broker, which leads every partition.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from uuid import UUID

from tidelog.metadata import records
from tidelog.metadata.records import PartitionRecord, TopicRecord
from tidelog.types import NodeId, TopicPartition

# Settings that name brokers of the old cluster.
_OF_BROKERS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


def metadata_of_one_broker(
    entries: Iterable[tuple[str, bytes]],
    cluster_id: str,
    node: NodeId,
    epochs: dict[TopicPartition, int],
    topics: Collection[str] | None = None,
    renamed: dict[str, str] | None = None,
) -> list[tuple[str, bytes]]:
    """`epochs`: the newest leader epoch in each log.  `topics`: those to keep, with nothing else; None: everything.
    `renamed`: their new names."""
    renamed = renamed or {}
    made: list[tuple[str, bytes]] = [(records.CLUSTER, cluster_id.encode())]
    for key, value in entries:
        if key.startswith(records.TOPICS):
            name = key.removeprefix(records.TOPICS)
            if topics is None or name in topics:
                made += _topic(name, renamed.get(name, name), TopicRecord.decode(value), node, epochs)
        elif key.startswith(records.TOPIC_CONFIGS):
            name = key.removeprefix(records.TOPIC_CONFIGS)
            if topics is None or name in topics:
                configs = records.decode_configs(value)
                kept = {setting: text for setting, text in configs.items() if setting not in _OF_BROKERS}
                made.append((records.topic_config_key(renamed.get(name, name)), records.encode_configs(kept)))
        elif key == records.PRODUCER_IDS or (topics is None and not _of_the_old_brokers(key)):
            # The logs know producers by their ids: these must not be given out again.
            made.append((key, value))
    return made


def _of_the_old_brokers(key: str) -> bool:
    """The settings of all brokers stay, those of single ones do not."""
    if key.startswith(records.BROKER_CONFIGS):
        return key != records.broker_config_key(None)
    return key == records.CLUSTER or key.startswith(
        (records.PARTITIONS, records.BROKERS, records.DIRECTORIES, records.TENANT_USAGE, records.CONTROLLER)
    )


def _topic(
    name: str, new_name: str, record: TopicRecord, node: NodeId, epochs: dict[TopicPartition, int]
) -> list[tuple[str, bytes]]:
    count = len(record.replicas)
    entries = [(records.topic_key(new_name), TopicRecord(record.id, ((node,),) * count).encode())]
    for index in range(count):
        # Newer than all in the log: no follower or consumer takes the new leader for an old one.
        epoch = epochs.get(TopicPartition(name, index), -1) + 1
        leading = PartitionRecord(node, epoch, (node,), 0)
        entries.append((records.partition_key(UUID(int=record.id.int), index), leading.encode()))
    return entries
