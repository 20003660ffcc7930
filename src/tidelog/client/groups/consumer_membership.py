"""Membership in a group of the consumer protocol (KIP-848): a heartbeat reports the member's changes to the coordinator,
and the answer brings the assignment.  Pure.

The coordinator assigns a partition to another member only after its owner has reported that it revoked the partition.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from typing import Any

from tidelog import errors
from tidelog.client.cluster.response_errors import problem_of
from tidelog.client.groups.membership import AssignmentChange, CoordinatorRequest, MetadataLookup, ordered
from tidelog.client.groups.metadata import GroupMetadata
from tidelog.types import TopicPartition
from tidelog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_FOR_NOW_EPOCH = -2  # a static member, whose place is kept
NO_EPOCH = -1
UNCHANGED_TIMEOUT = -1
FORGOTTEN = (errors.UnknownMemberId.code, errors.FencedMemberEpoch.code)
# A member without partitions asks more often at first: they may be on their way to it.
EMPTY_HANDED_MS = 100


class ConsumerMembership:
    def __init__(
        self,
        group_id: str,
        member_id: str,
        *,
        rebalance_timeout_ms: int,
        instance_id: str | None = None,
        rack: str | None = None,
        server_assignor: str | None = None,
    ) -> None:
        self.change: AssignmentChange | None = None
        self.problem: errors.TidelogError | None = None
        self.rebalances = 0
        self._group_id = group_id
        self._member_id = member_id
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._instance_id = instance_id
        self._rack = rack
        self._server_assignor = server_assignor
        self._epoch = JOIN_EPOCH
        self._joined = False
        self._active = False
        self._fresh = True  # the next heartbeat tells everything
        self._topics: tuple[str, ...] | None = None
        self._pattern: str | None = None
        self._sent_subscription: tuple[tuple[str, ...] | None, str | None] | None = None
        self._target: dict[uuid.UUID, list[int]] | None = None
        self._names: dict[uuid.UUID, str] = {}
        self._owned: tuple[TopicPartition, ...] = ()
        self._acknowledged: tuple[TopicPartition, ...] = ()
        self._leaving: CoordinatorRequest | None = None
        self._in_flight: CoordinatorRequest | MetadataLookup | None = None
        self._in_flight_state: tuple[Any, tuple[TopicPartition, ...]] = (None, ())
        self._beat_every_ms = 0
        self._empty_handed_ms = EMPTY_HANDED_MS
        self._beat_ms = 0.0
        self._not_before_ms = 0.0
        self._look_up_ms = 0.0

    @property
    def in_group(self) -> bool:
        return self._joined

    @property
    def identity(self) -> GroupMetadata:
        epoch = self._epoch if self._joined else NO_EPOCH
        return GroupMetadata(self._group_id, epoch, self._member_id, self._instance_id)

    # What is wanted

    def subscribed(self, topics: Collection[str], pattern: str | None = None) -> None:
        self._topics = tuple(sorted(topics)) if pattern is None else None
        self._pattern = pattern
        self._active = True

    def seen(self, partitions: Mapping[str, int]) -> None:
        """Metadata are the coordinator's business here."""

    def expired(self) -> None:
        if self._joined:
            self._leaving = self._leave_request()
            self._forget()

    def applied(self) -> None:
        change, self.change = self.change, None
        if change is not None:
            self._owned = change.owned
            if change.lost:
                self._active = True
            self._reconcile()

    def leave(self) -> CoordinatorRequest | None:
        request = self._leaving
        if request is None and self._joined:
            request = self._leave_request()
        self._active = self._joined = False
        return request

    def _leave_request(self) -> CoordinatorRequest:
        epoch = LEAVE_EPOCH if self._instance_id is None else LEAVE_FOR_NOW_EPOCH
        return self._ask(epoch)

    def _ask(self, epoch: int) -> CoordinatorRequest:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            member_epoch=epoch,
            instance_id=self._instance_id,
            rebalance_timeout_ms=UNCHANGED_TIMEOUT,
            subscribed_topic_names=None,
            topic_partitions=None,
        )
        return CoordinatorRequest(request, ConsumerGroupHeartbeatResponse)

    def _forget(self) -> None:
        """The coordinator does not know this member any more, or must not."""
        self._epoch, self._joined, self._fresh = JOIN_EPOCH, False, True
        self._target = None
        self._acknowledged = ()
        self.change = None
        if self._owned:
            # It joins again when the reader has let go.
            self._active = False
            self.change = AssignmentChange(owned=(), lost=self._owned)

    # What to do next

    def due(self, now_ms: float) -> CoordinatorRequest | MetadataLookup | None:
        self._in_flight = self._due(now_ms)
        return self._in_flight

    def _due(self, now_ms: float) -> CoordinatorRequest | MetadataLookup | None:
        if self._leaving is not None:
            return self._leaving
        if self.problem is not None or now_ms < self._not_before_ms or not self._active:
            return None
        unnamed = [topic_id for topic_id in self._target or () if topic_id not in self._names]
        if unnamed and now_ms >= self._look_up_ms:
            return MetadataLookup(ids=tuple(unnamed))
        news = self._sent_subscription != (self._topics, self._pattern) or self._acknowledged != self._owned
        if self._fresh or news or now_ms >= self._beat_ms:
            return self._heartbeat()
        return None

    def next_ms(self) -> float | None:
        if self.problem is not None or not self._active:
            return None
        return max(self._beat_ms, self._not_before_ms)

    def _heartbeat(self) -> CoordinatorRequest:
        ask = self._ask(self._epoch)
        request = ask.request
        subscription = (self._topics, self._pattern)
        if self._fresh:
            request.rack_id = self._rack
            request.rebalance_timeout_ms = self._rebalance_timeout_ms
            request.server_assignor = self._server_assignor
        if self._fresh or self._sent_subscription != subscription:
            request.subscribed_topic_names = [] if self._topics is None else list(self._topics)
            if self._pattern is not None or self._sent_subscription is not None:
                request.subscribed_topic_regex = self._pattern or ""
        if self._fresh or self._acknowledged != self._owned:
            request.topic_partitions = self._owned_by_id()
        self._in_flight_state = (subscription, self._owned)
        return ask

    def _owned_by_id(self) -> list[TopicPartitions]:
        ids = {name: topic_id for topic_id, name in self._names.items()}
        topics: dict[uuid.UUID, list[int]] = {}
        for topic, index in self._owned:
            topics.setdefault(ids[topic], []).append(index)
        return [TopicPartitions(topic_id, indexes) for topic_id, indexes in topics.items()]

    # What came of it

    def answered(self, answer: ConsumerGroupHeartbeatResponse, now_ms: float) -> None:
        self._in_flight = None
        if self._leaving is not None:
            self._leaving = None
            return
        self._beat_ms = now_ms + self._beat_every_ms
        if answer.error_code in FORGOTTEN:
            self._forget()
            return
        if answer.error_code != errors.NONE:
            raise problem_of(answer.error_code, f"group {self._group_id!r}", answer.error_message)
        self._joined, self._fresh = True, False
        self._sent_subscription, self._acknowledged = self._in_flight_state
        self._epoch = answer.member_epoch
        self._member_id = answer.member_id or self._member_id
        self._beat_every_ms = answer.heartbeat_interval_ms
        self._beat_ms = now_ms + min(self._beat_every_ms, self._patience_ms(answer))
        if answer.assignment is not None:
            self._target = {
                topic.topic_id: list(topic.partitions) for topic in answer.assignment.topic_partitions
            }
            self._look_up_ms = now_ms
            self._reconcile()

    def _patience_ms(self, answer: ConsumerGroupHeartbeatResponse) -> int:
        has_assignment = answer.assignment is not None and bool(answer.assignment.topic_partitions)
        if self._owned or has_assignment:
            self._empty_handed_ms = EMPTY_HANDED_MS
            return self._beat_every_ms
        self._empty_handed_ms *= 2
        return self._empty_handed_ms // 2

    def failed(self, problem: errors.TidelogError, now_ms: float, wait_ms: float) -> None:
        self._in_flight = None
        if self._leaving is not None:
            self._leaving = None
        elif problem.retriable:
            # The coordinator may not have got the request: the next one has all fields again.
            self._fresh = True
            self._not_before_ms = now_ms + wait_ms
        else:
            self.problem = problem

    def looked_up(self, partitions: Mapping[str, int], names: Mapping[uuid.UUID, str], now_ms: float) -> None:
        self._in_flight = None
        self._names.update(names)
        # The coordinator may know a topic before other brokers do.
        self._look_up_ms = now_ms + max(self._beat_every_ms, 1) / 10
        self._reconcile()

    def _reconcile(self) -> None:
        if self._target is None or self.change is not None:
            return
        wanted = {
            TopicPartition(self._names[topic_id], index)
            for topic_id, indexes in self._target.items()
            if topic_id in self._names
            for index in indexes
        }
        before = set(self._owned)
        if all(topic_id in self._names for topic_id in self._target):
            self._target = None
        if wanted != before:
            self.rebalances += 1
            self.change = AssignmentChange(
                owned=ordered(wanted), revoked=ordered(before - wanted), added=ordered(wanted - before)
            )
