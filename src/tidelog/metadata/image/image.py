"""The metadata image: all of the cluster's metadata at one revision, which every broker holds in memory.

An image is immutable: `tidelog.metadata.image.changes` makes the next image, which shares everything that did not change."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from tidelog.config.cordoned_dirs import are_all_cordoned
from tidelog.metadata.access.access_records import TokenRecord
from tidelog.metadata.image.sharded_map import ShardedMap
from tidelog.metadata.records import Cause, Endpoint, PartitionRecord, Replicas, Tail
from tidelog.net.scram import ScramCredential
from tidelog.types import NodeId
from tidelog.wire.acls import AclBinding
from tidelog.wire.client_quotas import QuotaEntity

_NO_CONFIGS: Mapping[str, str] = {}
_NO_USERS: ShardedMap[str, ScramCredential] = ShardedMap()


class BrokerImage(NamedTuple):
    """`epoch` grows with every registration.  A fenced broker is registered, but must not lead.  A leaving broker must not
    lead either; it serves clients until other brokers have taken over.  `http`: host:port of its HTTP port, None if other
    brokers cannot reach it."""

    node_id: NodeId
    epoch: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    fenced: bool
    leaving: bool = False
    http: str | None = None
    home: str = ""
    incarnation: str = ""
    machine: str | None = None
    log_dirs: tuple[str, ...] = ()
    cordoned_log_dirs: tuple[str, ...] = ()
    """As given at the start."""

    @property
    def place(self) -> str | NodeId:
        """What replicas of a partition must not share: its machine, or the broker itself."""
        return self.node_id if self.machine is None else self.machine

    @property
    def host(self) -> str:
        return self.endpoints[0].host

    @property
    def port(self) -> int:
        return self.endpoints[0].port

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((endpoint for endpoint in self.endpoints if endpoint.listener == listener), None)


class PartitionImage(NamedTuple):
    """`revision`: of the partition's own key, for the comparison when it is changed; 0 while there is no such key."""

    index: int  # type: ignore[assignment]  # tuples have a method of this name, of no use here
    replicas: Replicas
    leader: NodeId | None
    leader_epoch: int
    in_sync: Replicas
    partition_epoch: int
    revision: int
    doubts: tuple[Tail, ...] = ()
    moved: Replicas | None = None
    """The replicas, if a reassignment has changed them since the topic was created."""
    adding: Replicas = ()
    removing: Replicas = ()
    made_with: Replicas = ()
    """The replicas in the topic's record, if the partition was reassigned."""
    eligible: Replicas = ()

    @property
    def holders(self) -> Replicas:
        """The replicas that have every committed record, unless they are in doubt; members of the ISR first."""
        return self.in_sync + self.eligible

    @property
    def rolled_back(self) -> bool:
        """True if the store was restored to a state older than a replica's log: all replicas have to report."""
        return any(tail.cause is Cause.ROLLED_BACK for tail in self.doubts)

    @property
    def doubted(self) -> frozenset[NodeId]:
        return frozenset(tail.node for tail in self.doubts)

    @property
    def first_replicas(self) -> Replicas:
        """The replicas in the topic's record."""
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


class TopicImage(NamedTuple):
    name: str
    id: UUID
    partitions: tuple[PartitionImage, ...]
    revision: int


def changed_partitions(
    before: TopicImage | None, after: TopicImage
) -> list[tuple[PartitionImage | None, PartitionImage]]:
    """Pairs of the old and the new state of every partition that changed; the old state of a new partition is None.
    Unchanged partitions are mostly the same objects, so this is fast."""
    old = () if before is None or before.id != after.id else before.partitions
    pairs = zip(old, after.partitions, strict=False)
    changed = [(was, partition) for was, partition in pairs if partition is not was and partition != was]
    return [*changed, *((None, partition) for partition in after.partitions[len(old) :])]


class Configs(NamedTuple):
    values: Mapping[str, str]
    revision: int


