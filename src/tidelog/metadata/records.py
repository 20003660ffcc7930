"""What is stored about each thing, and how it is written: one JSON value per key.

Keys:
    cluster                     the cluster's id
    controller                  the broker that acts as controller (leased)
    brokers/ID                  a live broker (leased)
    topics/NAME                 id and replicas of all partitions, which seldom change
    partitions/TOPIC-ID/INDEX   who leads and who is in sync, only once that differs from what a new topic has
    configs/topics/NAME         settings of a topic
    configs/brokers/ID          settings of a broker; `all` in place of the id: of every broker
    configs/groups/NAME         settings of a group
    producer-ids/next           the first producer id that is not handed out

A topic is one key however many partitions it has, so it is created in one small transaction and read fast at the
start; each partition's leadership is a key of its own, so brokers can swap it without touching each other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID

from tidelog.metadata.store import Put
from tidelog.types import NodeId

CLUSTER = "cluster"
CONTROLLER = "controller"
BROKERS = "brokers/"
TOPICS = "topics/"
PARTITIONS = "partitions/"
TOPIC_CONFIGS = "configs/topics/"
BROKER_CONFIGS = "configs/brokers/"
GROUP_CONFIGS = "configs/groups/"
ALL_BROKERS = "all"
PRODUCER_IDS = "producer-ids/next"

Replicas = tuple[NodeId, ...]


class Endpoint(NamedTuple):
    """Where clients of one listener reach a broker."""

    listener: str
    host: str
    port: int


class BrokerRecord(NamedTuple):
    """`leaving`: it is about to stop, and gives away what it leads.  `http`: where other brokers reach its HTTP port,
    as host:port; None when they cannot."""

    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    fenced: bool = False
    leaving: bool = False
    http: str | None = None
    home: str = ""
    """The data it has and the boot of the machine it runs on: a process with the same is the same broker again."""
    incarnation: str = ""
    """Of this process alone."""

    def encode(self) -> bytes:
        return _json(self._asdict())

    @staticmethod
    def decode(value: bytes) -> BrokerRecord:
        fields = json.loads(value)
        endpoints = tuple(Endpoint(*endpoint) for endpoint in fields["endpoints"])
        return BrokerRecord(
            endpoints,
            fields["rack"],
            fields["fenced"],
            fields.get("leaving", False),
            fields.get("http"),
            fields.get("home", ""),
            fields.get("incarnation", ""),
        )


class TopicRecord(NamedTuple):
    id: UUID
    replicas: tuple[Replicas, ...]

    def encode(self) -> bytes:
        return _json({"id": self.id.hex, "replicas": self.replicas})

    @staticmethod
    def decode(value: bytes) -> TopicRecord:
        fields = json.loads(value)
        return TopicRecord(UUID(fields["id"]), tuple(map(tuple, fields["replicas"])))


class Tail(NamedTuple):
    """How far the log of a replica reaches that may have lost its end with its machine."""

    node: NodeId
    epoch: int
    end: int


class PartitionRecord(NamedTuple):
    """`leader` None: no replica may lead.  `leader_epoch` counts leaders, `partition_epoch` every change.

    `unsure` are members of the in-sync set whose machines went down: they may lack what was acknowledged.  `replicas`
    (None: those of the topic's record), `adding` and `removing` differ from nothing only once a partition was moved."""

    leader: NodeId | None
    leader_epoch: int
    in_sync: Replicas
    partition_epoch: int
    unsure: tuple[Tail, ...] = ()
    replicas: Replicas | None = None
    adding: Replicas = ()
    removing: Replicas = ()

    @staticmethod
    def initial(replicas: Replicas) -> PartitionRecord:
        """What holds as long as nothing is stored: the first replica leads and all are in sync."""
        return PartitionRecord(replicas[0], 0, replicas, 0)

    def encode(self) -> bytes:
        # What is seldom there is left out: there are many of these.
        return _json(self if any(self[4:]) else self[:4])

    @staticmethod
    def decode(value: bytes) -> PartitionRecord:
        leader, leader_epoch, in_sync, partition_epoch, *moved = json.loads(value)
        unsure, replicas, adding, removing = moved or ((), None, (), ())
        return PartitionRecord(
            leader,
            leader_epoch,
            tuple(in_sync),
            partition_epoch,
            tuple(Tail(*tail) for tail in unsure),
            None if replicas is None else tuple(replicas),
            tuple(adding),
            tuple(removing),
        )


def encode_configs(configs: Mapping[str, str]) -> bytes:
    return _json(dict(sorted(configs.items())))


def decode_configs(value: bytes) -> dict[str, str]:
    configs: dict[str, str] = json.loads(value)
    return configs


def broker_key(node: NodeId) -> str:
    return f"{BROKERS}{node}"


def topic_key(name: str) -> str:
    return TOPICS + name


def partitions_prefix(topic_id: UUID) -> str:
    return f"{PARTITIONS}{topic_id.hex}/"


def partition_key(topic_id: UUID, index: int) -> str:
    return f"{PARTITIONS}{topic_id.hex}/{index}"


def topic_config_key(name: str) -> str:
    return TOPIC_CONFIGS + name


def broker_config_key(node: NodeId | None) -> str:
    """None: the settings of every broker."""
    return f"{BROKER_CONFIGS}{ALL_BROKERS if node is None else node}"


def group_config_key(name: str) -> str:
    return GROUP_CONFIGS + name


def put_partition(topic_id: UUID, index: int, record: PartitionRecord) -> Put:
    return Put(partition_key(topic_id, index), record.encode())


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
