"""The records in the metadata store, and how they are encoded: one JSON value per key.

Keys:
    cluster                     the cluster's id
    controller                  the broker that acts as controller (leased)
    brokers/ID                  a live broker (leased)
    topics/NAME                 id and replicas of all partitions, which seldom change
    partitions/TOPIC-ID/INDEX   leader and ISR, only once they differ from those of a new topic
    directories/ID              ids of all log directories that a broker has registered
    configs/topics/NAME         settings of a topic
    configs/brokers/ID          settings of a broker; `all` in place of the id: of every broker
    configs/groups/NAME         settings of a group
    producer-ids/next           the first producer id that is not handed out
    tenants/NAME                written with every creation of topics and partitions of a tenant, so that two brokers do not
                                fill the same room at once
    tenant-usage/ID             bytes of each tenant in the logs of a broker

A topic is one key however many partitions it has, so it is created in one small transaction and read fast at the
start; each partition's leadership is a key of its own, so brokers can swap it without touching each other."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID

from tidelog.metadata.store import Put
from tidelog.types import NodeId

CLUSTER = "cluster"
CONTROLLER = "controller"
BROKERS = "brokers/"
TOPICS = "topics/"
PARTITIONS = "partitions/"
DIRECTORIES = "directories/"
TOPIC_CONFIGS = "configs/topics/"
BROKER_CONFIGS = "configs/brokers/"
GROUP_CONFIGS = "configs/groups/"
CLIENT_METRICS_CONFIGS = "configs/client-metrics/"
ALL_BROKERS = "all"
PRODUCER_IDS = "producer-ids/next"
TENANTS = "tenants/"
TENANT_USAGE = "tenant-usage/"

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
    """An id of this run of the broker: each start has another one."""
    machine: str | None = None
    """The machine that it shares with other brokers; None: it shares its machine with nobody."""
    log_dirs: tuple[str, ...] = ()
    cordoned_log_dirs: tuple[str, ...] = ()
    """As given at the start; dynamic settings come first."""

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
            fields.get("machine"),
            tuple(fields.get("log_dirs", ())),
            tuple(fields.get("cordoned_log_dirs", ())),
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


class Cause(StrEnum):
    """Why a replica is in doubt: it may lack records that it acknowledged."""

    POWER = "power"
    """Its machine went down: what was written and not synced may be gone."""
    DISK = "disk"
    """Its disk failed."""
    DAMAGED = "damaged"
    """Bytes of its log are not what was written."""
    MISSING = "missing"
    """The replica has no log, and the broker has the log directories that it had before."""
    NEW_DIRECTORY = "new-directory"
    """The replica has no log, and the broker has a new log directory: the old directory is gone with its logs."""
    OFFLINE = "offline"
    """Its log may be in a directory that is not there now."""
    ROLLED_BACK = "rolled-back"
    """The metadata are older than the logs: the store was restored from a backup.  Who was in sync is not known."""


WITHOUT_LOG = frozenset((Cause.MISSING, Cause.NEW_DIRECTORY, Cause.OFFLINE))


class Tail(NamedTuple):
    """A replica in doubt, and how far its log reaches: the newest leader epoch in it, and the log end offset.  Both are
    -1 when there is no log.  `followed`: there has been a leader since the report, so the log may reach further by now."""

    node: NodeId
    epoch: int
    end: int
    cause: Cause = Cause.POWER
    followed: bool = False

    @property
    def has_log(self) -> bool:
        return self.cause not in WITHOUT_LOG

    @property
    def unread(self) -> bool:
        """Its log may have everything, in a directory that is not there now, or on a disk that failed under the broker and
        may work again: nobody knows how far it reaches."""
        return self.cause is Cause.OFFLINE or (self.has_log and self.end < 0)


class PartitionRecord(NamedTuple):
    """`leader` None: no replica may lead.  `leader_epoch` counts leaders, `partition_epoch` every change.

    `in_sync` and `eligible` together are the *holders*: they have every committed record, except for those of them that
    are in doubt (`doubts`).  `eligible` are members that left the in-sync set when it fell below min.insync.replicas
    (Kafka's ELR); while there are any, the high watermark stands still.  `replicas` (None: those of the topic's record),
    `adding` and `removing` differ from nothing only once a partition was moved."""

    leader: NodeId | None
    leader_epoch: int
    in_sync: Replicas
    partition_epoch: int
    doubts: tuple[Tail, ...] = ()
    replicas: Replicas | None = None
    adding: Replicas = ()
    removing: Replicas = ()
    eligible: Replicas = ()

    @staticmethod
    def initial(replicas: Replicas) -> PartitionRecord:
        """What holds as long as nothing is stored: the first replica leads and all are in sync."""
        return PartitionRecord(replicas[0], 0, replicas, 0)

    def encode(self) -> bytes:
        # What is seldom there is left out: there are many of these.
        return _json(self if any(self[4:]) or self.replicas is not None else self[:4])

    @staticmethod
    def decode(value: bytes) -> PartitionRecord:
        fields: list[Any] = json.loads(value)
        leader, leader_epoch, in_sync, partition_epoch = fields[:4]
        doubts, replicas, adding, removing, eligible = fields[4:] + _SELDOM[len(fields) - 4 :]
        return PartitionRecord(
            leader,
            leader_epoch,
            tuple(in_sync),
            partition_epoch,
            tuple(map(_tail, doubts)),
            None if replicas is None else tuple(replicas),
            tuple(adding),
            tuple(removing),
            tuple(eligible),
        )


_SELDOM: list[Any] = [(), None, (), (), ()]


def _tail(fields: Sequence[Any]) -> Tail:
    node, epoch, end, *rest = fields
    return Tail(node, epoch, end, Cause(rest[0]) if rest else Cause.POWER, *rest[1:])


def encode_configs(configs: Mapping[str, str]) -> bytes:
    return _json(dict(sorted(configs.items())))


def decode_configs(value: bytes) -> dict[str, str]:
    configs: dict[str, str] = json.loads(value)
    return configs


def encode_usage(stored_bytes: Mapping[str, int]) -> bytes:
    return _json(dict(sorted(stored_bytes.items())))


def decode_usage(value: bytes) -> dict[str, int]:
    usage: dict[str, int] = json.loads(value)
    return usage


def encode_directories(ids: Iterable[str]) -> bytes:
    return _json(sorted(ids))


def decode_directories(value: bytes) -> frozenset[str]:
    return frozenset(json.loads(value))


def broker_key(node: NodeId) -> str:
    return f"{BROKERS}{node}"


def directories_key(node: NodeId) -> str:
    return f"{DIRECTORIES}{node}"


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


def tenant_usage_key(node: NodeId) -> str:
    return f"{TENANT_USAGE}{node}"


def tenant_key(name: str) -> str:
    return TENANTS + name


def group_config_key(name: str) -> str:
    return GROUP_CONFIGS + name


def client_metrics_key(name: str) -> str:
    return CLIENT_METRICS_CONFIGS + name


def put_partition(topic_id: UUID, index: int, record: PartitionRecord) -> Put:
    return Put(partition_key(topic_id, index), record.encode())


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
