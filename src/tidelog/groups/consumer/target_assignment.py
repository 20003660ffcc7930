"""The target assignment of a consumer group: when a new one is due, and how it is computed.

The group epoch grows with every change of the members, their subscriptions, or the partitions of subscribed topics; a
metadata hash stands for the latter.  The target is computed for the newest epoch, at most once per assignment interval.
Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from struct import Struct
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from tidelog.config import BrokerConfig, GroupConfig
from tidelog.coordination.records import CoordinatorRecord
from tidelog.groups.consumer.assignors import ASSIGNORS, MemberSubscription, Partitions
from tidelog.groups.consumer.group import (
    NO_PARTITIONS,
    ConsumerGroup,
    ResolvedRegex,
    epoch_entry,
    regex_entry,
    take_record,
    target_entry,
    target_epoch_entry,
)
from tidelog.groups.consumer.member import ConsumerMember
from tidelog.groups.consumer.reconciliation import ReconciliationGoal
from tidelog.groups.consumer.regex import Expressions
from tidelog.groups.topic_viewer import TopicViewer
from tidelog.metadata.image.image import Image
from tidelog.metadata.tenants import prefix_of, tenant_of_name

_HASH = Struct(">q")
_COUNT = Struct(">i")


class GroupFacts(NamedTuple):
    """The facts outside of the group that a decision needs."""

    image: Image
    config: BrokerConfig
    group_config: GroupConfig
    expressions: Expressions
    now_ms: int
    new_id: Callable[[], str]
    viewers: Mapping[str, TopicViewer] = MappingProxyType({})
    """The viewers that do not see all topics, by member."""
    rules: object = None
    """Another object once viewers may see other topics."""

    def seen_by(self, member_id: str, viewer: TopicViewer | None) -> GroupFacts:
        """With the member whose heartbeat this is."""
        if viewer is None:
            return self
        return self._replace(viewers={**self.viewers, member_id: viewer}, rules=viewer.rules)


class GroupDraft:
    """A group with the decisions of one request: `entries` lists their records, `group` has them applied."""

    def __init__(self, group: ConsumerGroup, before: Sequence[CoordinatorRecord] = ()) -> None:
        """`before`: records of another group, to be written first."""
        self.id = group.id
        self.entries: list[CoordinatorRecord] = list(before)
        self.seen: tuple[object, ...] | None = None
        self._group = group
        self._real = True
        self._applied = len(self.entries)

    def add(self, *entries: CoordinatorRecord) -> None:
        self.entries.extend(entries)

    @property
    def group(self) -> ConsumerGroup:
        if self._applied < len(self.entries):
            if self._real:
                self._group, self._real = self._group.copy(), False
            for entry in self.entries[self._applied :]:
                take_record(self._group, entry.key, entry.value)
            self._applied = len(self.entries)
        return self._group


# Which epoch


def refresh(draft: GroupDraft, facts: GroupFacts, changed: bool) -> None:
    """Increases the group epoch if `changed`, or if the subscribed topics changed."""
    group = draft.group
    names: object = facts.image.names
    now = (facts.image.topics, facts.image.brokers, names, facts.rules)
    if (
        not changed
        and len(group.seen) == len(now)
        and all(a is b for a, b in zip(group.seen, now, strict=True))
    ):
        return
    all_known = True
    for regex in sorted({member.regex for member in group.members.values() if member.regex}):
        expression = facts.expressions.find(regex, facts.image.names, facts.now_ms)
        topics = _within_tenant(group.id, expression.topics, facts.image)
        before = group.resolved.get(regex)
        if facts.viewers:
            members = [member.id for member in group.members.values() if member.regex == regex]
            viewers = [facts.viewers[member_id] for member_id in members if member_id in facts.viewers]
            topics = frozenset(name for name in topics if all(viewer.sees(name) for viewer in viewers))
            if len(viewers) < len(members):
                # After a failover: who else subscribes is known with the next heartbeats, and gets nothing new before.
                topics &= topics if before is None else before.topics
                all_known = False
        if before is None or before.topics != topics:
            resolved = ResolvedRegex(topics, facts.image.revision, facts.now_ms)
            draft.add(regex_entry(group.id, regex, resolved))
            changed = True
        if expression.names is not names:
            names = expression.names  # older metadata: the next heartbeat resolves the expression again
    if not all_known:
        names = object()  # so does it here
    group = draft.group
    hashed = metadata_hash(_within_tenant(group.id, group.topics, facts.image), facts.image)
    if changed or hashed != group.metadata_hash:
        draft.add(epoch_entry(group.id, group.epoch + 1, hashed))
    draft.seen = (facts.image.topics, facts.image.brokers, names, facts.rules)


def _within_tenant(group: str, topics: frozenset[str], image: Image) -> frozenset[str]:
    """A tenant's group is assigned nothing but the tenant's topics, whatever an expression matches or a classic member
    names in its subscription, which no guard reads."""
    tenant = tenant_of_name(image, group)
    if tenant is None:
        return topics
    prefix = prefix_of(tenant)
    return frozenset(name for name in topics if name.startswith(prefix))


def metadata_hash(topics: Iterable[str], image: Image) -> int:
    """Changes when a topic is created, deleted, recreated, gets partitions, or has replicas in other racks."""
    digest = blake2b(digest_size=_HASH.size)
    empty = True
    for name in sorted(topics):
        topic = image.topics.get(name)
        if topic is None:
            continue
        empty = False
        digest.update(topic.id.bytes)
        digest.update(_COUNT.pack(len(topic.partitions)))
        for partition in topic.partitions:
            racks = sorted(
                {image.brokers[node].rack or "" for node in partition.replicas if node in image.brokers}
            )
            if any(racks):
                digest.update("\0".join([str(partition.index), *racks]).encode())
    return 0 if empty else int(_HASH.unpack(digest.digest())[0])


# Which target


def wait_ms(group: ConsumerGroup, facts: GroupFacts) -> int:
    """The time until the assignment interval allows the next target; 0 if it is due."""
    interval = facts.group_config.consumer_assignment_interval_ms
    if not group.assignment_ms or not interval:
        return 0
    return max(group.assignment_ms + interval - facts.now_ms, 0)


def assign(draft: GroupDraft, facts: GroupFacts) -> None:
    """Computes the target for the newest epoch, if there is none yet and the assignment interval allows it."""
    group = draft.group
    if group.assignment_epoch >= group.epoch or wait_ms(group, facts):
        return
    members = [
        MemberSubscription(
            member.id,
            member.instance_id,
            topic_ids(_within_tenant(group.id, group.topics_of(member), facts.image), facts.image),
            group.targets.get(member.id, NO_PARTITIONS),
        )
        for member in group.members.values()
    ]
    counts = {}
    for member in members:
        for topic_id in member.topics:
            if topic_id not in counts:
                topic = facts.image.topic_by_id(topic_id)
                counts[topic_id] = 0 if topic is None else len(topic.partitions)
    assignment = ASSIGNORS[assignor_of(group, facts.config)](members, counts)
    for member in members:
        if group.targets.get(member.id) != assignment[member.id]:
            draft.add(target_entry(group.id, member.id, assignment[member.id]))
    draft.add(target_epoch_entry(group.id, group.epoch, facts.now_ms))


def assignor_of(group: ConsumerGroup, config: BrokerConfig) -> str:
    """The assignor that most members ask for, or the broker's first."""
    served = config.group_consumer_assignors
    votes = Counter(member.assignor for member in group.members.values() if member.assignor in served)
    name = min(votes, key=lambda name: (-votes[name], name or ""), default=None)
    return name or served[0]


def topic_ids(topics: Iterable[str], image: Image) -> frozenset[UUID]:
    """The ids of those topics that exist."""
    return frozenset(topic.id for name in topics if (topic := image.topics.get(name)) is not None)


def goal_of(
    group: ConsumerGroup,
    member: ConsumerMember,
    image: Image,
    owned: Partitions | None = None,
    resubscribed: bool = False,
) -> ReconciliationGoal:
    return ReconciliationGoal(
        group.assignment_epoch,
        group.targets.get(member.id, NO_PARTITIONS),
        topic_ids(group.topics_of(member), image),
        group.owner,
        owned,
        resubscribed,
    )
