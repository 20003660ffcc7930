"""What handlers may use.  Built once in `app.lifecycle`, passed down, never looked up from a global."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import UUID

from tidelog._speed.wire.queued_bytes import QueuedBytes
from tidelog.broker.gate import Gate
from tidelog.broker.handlers.produce.open_batch import Opening
from tidelog.broker.metrics.counters import BrokerCounters
from tidelog.broker.session import Session
from tidelog.broker.telemetry.client_metrics import ClientMetrics
from tidelog.broker.telemetry.otlp_exporter import OtlpExporter
from tidelog.clock import Clock
from tidelog.config import BrokerConfig
from tidelog.groups.topic_viewer import TopicViewer
from tidelog.types import NodeId
from tidelog.wire.acls import CLUSTER_NAME, AclOperation, AclResourceType

if TYPE_CHECKING:
    from tidelog.access.tenants import Tenant
    from tidelog.broker.access import Access
    from tidelog.broker.fetch_sessions import FetchSessions
    from tidelog.broker.login import Logins
    from tidelog.groups.classic.coordinator import ClassicGroups
    from tidelog.groups.consumer.classic_members_coordinator import ClassicMembers
    from tidelog.groups.consumer.coordinator import ConsumerGroups
    from tidelog.groups.coordinator import Groups
    from tidelog.groups.group_directory import GroupDirectory
    from tidelog.groups.offsets.coordinator import OffsetCoordinator
    from tidelog.groups.share.coordinator import ShareGroups
    from tidelog.groups.share.offsets import ShareOffsets
    from tidelog.groups.share.partitions import SharePartitions
    from tidelog.groups.share.state_coordinator import ShareStateCoordinator
    from tidelog.groups.streams.coordinator import StreamsGroups
    from tidelog.metadata.controller import Controller
    from tidelog.metadata.image.image import Image
    from tidelog.metadata.producer_ids import ProducerIdAllocator
    from tidelog.queues.service import Queues
    from tidelog.registry.coordinator import SchemaRegistry
    from tidelog.replication.in_sync import InSync
    from tidelog.replication.partitions import Partitions
    from tidelog.replication.throttle import Throttle
    from tidelog.storage.dirs.log_dirs import LogDirs
    from tidelog.transactions.coordinator import TransactionCoordinator
    from tidelog.transactions.markers import TransactionMarkers


@dataclass(frozen=True, slots=True)
class Services:
    node_id: NodeId
    clock: Clock
    random: Random
    config: Callable[[], BrokerConfig]  # changes while the broker runs: ask each time
    image: Callable[[], Image]
    controller: Controller
    partitions: Partitions
    log_dirs: LogDirs
    producer_ids: ProducerIdAllocator
    sessions: FetchSessions
    groups: Groups
    classic_groups: ClassicGroups
    classic_members: ClassicMembers
    consumer_groups: ConsumerGroups
    group_offsets: OffsetCoordinator
    group_directory: GroupDirectory
    streams_groups: StreamsGroups
    share_groups: ShareGroups
    share_offsets: ShareOffsets
    share_shards: ShareStateCoordinator
    shares: SharePartitions
    queues: Queues
    in_sync: InSync
    outbound: Throttle  # of what followers that are behind are sent
    transactions: TransactionCoordinator
    markers: TransactionMarkers
    registry: SchemaRegistry
    gate: Gate
    access: Access
    logins: Logins
    held_produces: dict[int, Future[Any]] = field(default_factory=dict)
    """By producer: its last request that waits for the coordinator of its transaction."""
    counters: BrokerCounters = field(default_factory=BrokerCounters)
    client_metrics: ClientMetrics = field(default_factory=ClientMetrics)
    otlp_exporter: OtlpExporter | None = None
    """Where the metrics of clients are forwarded; None: nowhere."""
    opening: Opening = field(default_factory=Opening)
    queued: QueuedBytes = field(default_factory=lambda: QueuedBytes(1 << 62))
    """What requests take that wait; the router sets its bound."""


ANONYMOUS = "User:ANONYMOUS"
PARTITIONS_A_TURN = 500
"""Partitions, or groups, of one request that a handler answers before others have their turn."""


def answer_at_once(waits: Future[Any]) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Context:
    """One request: who asks, in which version, and what may be used to answer."""

    services: Services
    version: int
    session: Session
    hold: Callable[[Future[Any]], bool] = answer_at_once
    """For an answer that may wait as long as nobody is held up by it: completes the future when the connection gets
    another request.  False: it must not wait."""

    @property
    def client_id(self) -> str | None:
        return self.session.client_id

    @property
    def peer(self) -> str:
        return self.session.peer

    @property
    def listener(self) -> str:
        return self.session.listener

    @property
    def principal(self) -> str:
        return self.session.principal

    @property
    def token_authenticated(self) -> bool:
        """The principal logged in with a delegation token, and may not make others with it."""
        return self.session.of_token

    @property
    def tenant(self) -> Tenant | None:
        """None: the session sees the whole cluster."""
        return self.services.gate.tenant(self.session)

    def hides_topic(self, topic_id: UUID) -> bool:
        """Whether a topic of this id exists outside of the session's tenant: it is answered as an id of no topic."""
        tenant = self.tenant
        if tenant is None:
            return False
        topic = self.services.image().topic_by_id(topic_id)
        return topic is not None and not tenant.owns(topic.name)

    def allows(self, operation: AclOperation, kind: AclResourceType, name: str) -> bool:
        return self.services.gate.allows(self.session, operation, kind, name)

    def sees(self, operation: AclOperation, kind: AclResourceType, name: str) -> bool:
        """For what is left out of an answer, and for rights of which another one will do as well."""
        return self.services.gate.sees(self.session, operation, kind, name)

    @property
    def topic_viewer(self) -> TopicViewer | None:
        """Which topics the client may know of; None: all."""
        gate = self.services.gate
        if not gate.authorizes(self.session):
            return None
        return TopicViewer(
            partial(gate.sees, self.session, AclOperation.DESCRIBE, AclResourceType.TOPIC), gate.generation
        )

    def check(self, operation: AclOperation, kind: AclResourceType, name: str) -> None:
        """Raises TopicAuthorizationFailed, GroupAuthorizationFailed, ..."""
        self.services.gate.check(self.session, operation, kind, name)

    def check_cluster(self, operation: AclOperation) -> None:
        self.check(operation, AclResourceType.CLUSTER, CLUSTER_NAME)
