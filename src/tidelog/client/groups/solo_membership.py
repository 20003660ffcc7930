"""A reader without a group: it has all partitions of the topics it wants.  Pure; the same interface as the
memberships, so that a consumer needs to know no difference."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from typing import Any

from tidelog import errors
from tidelog.client.groups.membership import AssignmentChange, CoordinatorRequest, MetadataLookup, ordered
from tidelog.client.groups.metadata import GroupMetadata
from tidelog.types import TopicPartition


class SoloMembership:
    def __init__(self, look_every_ms: int, missing_every_ms: int) -> None:
        """Topics are looked at again for new partitions; more often while one of them is missing."""
        self.change: AssignmentChange | None = None
        self.problem: errors.TidelogError | None = None
        self.rebalances = 0
        self.looked = False
        self._look_every_ms = look_every_ms
        self._missing_every_ms = missing_every_ms
        self._topics: tuple[str, ...] | None = None
        self._owned: tuple[TopicPartition, ...] = ()
        self._next_ms = 0.0

    @property
    def in_group(self) -> bool:
        return False

    @property
    def identity(self) -> GroupMetadata:
        return GroupMetadata("")

    def subscribed(self, topics: Collection[str], pattern: str | None = None) -> None:
        if tuple(topics) != self._topics:
            self._topics = tuple(topics)
            self._next_ms = 0.0

    def due(self, now_ms: float) -> CoordinatorRequest | MetadataLookup | None:
        if self._topics is None or now_ms < self._next_ms or self.change is not None:
            return None
        return MetadataLookup(topics=self._topics)

    def next_ms(self) -> float | None:
        return self._next_ms if self.change is None and self._topics is not None else None

    def answered(self, answer: Any, now_ms: float) -> None:
        raise AssertionError("a consumer without a group sends nothing to a coordinator")

    def failed(self, problem: errors.TidelogError, now_ms: float, wait_ms: float) -> None:
        if problem.retriable:
            self._next_ms = now_ms + wait_ms
        else:
            self.problem = problem

    def looked_up(self, partitions: Mapping[str, int], names: Mapping[uuid.UUID, str], now_ms: float) -> None:
        self.looked = True
        topics = self._topics or ()
        missing = any(not partitions.get(topic) for topic in topics)
        self._next_ms = now_ms + (self._missing_every_ms if missing else self._look_every_ms)
        wanted = {TopicPartition(topic, at) for topic in topics for at in range(partitions.get(topic, 0))}
        before = set(self._owned)
        if wanted != before:
            self.rebalances += 1
            self.change = AssignmentChange(
                owned=ordered(wanted), revoked=ordered(before - wanted), added=ordered(wanted - before)
            )

    def seen(self, partitions: Mapping[str, int]) -> None:
        """Does nothing: this membership looks at the topics by itself."""

    def applied(self) -> None:
        if self.change is not None:
            self._owned, self.change = self.change.owned, None

    def expired(self) -> None:
        """No other member waits for its partitions."""

    def leave(self) -> CoordinatorRequest | None:
        self._topics = None
        return None
