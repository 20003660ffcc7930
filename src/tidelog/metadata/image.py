"""All of the cluster's metadata at one revision, as every broker holds it in memory.

Immutable: `tidelog.metadata.changes` makes the next one, which shares all that did not change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from tidelog.metadata.access_records import TokenRecord
from tidelog.metadata.records import Cause, Endpoint, PartitionRecord, Replicas, Tail
from tidelog.metadata.sharded import ShardedMap
from tidelog.net.scram import ScramCredential
from tidelog.types import NodeId
from tidelog.wire.acls import AclBinding
from tidelog.wire.client_quotas import QuotaEntity

_NO_CONFIGS: Mapping[str, str] = {}
_NO_USERS: ShardedMap[str, ScramCredential] = ShardedMap()


class Broker(NamedTuple):
    """`epoch` grows with every registration.  A fenced broker is there, but must not lead; nor must a leaving one, which
    serves clients until others have taken over.  `http` is host:port of its HTTP port, None when others cannot reach it."""

    node_id: NodeId
    epoch: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    fenced: bool
    leaving: bool = False
    http: str | None = None
    home: str = ""
    incarnation: str = ""

    @property
    def host(self) -> str:
        return self.endpoints[0].host

    @property
    def port(self) -> int:
        return self.endpoints[0].port

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((one for one in self.endpoints if one.listener == listener), None)


class Partition(NamedTuple):
    """`revision` is that of the partition's own key, to compare with when it is changed; 0 while it has none."""

    index: int  # type: ignore[assignment]  # tuples have a method of this name, of no use here
    replicas: Replicas
    leader: NodeId | None
    leader_epoch: int
    in_sync: Replicas
    partition_epoch: int
    revision: int
    doubts: tuple[Tail, ...] = ()
    moved: Replicas | None = None
    """Its replicas, when they are not those that its topic was made with."""
    adding: Replicas = ()
    removing: Replicas = ()
    made_with: Replicas = ()
    """The replicas of the topic's record, when it was moved."""
    eligible: Replicas = ()

    @property
    def holders(self) -> Replicas:
        """The replicas that have every committed record, unless they are in doubt; members of the in-sync set first."""
        return self.in_sync + self.eligible

    @property
    def rolled_back(self) -> bool:
        """Whether the store was restored to a state older than a replica's log: all replicas have to report."""
        return any(tail.cause is Cause.ROLLED_BACK for tail in self.doubts)

    @property
    def doubted(self) -> frozenset[NodeId]:
        return frozenset(tail.node for tail in self.doubts)

    @property
    def first_replicas(self) -> Replicas:
        """Those of the topic's record."""
        return self.made_with or self.replicas

    @property
    def record(self) -> PartitionRecord:
        return PartitionRecord(
            self.leader,
            self.leader_epoch,
            self.in_sync,
            self.partition_epoch,
            self.doubts,
            self.moved,
            self.adding,
            self.removing,
            self.eligible,
        )


class Topic(NamedTuple):
    name: str
    id: UUID
    partitions: tuple[Partition, ...]
    revision: int


def changed_partitions(before: Topic | None, after: Topic) -> list[tuple[Partition | None, Partition]]:
    """What each was, and is.  Those that are as they were mostly are the same objects: the others are found in no time."""
    old = () if before is None or before.id != after.id else before.partitions
    pairs = zip(old, after.partitions, strict=False)
    changed = [(was, one) for was, one in pairs if one is not was and one != was]
    return [*changed, *((None, one) for one in after.partitions[len(old) :])]


class Configs(NamedTuple):
    values: Mapping[str, str]
    revision: int


class Stored(NamedTuple):
    """A partition's own key, as it was read."""

    record: PartitionRecord
    revision: int


class StoredQuotas(NamedTuple):
    values: Mapping[str, float]
    revision: int


class StoredToken(NamedTuple):
    record: TokenRecord
    revision: int


NO_CONFIGS = Configs(_NO_CONFIGS, 0)


