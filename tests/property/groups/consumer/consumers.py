"""Consumer groups without a broker: a cluster's metadata, the machine of one shard, and clients as they behave."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from uuid import UUID

from tidelog import errors
from tidelog.config import BrokerConfig, GroupConfig
from tidelog.coordination.records import CoordinatorRecord
from tidelog.groups.consumer import classic_members
from tidelog.groups.consumer.embedded_protocol import identified, read_assignment
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.consumer.heartbeat import (
    HeartbeatResult,
    check_request,
    leaving,
    member_heartbeat,
    remove,
    step_out,
)
from tidelog.groups.consumer.member import LEFT_EPOCH, STATIC_LEFT_EPOCH, ConsumerMember, Owned
from tidelog.groups.consumer.regex import Expressions
from tidelog.groups.consumer.target_assignment import GroupDraft, GroupFacts, assign, refresh, wait_ms
from tidelog.groups.record_replay import new_machine
from tidelog.groups.record_types import KINDS
from tidelog.groups.state_machine import GroupStateMachine
from tidelog.metadata.image.image import Image, TopicImage, build_partitions
from tidelog.types import NodeId
from tidelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from tidelog.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from tidelog.wire.messages.consumer_protocol_subscription import TopicPartition as Named
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tidelog.wire.messages.sync_group import SyncGroupRequest

GROUP = "g"
Place = tuple[UUID, int]


def topic_id(name: str, life: int = 0) -> UUID:
    return UUID(int=(life << 32) + sum(ord(one) << (8 * at) for at, one in enumerate(name[:4])))


class Service:
    """One shard and the facts around it.  Every batch is kept as bytes, to be loaded again."""

    def __init__(self, **settings: str) -> None:
        self.machine: GroupStateMachine = new_machine()
        self.batches: list[list[tuple[bytes, bytes | None]]] = []
        self.image = Image()
        self.config = BrokerConfig.of({name.replace("_", "."): value for name, value in settings.items()})
        self.overrides: dict[str, str] = {}
        self.expressions = Expressions()
        self.now_ms = 1_000_000
        self._ids = 0
        self._lives: dict[str, int] = {}

    # The cluster

    def topic(self, name: str, partitions: int) -> None:
        """Makes it, or gives it more partitions; 0 takes it away."""
        known = self.image.topics.get(name)
        if partitions == 0:
            if known is not None:
                self._put({name: None}, {known.id: None})
            return
        if known is None:
            self._lives[name] = self._lives.get(name, 0) + 1
        uuid = topic_id(name, self._lives[name]) if known is None else known.id
        replicas = ((NodeId(1),),) * partitions
        made = TopicImage(name, uuid, build_partitions(replicas, {}), self.image.revision + 1)
        self._put({name: made}, {uuid: name} if known is None else {})

    def _put(self, topics: dict[str, TopicImage | None], names: dict[UUID, str | None]) -> None:
        self.image = replace(
            self.image,
            revision=self.image.revision + 1,
            topics=self.image.topics.changed(topics),
            names=self.image.names.changed(names),
        )

    def id_of(self, topic: str) -> UUID:
        return self.image.topics[topic].id

    def world(self) -> GroupFacts:
        return GroupFacts(
            self.image,
            self.config,
            GroupConfig.of(self.overrides, self.config),
            self.expressions,
            self.now_ms,
            self._new_id,
        )

    def _new_id(self) -> str:
        self._ids += 1
        return f"made-{self._ids}"

    # Requests

    @property
    def group(self) -> ConsumerGroup:
        group = self.machine.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    def heartbeat(self, request: ConsumerGroupHeartbeatRequest, version: int = 1) -> HeartbeatResult | None:
        check_request(request, version, self.config.group_consumer_assignors)
        known = self.machine.groups.get(GROUP)
        if known is None and request.member_epoch != 0:
            raise errors.GroupIdNotFound("none")
        draft = GroupDraft(known if isinstance(known, ConsumerGroup) else ConsumerGroup(GROUP))
        if request.member_epoch == LEFT_EPOCH:
            remove(draft, [leaving(draft.group, request)], self.world())
            came = None
        elif request.member_epoch == STATIC_LEFT_EPOCH:
            step_out(draft, leaving(draft.group, request))
            came = None
        else:
            came = member_heartbeat(draft, request, "client", "/host", self.world())
        self.write(draft)
        return came

    def join_classic(self, request: JoinGroupRequest) -> ConsumerMember:
        draft = GroupDraft(self.group)
        joined = classic_members.join(draft, request, 9, "client", "/host", self.world())
        assert joined.member is not None
        self.write(draft)
        return joined.member

    def expire(self, member_id: str) -> None:
        draft = GroupDraft(self.group)
        remove(draft, [self.group.members[member_id]], self.world())
        self.write(draft)

    def follow_up(self) -> None:
        """What the driver does without a heartbeat."""
        if GROUP in self.machine.groups and self.group.members:
            draft = GroupDraft(self.group)
            refresh(draft, self.world(), changed=False)
            if not wait_ms(draft.group, self.world()):
                assign(draft, self.world())
            self.write(draft)

    def write(self, draft: GroupDraft) -> None:
        batch = [KINDS.encode(entry) for entry in draft.entries]
        if batch:
            self.batches.append(batch)
        for entry in draft.entries:
            self.machine.replay(entry, -1)
        group = self.machine.groups.get(GROUP)
        if draft.seen is not None and isinstance(group, ConsumerGroup):
            group.seen = draft.seen

    def loaded(self, batches: int | None = None) -> GroupStateMachine:
        """The state that a start reads from the first `batches`."""
        machine = new_machine()
        for batch in self.batches[:batches]:
            replay(machine, batch)
        return machine


def replay(machine: GroupStateMachine, batch: Iterable[tuple[bytes, bytes | None]]) -> None:
    for key, value in batch:
        entry = KINDS.decode(key, value)
        assert isinstance(entry, CoordinatorRecord)
        machine.replay(entry, -1)


class Client:
    """A consumer: it gives partitions back in its own time, and says what it has when that changed."""

    def __init__(self, service: Service, member_id: str, instance_id: str | None = None) -> None:
        self.service = service
        self.id = member_id
        self.instance_id = instance_id
        self.epoch = 0
        self.owned: set[Place] = set()
        self.told: set[Place] | None = None  # an assignment that it has not followed yet
        self.owes_answer = False  # it followed, and has not said so
        self.missed = False  # an answer did not come: it says all about itself next time
        self.in_group = False

    def join(
        self, topics: Iterable[str] | None = (), regex: str | None = None, assignor: str | None = None
    ) -> None:
        self.owned, self.told, self.owes_answer = set(), None, False
        self.epoch = 0
        self.send(
            subscribed_topic_names=None if topics is None else sorted(topics),
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            rebalance_timeout_ms=60_000,
            topic_partitions=[],
        )
        self.in_group = True

    def send(self, lost: bool = False, **fields: object) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            **fields,  # type: ignore[arg-type]
        )
        came = self.service.heartbeat(request)
        self.missed = lost
        if lost or came is None:
            return
        self.epoch = came.member.epoch
        if came.assigned is not None:
            self.told = places(came.assigned)

    def beat(self, lost: bool = False) -> None:
        """Says what it owns only when that changed, as clients do."""
        if self.missed:
            self.beat_fully(lost)
        elif self.owes_answer:
            self.owes_answer = False
            self.send(lost, topic_partitions=self.said())
        else:
            self.send(lost)

    def beat_fully(self, lost: bool = False) -> None:
        """After an answer that it missed."""
        member = self.service.group.member(self.id)
        self.owes_answer = False
        self.send(
            lost,
            subscribed_topic_names=sorted(member.topics),
            subscribed_topic_regex=member.regex,
            rebalance_timeout_ms=60_000,
            topic_partitions=self.said(),
        )

    def said(self) -> list[TopicPartitions]:
        topics: dict[UUID, list[int]] = {}
        for topic, partition in sorted(self.owned):
            topics.setdefault(topic, []).append(partition)
        return [TopicPartitions(topic, partitions) for topic, partitions in topics.items()]

    def revoke(self) -> None:
        """Gives back what it is not to have any more."""
        if self.told is not None:
            self.owned &= self.told

    def follow(self) -> None:
        if self.told is not None:
            self.owned = self.told
            self.told = None
            self.owes_answer = True

    def leave(self, epoch: int = LEFT_EPOCH) -> None:
        self.owned, self.told, self.in_group = set(), None, False
        self.epoch = epoch
        self.send()


class ClassicClient:
    """A consumer of the classic protocol: it rejoins when it is told to, gives up everything before that or (cooperative)
    only what it is not to have any more, after that."""

    def __init__(self, service: Service, member_id: str, cooperative: bool, topics: Iterable[str]) -> None:
        self.service = service
        self.id = member_id
        self.cooperative = cooperative
        self.topics = sorted(topics)
        self.owned: set[Place] = set()
        self.generation = -1
        self.in_group = True
        self.owes_sync = False  # it joined, and has not been told what it has

    def join(self) -> None:
        if not self.cooperative:
            self.owned = set()
        image = self.service.image
        named: dict[str, list[int]] = {}
        for topic, partition in self.owned:
            if topic in image.names:  # a topic that is gone is not told
                named.setdefault(image.names[topic], []).append(partition)
        said = ConsumerProtocolSubscription(
            topics=self.topics,
            owned_partitions=[Named(topic, partitions) for topic, partitions in named.items()],
        )
        metadata = (1).to_bytes(2, "big") + said.encode(1)
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id=self.id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol("range", metadata)],
        )
        self.generation = self.service.join_classic(request).epoch
        self.owes_sync = True

    def sync(self) -> None:
        """Raises RebalanceInProgress, or follows what it is told; gives back first, gets what is new with it."""
        request = SyncGroupRequest(group_id=GROUP, generation_id=self.generation, member_id=self.id)
        data = classic_members.sync(self.service.group, request, self.service.image)
        told = identified(read_assignment(data), self.service.image)
        self.owned = {(topic, partition) for topic, some in told.items() for partition in some}
        self.owes_sync = False

    def must_rejoin(self) -> bool:
        group = self.service.group
        member = classic_members.find(group, self.id, None, self.generation)
        return classic_members.must_rejoin(group, member, self.service.image)

    def rejoin_if_told(self) -> None:
        if self.must_rejoin():
            self.join()
        if self.owes_sync:
            with suppress(errors.RebalanceInProgress):
                self.sync()


def places(owned: Owned) -> set[Place]:
    return {(topic, partition) for topic, partitions in owned.items() for partition in partitions}
