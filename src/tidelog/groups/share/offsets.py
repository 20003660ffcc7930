"""Start offsets of share groups: DescribeShareGroupOffsets, AlterShareGroupOffsets, DeleteShareGroupOffsets.

Altering and deleting need an empty group: otherwise the state of acquired records would be lost under their members."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from tidelog import errors
from tidelog.coordination.records import CoordinatorRecord
from tidelog.coordination.shard import Shard
from tidelog.groups.coordinator import Groups
from tidelog.groups.share import heartbeat
from tidelog.groups.share.coordinator import ShareGroups
from tidelog.groups.share.group import ShareGroup, StatePartitions, share_group
from tidelog.groups.share.group_state import UNKNOWN_START, ShareKey, ShareState, lag_of
from tidelog.groups.share.other_brokers import RemotePartitions
from tidelog.groups.share.partitions import SharePartitions
from tidelog.groups.state_machine import GroupStateMachine
from tidelog.wire.messages.share_group_metadata_record import ShareGroupMetadataKey, ShareGroupMetadataValue

UNKNOWN_LAG = -1

Moved = dict[str, dict[int, errors.TidelogError | None]]
Forgotten = dict[str, tuple[UUID | None, errors.TidelogError | None]]


class SharePosition(NamedTuple):
    topic_id: UUID
    index: int  # type: ignore[assignment]  # tuples have a method of this name, of no use here
    start: int
    leader_epoch: int
    lag: int


class ShareOffsets:
    def __init__(
        self, groups: Groups, share_groups: ShareGroups, shares: SharePartitions, elsewhere: RemotePartitions
    ) -> None:
        self._groups = groups
        self._share_groups = share_groups
        self._shares = shares
        self._elsewhere = elsewhere

    # Describing

    async def kept(self, group_id: str) -> dict[UUID, StatePartitions]:
        """The group's partitions with state."""
        try:
            group = await self._share_groups.described(group_id)
        except errors.GroupIdNotFound:
            return {}
        return dict(group.initialized)

    async def position(self, group_id: str, topic_id: UUID, index: int) -> SharePosition:
        state = await self._share_groups.persister.summary(ShareKey(group_id, topic_id, index))
        if state is None or state.start == UNKNOWN_START:
            epoch = 0 if state is None else state.leader_epoch
            return SharePosition(topic_id, index, UNKNOWN_START, epoch, UNKNOWN_LAG)
        lag = await self._lag(topic_id, index, state)
        return SharePosition(topic_id, index, state.start, state.leader_epoch, lag)

    async def _lag(self, topic_id: UUID, index: int, state: ShareState) -> int:
        name = self._groups.image.names.get(topic_id)
        if name is None:
            raise errors.UnknownTopicId(f"no topic has the id {topic_id}")
        return lag_of(state, *await self._elsewhere.bounds(name, index))

    # Altering

    async def alter(self, group_id: str, wanted: Mapping[str, Mapping[int, int]]) -> Moved:
        """Sets start offsets by topic and partition; creates the group if it does not exist.  Returns the error, or
        None, of each partition."""
        shard = self._share_groups.shard(group_id)
        group = self._empty(shard, group_id)
        results: Moved = {}
        kept_by_topic: dict[UUID, StatePartitions] = {}
        for name, starts in wanted.items():
            results[name] = {index: self._refusal(name, index) for index in starts}
            topic = self._groups.image.topics.get(name)
            good = frozenset(index for index, problem in results[name].items() if problem is None)
            if topic is not None and good:
                kept_by_topic[topic.id] = StatePartitions(name, good)
        if not kept_by_topic:
            return results
        epoch = group.epoch + 1
        entries = [
            CoordinatorRecord(
                ShareGroupMetadataKey(group_id), ShareGroupMetadataValue(epoch, group.metadata_hash)
            ),
            *heartbeat.initializing(group, kept_by_topic),
        ]
        timeout_ms = self._groups.commit_timeout_ms
        await shard.committed(shard.append(entries), timeout_ms)
        for topic_id, kept in kept_by_topic.items():
            for index in sorted(kept.partitions):
                results[kept.name][index] = await self._move(
                    ShareKey(group_id, topic_id, index), epoch, wanted[kept.name][index]
                )
        self._shares.reset(group_id, kept_by_topic)
        await self._share_groups.kept(shard, group_id, kept_by_topic)
        return results

    async def _move(self, key: ShareKey, epoch: int, start: int) -> errors.TidelogError | None:
        persister = self._share_groups.persister
        try:
            state = await persister.summary(key)
            await persister.initialize(
                key, epoch if state is None else max(epoch, state.state_epoch + 1), start
            )
        except errors.TidelogError as problem:
            return problem
        return None

    def _refusal(self, name: str, index: int) -> errors.TidelogError | None:
        if self._groups.image.partition(name, index) is None:
            return errors.UnknownTopicOrPartition(f"partition {name}-{index} does not exist")
        return None

    def _empty(self, shard: Shard[GroupStateMachine], group_id: str) -> ShareGroup:
        if group_id not in shard.machine.groups:
            return ShareGroup(group_id)
        group = share_group(shard.machine, group_id)
        group.check_delete()
        return group

    # Deleting

    async def delete(self, group_id: str, names: Iterable[str]) -> Forgotten:
        """Deletes the offsets of topics; returns each topic's id and error."""
        shard = self._share_groups.shard(group_id)
        group = share_group(shard.machine, group_id)
        group.check_delete()
        results: Forgotten = {}
        kept_by_topic: dict[UUID, StatePartitions] = {}
        anywhere = self._share_groups.kept_anywhere(group)
        for name in names:
            topic = self._groups.image.topics.get(name)
            if topic is None:
                results[name] = (None, errors.UnknownTopicOrPartition(f"topic {name} does not exist"))
                continue
            kept = anywhere.get(topic.id)
            if kept is None:
                results[name] = (
                    topic.id,
                    errors.UnknownTopicOrPartition(f"group {group_id} has no offsets of topic {name}"),
                )
                continue
            results[name] = (topic.id, None)
            kept_by_topic[topic.id] = kept
        if kept_by_topic:
            timeout_ms = self._groups.commit_timeout_ms
            about = {topic_id: kept.name for topic_id, kept in kept_by_topic.items()}
            await shard.committed(shard.append(heartbeat.deleting(group, about)), timeout_ms)
            await self._share_groups.delete_states(group_id, kept_by_topic)
            group = share_group(shard.machine, group_id)
            await shard.committed(shard.append(heartbeat.deleted(group, kept_by_topic)), timeout_ms)
        return results