@dataclass(frozen=True, slots=True)
class Image:
    revision: int = 0
    cluster_id: str = ""
    controller: NodeId | None = None
    brokers: Mapping[NodeId, Broker] = field(default_factory=dict)
    topics: ShardedMap[str, Topic] = field(default_factory=ShardedMap)
    names: ShardedMap[UUID, str] = field(default_factory=ShardedMap)
    topic_configs: ShardedMap[str, Configs] = field(default_factory=ShardedMap)
    broker_configs: Mapping[NodeId | None, Configs] = field(default_factory=dict)
    group_configs: ShardedMap[str, Configs] = field(default_factory=ShardedMap)
    # Keys of partitions whose topic is not there: not yet, or not any more.
    strays: Mapping[UUID, Mapping[int, Stored]] = field(default_factory=dict)
    # Who may do what.  Each is the same object until something in it changes: caches made from it compare with `is`.
    acls: ShardedMap[str, AclBinding] = field(default_factory=ShardedMap)
    credentials: Mapping[str, ShardedMap[str, ScramCredential]] = field(default_factory=dict)
    """By SASL mechanism, then by user."""
    quotas: Mapping[QuotaEntity, StoredQuotas] = field(default_factory=dict)
    tokens: ShardedMap[str, StoredToken] = field(default_factory=ShardedMap)
    secret: bytes = b""
    """Known to all brokers and nobody else; empty until there is a user."""

    def topic_by_id(self, topic_id: UUID) -> Topic | None:
        name = self.names.get(topic_id)
        return None if name is None else self.topics[name]

    def partition(self, topic: str, index: int) -> Partition | None:
        found = self.topics.get(topic)
        return found.partitions[index] if found is not None and 0 <= index < len(found.partitions) else None

    def topic_overrides(self, name: str) -> Mapping[str, str]:
        """The settings that this topic has of its own."""
        return self.topic_configs.get(name, NO_CONFIGS).values

    def broker_overrides(self, node: NodeId | None) -> Mapping[str, str]:
        """The settings changed on one broker; None: on all of them."""
        return self.broker_configs.get(node, NO_CONFIGS).values

    def users(self, mechanism: str) -> ShardedMap[str, ScramCredential]:
        """The SCRAM credentials of one mechanism."""
        return self.credentials.get(mechanism, _NO_USERS)

    def group_overrides(self, name: str) -> Mapping[str, str]:
        """The settings that this group has of its own."""
        return self.group_configs.get(name, NO_CONFIGS).values

    @property
    def reachable_brokers(self) -> list[Broker]:
        """Those that serve clients, in the order of their ids."""
        return [self.brokers[node] for node in sorted(self.brokers) if not self.brokers[node].fenced]

    @property
    def live_brokers(self) -> list[Broker]:
        """Those that may lead, in the order of their ids."""
        return [broker for broker in self.reachable_brokers if not broker.leaving]


def build_partitions(replicas: tuple[Replicas, ...], stored: Mapping[int, Stored]) -> tuple[Partition, ...]:
    return tuple(build_partition(index, nodes, stored.get(index)) for index, nodes in enumerate(replicas))


def build_partition(index: int, replicas: Replicas, stored: Stored | None) -> Partition:
    """`replicas` are those of the topic's record."""
    if stored is None:
        return Partition(index, replicas, replicas[0], 0, replicas, 0, 0)
    leader, epoch, in_sync, partition_epoch, doubts, moved, adding, removing, eligible = stored.record
    now, before = (replicas, ()) if moved is None else (moved, replicas)
    return Partition(
        index,
        now,
        leader,
        epoch,
        in_sync,
        partition_epoch,
        stored.revision,
        doubts,
        moved,
        adding,
        removing,
        before,
        eligible,
    )


def stored_of(topic: Topic) -> dict[int, Stored]:
    """The keys its partitions have of their own."""
    return {one.index: Stored(one.record, one.revision) for one in topic.partitions if one.revision}