class StoredPartition(NamedTuple):
    """The value and the revision of a partition's own key."""

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
    brokers: Mapping[NodeId, BrokerImage] = field(default_factory=dict)
    topics: ShardedMap[str, TopicImage] = field(default_factory=ShardedMap)
    names: ShardedMap[UUID, str] = field(default_factory=ShardedMap)
    topic_configs: ShardedMap[str, Configs] = field(default_factory=ShardedMap)
    broker_configs: Mapping[NodeId | None, Configs] = field(default_factory=dict)
    group_configs: ShardedMap[str, Configs] = field(default_factory=ShardedMap)
    client_metrics: Mapping[str, Configs] = field(default_factory=dict)
    """Subscriptions of client metrics; the same object until one changes."""
    # Keys of partitions whose topic does not exist yet, or does not exist any more.
    strays: Mapping[UUID, Mapping[int, StoredPartition]] = field(default_factory=dict)
    # Who may do what.  Each is the same object until something in it changes: caches made from it compare with `is`.
    acls: ShardedMap[str, AclBinding] = field(default_factory=ShardedMap)
    credentials: Mapping[str, ShardedMap[str, ScramCredential]] = field(default_factory=dict)
    """By SASL mechanism, then by user."""
    quotas: Mapping[QuotaEntity, StoredQuotas] = field(default_factory=dict)
    tokens: ShardedMap[str, StoredToken] = field(default_factory=ShardedMap)
    tenant_creations: Mapping[str, int] = field(default_factory=dict)
    """The revision in which topics or partitions of a tenant were last created."""
    tenant_usage: Mapping[NodeId, Mapping[str, int]] = field(default_factory=dict)
    """Bytes of each tenant in the logs of each broker, as it last told."""
    secret: bytes = b""
    """Known to all brokers and nobody else; empty until there is a user."""

    def topic_by_id(self, topic_id: UUID) -> TopicImage | None:
        name = self.names.get(topic_id)
        return None if name is None else self.topics[name]

    def partition(self, topic: str, index: int) -> PartitionImage | None:
        partitions = self.topics[topic].partitions if topic in self.topics else ()
        return partitions[index] if 0 <= index < len(partitions) else None

    def topic_overrides(self, name: str) -> Mapping[str, str]:
        """The settings of the topic itself, without defaults."""
        return self.topic_configs.get(name, NO_CONFIGS).values

    def broker_overrides(self, node: NodeId | None) -> Mapping[str, str]:
        """The dynamic settings of one broker; None: of all brokers."""
        return self.broker_configs.get(node, NO_CONFIGS).values

    def users(self, mechanism: str) -> ShardedMap[str, ScramCredential]:
        """The SCRAM credentials of one mechanism."""
        return self.credentials.get(mechanism, _NO_USERS)

    def group_overrides(self, name: str) -> Mapping[str, str]:
        """The settings of the group itself, without defaults."""
        return self.group_configs.get(name, NO_CONFIGS).values

    @property
    def reachable_brokers(self) -> list[BrokerImage]:
        """The brokers that serve clients, in the order of their ids."""
        return [self.brokers[node] for node in sorted(self.brokers) if not self.brokers[node].fenced]

    @property
    def live_brokers(self) -> list[BrokerImage]:
        """The brokers that may lead, in the order of their ids."""
        return [broker for broker in self.reachable_brokers if not broker.leaving]

    @property
    def placeable_brokers(self) -> list[BrokerImage]:
        """The live brokers that take new replicas: some log directory of theirs is not cordoned."""
        return [
            broker
            for broker in self.live_brokers
            if not are_all_cordoned(broker.log_dirs, self._cordoned_log_dirs(broker))
        ]

    def _cordoned_log_dirs(self, broker: BrokerImage) -> Collection[str]:
        for overrides in (self.broker_overrides(broker.node_id), self.broker_overrides(None)):
            text = overrides.get("cordoned.log.dirs")
            if text is not None:
                return [path.strip() for path in text.split(",")]
        return broker.cordoned_log_dirs


def build_partitions(
    replicas: tuple[Replicas, ...], stored: Mapping[int, StoredPartition]
) -> tuple[PartitionImage, ...]:
    return tuple(build_partition(index, nodes, stored.get(index)) for index, nodes in enumerate(replicas))


def build_partition(index: int, replicas: Replicas, stored: StoredPartition | None) -> PartitionImage:
    """`replicas`: the replicas in the topic's record."""
    if stored is None:
        return PartitionImage(index, replicas, replicas[0], 0, replicas, 0, 0)
    leader, epoch, in_sync, partition_epoch, doubts, moved, adding, removing, eligible = stored.record
    now, before = (replicas, ()) if moved is None else (moved, replicas)
    return PartitionImage(
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


def stored_of(topic: TopicImage) -> dict[int, StoredPartition]:
    """The states of the topic's partitions that have keys of their own."""
    return {
        partition.index: StoredPartition(partition.record, partition.revision)
        for partition in topic.partitions
        if partition.revision
    }
